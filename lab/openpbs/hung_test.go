//go:build openpbs

package openpbs_test

import (
	"strings"
	"testing"
	"time"
)

// daemonOf is how a node's daemon is found.
const daemonOf = "$(" + daemonPid + ")"

// TestStoppedDaemonHoldsMoMForSecondsAndTheJobRunsLater stops a daemon, which the kernel takes
// events for. MoM's alarm would be over after 90 s.
func TestStoppedDaemonHoldsMoMForSecondsAndTheJobRunsLater(t *testing.T) {
	node := nodes[len(nodes)-1]
	on(t, node, "kill -STOP "+daemonOf)
	free := func() bool { return strings.Contains(on(t, nodes[0], "pbsnodes "+node), "state = free") }
	t.Cleanup(func() {
		output("root", node, "kill -CONT "+daemonOf)
		// The first exechost_periodic that is answered would do so within two minutes.
		output("root", nodes[0], "pbsnodes -r "+node+"; qmgr -c 'unset node "+node+" comment'")
		output("root", node, "rm -f "+pbsHome+"/mom_priv/hooks/hookhost.offline")
		eventually(t, node+" is free", 20*time.Second, free)
	})
	began := time.Now()
	j := qsub(t, "alice", "-l select=1:ncpus=1:mem=64mb:host="+node, "true")
	eventually(t, node+" is offline", 40*time.Second, func() bool {
		return strings.Contains(on(t, nodes[0], "pbsnodes "+node), "comment = Hook hookhost: the daemon does not answer")
	})
	t.Logf("the begin was given up %.0f s after qsub", time.Since(began).Seconds())
	eventually(t, "job "+j.id+" is queued again", 20*time.Second, func() bool { return j.attributes().State == "Q" })
	log := on(t, node, "grep 'execjob_begin of job "+j.id+": rejected' "+pbsHome+"/mom_logs/* | tail -1")
	if !strings.Contains(log, "no sign of life in 5 s: it is stopped or stuck") {
		t.Errorf("MoM's log: %s", log)
	}
	on(t, node, "kill -CONT "+daemonOf)
	eventually(t, "the begin is refused", 20*time.Second, func() bool {
		return strings.Contains(on(t, node, readDaemonLog+" | tail"), "execjob_begin of job "+j.id+": pbs_mom has given it up before it was read")
	})
	if left := j.cgroups(node); len(left) > 0 {
		t.Errorf("a begin that nobody waits for has made %v", left)
	}
	on(t, nodes[0], "pbsnodes -r "+node)
	if a := j.finished(); a.ExitStatus == nil || *a.ExitStatus != 0 {
		t.Errorf("exit status of job %s: %v", j.id, a.ExitStatus)
	}
	j.gone()
}
