//go:build openpbs

package openpbs_test

import (
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

func TestJobWhoseSisterDiesAtItsBeginLeavesNothingAndRunsAgain(t *testing.T) {
	needNodes(t, 2)
	head, sister := nodes[0], nodes[1]
	lock := "$(" + momPid + ")"
	on(t, sister, "kill -STOP "+lock)
	t.Cleanup(func() {
		// Whatever became of MoM, it runs afterwards.
		if err := run(sister, "kill -CONT "+lock+" 2>/dev/null || exit 1"); err != nil {
			if err := momIsUp(sister, goesOn); err != nil {
				t.Error(err)
			}
		}
	})
	j := qsub(t, "alice", "-l select=1:ncpus=1:host="+head+"+1:ncpus=1:host="+sister, "sleep 600")
	j.started()
	eventually(t, head+" has a cgroup of job "+j.id, func() bool { return len(j.cgroups(head)) > 0 })
	on(t, sister, "kill -KILL "+lock)
	eventually(t, "job "+j.id+" is queued again", func() bool { return j.attributes().State == "Q" })
	eventually(t, head+" has nothing left of job "+j.id, func() bool {
		return len(j.cgroups(head)) == 0
	})
	j.endedByMoM(head)
	must.NoError(t, momIsUp(sister, goesOn))
	j.running()
	for _, node := range nodes {
		if len(j.cgroups(node)) == 0 {
			t.Errorf("%s has no cgroup of job %s, which runs again", node, j.id)
		}
	}
	j.forced()
}
