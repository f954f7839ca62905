//go:build openpbs

package openpbs_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/must"
)

// daemonLog is where a daemon writes that no unit has started.
const daemonLog = "/run/hookhost.log"

// daemonPid and readDaemonLog are shell lines: one prints the daemon's pid, the other all that it
// has logged.
const (
	daemonPid     = `pgrep -f '^[^ ]*hookhost serve$'`
	readDaemonLog = `{ if [ -e ` + daemonLog + ` ]; then cat ` + daemonLog + `
else journalctl -q -o cat -u hookhost; fi; }`
)

// startDaemon starts a daemon that lives on, as its unit where there is systemd. Then it waits
// until the daemon answers: to others than root a daemon alone does.
const startDaemon = `if [ -d /run/systemd/system ]; then systemctl start hookhost; exit; fi
setsid hookhost serve >>` + daemonLog + ` 2>&1 </dev/null &
for i in $(seq 1000); do runuser -u nobody -- hookhost jobs >/dev/null 2>&1 && exit 0; sleep 0.1; done
echo no answer: >&2; tail -5 ` + daemonLog + ` >&2; exit 1`

// stopDaemon stops the daemon, if one runs, and waits for its end.
const stopDaemon = `if [ -d /run/systemd/system ]; then systemctl stop hookhost; exit; fi
pid=$(` + daemonPid + `) || exit 0
kill $pid
for i in $(seq 1000); do kill -0 $pid 2>/dev/null || exit 0; sleep 0.1; done; exit 1`

// restartDaemon starts hookhost of a node anew, as a changed prefix needs it.
func restartDaemon(node string) error {
	return errors.Join(run(node, stopDaemon), run(node, startDaemon))
}

// TestStoppedDaemonHoldsMoMForSecondsAndTheJobRunsLater stops a daemon, which the kernel takes
// events for. MoM's alarm would be over after 90 s.
func TestStoppedDaemonHoldsMoMForSecondsAndTheJobRunsLater(t *testing.T) {
	node := nodes[len(nodes)-1]
	on(t, node, "kill -STOP $("+daemonPid+")")
	free := func() bool { return strings.Contains(on(t, nodes[0], "pbsnodes "+node), "state = free") }
	t.Cleanup(func() {
		output("root", node, "kill -CONT $("+daemonPid+")")
		// The first exechost_periodic that is answered would do so within two minutes.
		output("root", nodes[0], "pbsnodes -r "+node+"; qmgr -c 'unset node "+node+" comment'")
		output("root", node, "rm -f "+pbsHome+"/mom_priv/hooks/hookhost.offline")
		eventually(t, node+" is free", free)
	})
	began := time.Now()
	j := qsub(t, "alice", small(node), "true")
	eventually(t, node+" is offline", func() bool {
		return strings.Contains(on(t, nodes[0], "pbsnodes "+node),
			"comment = Hook hookhost: the daemon does not answer")
	})
	t.Logf("the begin was given up %.0f s after qsub", time.Since(began).Seconds())
	eventually(t, "job "+j.id+" is queued again", func() bool { return j.attributes().State == "Q" })
	log := on(t, node, "grep 'execjob_begin of job "+j.id+": rejected' "+pbsHome+"/mom_logs/* | tail -1")
	if !strings.Contains(log, "no sign of life in 5 s: it is stopped or stuck") {
		t.Errorf("MoM's log: %s", log)
	}
	on(t, node, "kill -CONT $("+daemonPid+")")
	eventually(t, "the begin is refused", func() bool {
		return strings.Contains(on(t, node, readDaemonLog+" | tail"),
			"execjob_begin of job "+j.id+": pbs_mom has given it up before it was read")
	})
	if left := j.cgroups(node); len(left) > 0 {
		t.Errorf("a begin that nobody waits for has made %v", left)
	}
	on(t, nodes[0], "pbsnodes -r "+node)
	j.succeeds()
	j.gone()
}

// A job that was suspended while no daemon ran is suspended for hookhost when MoM's lists show it.
func TestSuspensionWithoutADaemonIsLearned(t *testing.T) {
	node := nodes[0]
	j := qsub(t, "alice", small(node), "sleep 1000")
	j.running()
	const learned = "no execjob_postsuspend has come"
	before, err := said(node, learned)
	must.NoError(t, err)
	t.Cleanup(func() { output("root", node, startDaemon) })
	on(t, node, stopDaemon)
	on(t, node, "qsig -s suspend "+j.id)
	on(t, node, startDaemon)
	eventually(t, "the job is suspended", func() bool {
		return strings.Contains(on(t, node, "hookhost jobs"), "suspended")
	})
	if after, err := said(node, learned); err != nil || after != before+1 {
		t.Errorf("the log says it %d times, %v", after-before, err)
	}
	on(t, node, "qsig -s resume "+j.id)
	j.deleted()
}
