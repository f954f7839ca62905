//go:build openpbs

package openpbs_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// sent is where MoM has the configuration that PBS has sent it.
const sent = pbsHome + "/mom_priv/hooks/hookhost.CF"

// sendConfiguration makes text the configuration of all nodes, by hookhost. Each has it when the
// command is over. The test leaves none.
func sendConfiguration(t *testing.T, text string) {
	t.Helper()
	t.Cleanup(func() {
		run(nodes[0], "hookhost openpbs config --remove")
		delivered(t, "# no configuration") // the next job's begin takes it over
	})
	write(t, nodes[0], "/run/site.toml", text)
	on(t, nodes[0], "hookhost openpbs config /run/site.toml")
	for _, node := range nodes {
		if !hasConfiguration(node, text) {
			t.Errorf("%s has not the configuration when openpbs config is over", node)
		}
	}
}

// hasConfiguration reports whether a node's MoM has a configuration that ends so.
func hasConfiguration(node, text string) bool {
	out, _ := output("root", node, "cat "+sent)
	return strings.HasSuffix(out, strings.TrimSpace(text))
}

// delivered waits until each MoM has a configuration that ends so.
func delivered(t *testing.T, text string) {
	t.Helper()
	for _, node := range nodes {
		eventually(t, node+" has the configuration", func() bool {
			return hasConfiguration(node, text)
		})
	}
}

// oneOnEach is a job with a chunk on each node.
func oneOnEach(t *testing.T) *job {
	t.Helper()
	return qsub(t, "alice", fmt.Sprintf("-l select=%d:ncpus=1:mem=64mb -l place=scatter", len(nodes)), "sleep 1000")
}

// limits are pids.max of a job by node.
func (j *job) limits() map[string]string {
	j.t.Helper()
	all := map[string]string{}
	for _, node := range nodes {
		all[node] = j.read(node, "pids.max", "pids.max")
	}
	return all
}

func TestConfigurationThatPBSSendsHoldsForTheNextJobOnEachNode(t *testing.T) {
	sendConfiguration(t, "[pids]\nmax = 1234")
	j := oneOnEach(t)
	j.running()
	for node, limit := range j.limits() {
		if limit != "1234" {
			t.Errorf("pids.max on %s: %s, want 1234", node, limit)
		}
	}
	for _, node := range nodes {
		out := on(t, node, "hookhost config show | sed -n '/^\\[pids\\]/,/^$/p' | grep '^max'")
		if out != "max = 1234 # PBS, line 2" {
			t.Errorf("config show on %s: %s", node, out)
		}
	}
}

func TestNodesOwnFileIsInForceInsteadOfPBSs(t *testing.T) {
	node := nodes[len(nodes)-1]
	settings(t, "[pids]\nmax = 777", node)
	sendConfiguration(t, "[pids]\nenabled = true\nmax = 1234\n[memory]\nreserve_percent = 7.5")
	j := oneOnEach(t)
	j.running()
	for at, limit := range j.limits() {
		want := "1234"
		if at == node {
			want = "777"
		}
		if limit != want {
			t.Errorf("pids.max on %s: %s, want %s", at, limit, want)
		}
	}
	out := on(t, node, "hookhost config show")
	for _, line := range []string{"max = 777 # " + ownFile + ", line 2", "reserve_percent = 2.0 # default"} {
		if !strings.Contains(out, "\n"+line+"\n") {
			t.Errorf("config show on %s has no line %q", node, line)
		}
	}
	if out, _ := output("root", node, "hookhost doctor --json"); !strings.Contains(out, sent+": not in force") {
		t.Errorf("doctor on %s does not say that PBS's is not in force: %s", node, out)
	}
	on(t, node, "rm "+ownFile+"; "+reload)
	if out := on(t, node, "hookhost config show"); !strings.Contains(out, "\nmax = 1234 # PBS, line 3\n") {
		t.Errorf("config show on %s without its own file: %s", node, out)
	}
}

func TestConfigurationThatDoesNotHoldIsRefusedBeforeItIsSent(t *testing.T) {
	sendConfiguration(t, "[pids]\nmax = 1234")
	write(t, nodes[0], "/run/wrong.toml", "[pids]\nmax = 1234\n[memory]\ndefualt = \"1gb\"")
	_, err := output("root", nodes[0], "hookhost openpbs config /run/wrong.toml")
	if err == nil || !strings.Contains(err.Error(), `/run/wrong.toml: line 4: unknown key "memory.defualt"`) {
		t.Errorf("openpbs config: %v", err)
	}
	if out := on(t, nodes[0], "hookhost openpbs config"); out != "[pids]\nmax = 1234" {
		t.Errorf("PBS has %q", out)
	}
}

// A configuration may come that a node's older hookhost does not know, or that somebody has given
// to qmgr himself.
func TestConfigurationThatANodeRefusesLeavesTheOneBeforeInForce(t *testing.T) {
	sendConfiguration(t, "[pids]\nmax = 1234")
	first := oneOnEach(t) // whose begin takes it over
	first.running()
	on(t, nodes[0], "qdel -W force "+first.id)

	const refused = "that PBS has sent is refused"
	before, err := said(nodes[0], refused)
	must.NoError(t, err)
	const wrong = "[pids]\nmax = 99\n[memory]\nof_next_year = true"
	write(t, nodes[0], "/run/wrong.txt", wrong)
	on(t, nodes[0], "qmgr -c 'import hook hookhost application/x-config default /run/wrong.txt'")
	delivered(t, wrong)
	j := oneOnEach(t)
	j.running()
	for node, limit := range j.limits() {
		if limit != "1234" {
			t.Errorf("pids.max on %s: %s, want that of before", node, limit)
		}
		out, _ := output("root", node, "hookhost doctor --json")
		for _, part := range []string{sent + `: line 4: unknown key \"memory.of_next_year\"`,
			"not in force, since 20", "the one before is"} {
			if !strings.Contains(out, part) {
				t.Errorf("doctor on %s does not say %q", node, part)
			}
		}
	}
	if after, err := said(nodes[0], refused); err != nil || after != before+1 {
		t.Errorf("the log says it %d times, %v", after-before, err)
	}

	// A daemon that starts meanwhile goes on with the one before, too.
	must.NoError(t, restartDaemon(nodes[0]))
	again := oneOnEach(t)
	again.running()
	if limit := again.limits()[nodes[0]]; limit != "1234" {
		t.Errorf("pids.max after a restart: %s, want that of before", limit)
	}

	on(t, nodes[0], "hookhost openpbs config /run/site.toml")
	eventually(t, "doctor says nothing once it is mended", func() bool {
		out, _ := output("root", nodes[0], "hookhost doctor || :")
		return !strings.Contains(out, "not in force, since")
	})
}

// A daemon may be restarted at any moment, by an upgrade or after a crash.
func TestRestartUnderANewPrefixThatPBSHasSentLosesNoJob(t *testing.T) {
	j := qsub(t, "alice", "-l select=1:ncpus=1:mem=256mb:host="+nodes[0],
		"python3 -c 'x = bytearray(100 << 20); import time; time.sleep(1000)'")
	j.running()
	had := j.cgroups(nodes[0])
	sendConfiguration(t, "[cgroup]\nprefix = \"site_jobs\"")
	must.NoError(t, restartDaemon(nodes[0]))
	if now := j.cgroups(nodes[0]); len(had) == 0 || !slices.Equal(now, had) {
		t.Errorf("cgroups of job %s: %v before the restart, %v after it", j.id, had, now)
	}
	if out, _ := output("root", nodes[0], "hookhost doctor --json"); !strings.Contains(out, `cgroup.prefix (\"pbs_jobs\" in force, \"site_jobs\" in the file)`) {
		t.Errorf("doctor says nothing of the prefix: %s", out)
	}
	on(t, nodes[0], "qdel "+j.id)
	if used := fmt.Sprint(j.finished().ResourcesUsed["mem"]); len(used) < len("100000kb") {
		t.Errorf("resources_used.mem of job %s: %s", j.id, used)
	}
	j.gone()
}

func TestShimSettingOfTheConfigurationHoldsWhileTheDaemonIsDown(t *testing.T) {
	sendConfiguration(t, `[memory]
enabled = true
[shim]
wait = "0s" # at once
unconfined = true`)
	for _, node := range nodes {
		on(t, node, stopDaemon)
		t.Cleanup(func() {
			if err := run(node, startDaemon); err != nil {
				t.Error(err)
			}
		})
	}
	j := qsub(t, "alice", "-l select=1:ncpus=1:mem=64mb", "exit 3")
	if a := j.finished(); a.ExitStatus == nil || *a.ExitStatus != 3 {
		t.Errorf("exit status %v of a job that runs without a daemon", a.ExitStatus)
	}
}
