//go:build openpbs

package openpbs_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// hookhostState is the server's resource hookhost of a node, "" for none.
func hookhostState(t *testing.T, node string) string {
	t.Helper()
	return on(t, nodes[0], "pbsnodes -v "+node+" | sed -n 's/.*resources_available.hookhost = //p'")
}

// stateBecomes waits until the server has a node's resource hookhost.
func stateBecomes(t *testing.T, node, want string) {
	t.Helper()
	eventually(t, fmt.Sprintf("hookhost of %s is %q", node, want), func() bool {
		return hookhostState(t, node) == want
	})
}

// schedulable makes the scheduler go by a resource of vnodes until the end of the test.
func schedulable(t *testing.T, resource string) {
	t.Helper()
	const config = pbsHome + "/sched_priv/sched_config"
	hup := "; kill -HUP $(cat " + pbsHome + "/sched_priv/sched.lock)"
	on(t, nodes[0], "cp -p "+config+" /run/sched_config; sed -i 's/^resources: \"/&"+resource+", /' "+config+hup)
	t.Cleanup(func() { on(t, nodes[0], "cat /run/sched_config >"+config+hup) })
}

// A job can ask for nodes on which hookhost works. What doctor finds decides which those are.
func TestJobAsksForNodesOnWhichHookhostWorks(t *testing.T) {
	needNodes(t, 2)
	schedulable(t, "hookhost")
	good, bad := nodes[0], nodes[1]
	for _, node := range nodes {
		stateBecomes(t, node, "ok")
	}
	// Its engine is missing.
	settings(t, "[container]\nenabled = true\nprogram = \"/run/engine\"", bad)
	stateBecomes(t, bad, "degraded")
	scrape := strings.NewReplacer(`"POST", "/v1/reload"`, `"GET", "/metrics"`,
		"if r.", "print(r.read().decode())\nif r.").Replace(reload)
	if got := on(t, bad, scrape); !strings.Contains(got, "\nhookhost_doctor_ok 0\n") {
		t.Errorf("the metrics of %s: %s", bad, got)
	}
	const ask = "-l select=1:ncpus=1:mem=64mb:hookhost=ok"
	elsewhere, waits := qsub(t, "alice", ask, "sleep 1000"), qsub(t, "alice", ask+":host="+bad, "sleep 1000")
	if at := elsewhere.running().ExecVnode; !strings.HasPrefix(at, "("+good+":") {
		t.Errorf("a job with hookhost=ok runs on %s", at)
	}
	// The scheduler names what the last vnode lacks that it looked at: hookhost, or host.
	waits.becomes("not running for lack of the resource", func(a attributes) bool {
		return a.State == "Q" && strings.Contains(a.Comment, "Insufficient amount of resource")
	})
	// When root runs doctor, the daemon does so too. Its result counts, not that of a sandbox.
	const sandbox = "unshare -m sh -c 'mount --bind /dev/null /run/engine && ! hookhost doctor'"
	on(t, bad, "cp /bin/true /run/engine; "+sandbox)
	stateBecomes(t, bad, "ok")
	waits.running()

	// The server still has the ok, of which the next MoM does not know.
	on(t, bad, "kill -KILL $("+momPid+")")
	on(t, bad, stopDaemon)
	must.NoError(t, momIsUp(bad, goesOn))
	stateBecomes(t, bad, "degraded")
	on(t, bad, startDaemon)
	stateBecomes(t, bad, "ok")

	settings(t, "[host]\nenabled = false", bad)
	stateBecomes(t, bad, "")
}
