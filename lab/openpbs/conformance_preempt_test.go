//go:build openpbs

package openpbs_test

import (
	"testing"
)

func TestPreemptedJobGivesItsPlaceOnAllNodesAndIsRestarted(t *testing.T) {
	needNodes(t, 2)
	const config = pbsHome + "/mom_priv/config"
	for _, node := range nodes {
		t.Cleanup(func() {
			if err := causes(node, "sed -i '/^$action/d' "+config+"; "+hangUp, "event=exechost_startup"); err != nil {
				t.Error(err)
			}
		})
		on(t, node, `cd /run; printf '#!/bin/sh\nkill $1\n' >checkpoint; printf '#!/bin/sh\nexec sleep 20\n' >restart; chmod 700 checkpoint restart
echo '$action checkpoint_abort 30 !/run/checkpoint %sid
$action restart 30 !/run/restart %sid' >>`+config+"; "+hangUp)
	}
	t.Cleanup(func() {
		for _, directive := range []string{"set sched preempt_order = SCR", "delete queue express"} {
			if _, err := output("root", nodes[0], "qmgr -c '"+directive+"'"); err != nil {
				t.Error(err)
			}
		}
	})
	qmgr(t, "create queue express queue_type=e,started=true,enabled=true,priority=200", "set sched preempt_order = C")

	const options = "-l select=1:ncpus=1:host=node1+1:ncpus=1:host=node2 -l place=scatter:exclhost "
	hasCgroups := func(j *job) {
		t.Helper()
		for _, node := range nodes {
			if len(j.cgroups(node)) == 0 {
				t.Errorf("%s has no cgroup of job %s", node, j.id)
			}
		}
	}
	first := qsub(t, "alice", options, "sleep 600")
	first.running()
	hasCgroups(first)
	second := qsub(t, "alice", options+"-q express", "sleep 600")
	if a := second.running(); a.RunCount != 1 {
		t.Errorf("the preemptor was started %d times", a.RunCount)
	}
	hasCgroups(second)
	for _, node := range nodes { // a sister ends its part when the mother superior's has ended
		eventually(t, node+" has no cgroup of the preempted job", func() bool { return len(first.cgroups(node)) == 0 })
	}
	if a := first.attributes(); a.State != "Q" {
		t.Errorf("the preempted job is in state %s", a.State)
	}
	on(t, nodes[0], "qdel "+second.id)
	second.finished()
	// The restart script goes on, so that the job does not get beyond its begin.
	eventually(t, "both nodes have a cgroup of job "+first.id+" again", func() bool {
		return len(first.cgroups(nodes[0])) > 0 && len(first.cgroups(nodes[1])) > 0
	})
	second.gone()
	first.deleted()
}
