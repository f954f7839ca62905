//go:build openpbs

package openpbs_test

import (
	"strings"
	"testing"
	"time"
)

// momOf is where a node's MoM keeps its pid.
const momOf = "$(cat " + pbsHome + "/mom_priv/mom.lock)"

// TestRestartedMoMsJobsEndWhereItHasForgottenThemAlone kills the MoM of a sister, and restarts it
// as an administrator would: it forgets its jobs. That of the other node is restarted with -p: it
// knows its job.
func TestRestartedMoMsJobsEndWhereItHasForgottenThemAlone(t *testing.T) {
	needNodes(t, 2)
	lost := qsub(t, "alice", "-l select=2:ncpus=1:mem=64mb -l place=scatter", "/opt/pbs/bin/pbsdsh -- /bin/sleep 300")
	lost.running()
	eventually(t, "the sister runs its part", 20*time.Second, func() bool {
		return on(t, nodes[1], "pgrep -u alice -x sleep || :") != ""
	})
	on(t, nodes[1], "kill -KILL "+momOf)
	on(t, nodes[0], "qdel -W force "+lost.id)
	on(t, nodes[1], "/opt/pbs/sbin/pbs_mom")
	began := time.Now()

	kept := qsub(t, "alice", "-l select=1:ncpus=1:mem=64mb:host="+nodes[0], "sleep 45")
	kept.running()
	on(t, nodes[0], "kill -KILL "+momOf+"; sleep 1; /opt/pbs/sbin/pbs_mom -p")
	eventually(t, nodes[1]+" has nothing left", time.Minute, func() bool {
		return len(lost.cgroups(nodes[1])) == 0 && on(t, nodes[1], "pgrep -u alice -x sleep || :") == ""
	})
	t.Logf("what the sister had was gone %.0f s after the start of its MoM", time.Since(began).Seconds())
	lost.gone()
	time.Sleep(time.Until(began.Add(38 * time.Second))) // the other daemon has looked for its jobs by then
	if len(kept.cgroups(nodes[0])) == 0 {
		t.Errorf("%s has no cgroup of job %s, which lives", nodes[0], kept.id)
	}
	if a := kept.finished(); a.ExitStatus == nil || *a.ExitStatus != 0 {
		t.Errorf("exit status of job %s: %v", kept.id, a.ExitStatus)
	}
	kept.gone()
}

// rejecting is a hook of the site, behind hookhost, that rejects each begin on a node.
func rejecting(t *testing.T, node string) {
	t.Helper()
	on(t, nodes[0], `cat >/run/reject.py <<'END'
import pbs
if pbs.get_local_nodename() == "`+node+`":
    pbs.event().reject("not here")
END
qmgr -c 'create hook reject'
qmgr -c 'set hook reject event = execjob_begin'
qmgr -c 'set hook reject order = 300'
qmgr -c 'import hook reject application/x-python default /run/reject.py'`)
	t.Cleanup(func() { output("root", nodes[0], "qmgr -c 'delete hook reject'") })
	eventually(t, node+" has the hook", 20*time.Second, func() bool {
		return on(t, node, "ls "+pbsHome+"/mom_priv/hooks/reject.PY 2>/dev/null || :") != ""
	})
}

// TestRoomOfABeginThatAnotherHookRejectedIsTheNextJobs has a begin rejected behind hookhost's, of
// which MoM sends nothing more, and wants the whole node then.
func TestRoomOfABeginThatAnotherHookRejectedIsTheNextJobs(t *testing.T) {
	node := nodes[len(nodes)-1]
	rejecting(t, node)
	j := qsub(t, "alice", "-l select="+chunks()+":ncpus=1:mem=64mb -l place=scatter", "true")
	eventually(t, "the begin is rejected", 20*time.Second, func() bool {
		return strings.Contains(on(t, node, "grep -c '"+j.id+".*not here' "+pbsHome+"/mom_logs/* /dev/null | grep -v ':0$' || :"), ":")
	})
	on(t, nodes[0], "qdel -W force "+j.id)
	on(t, nodes[0], "qmgr -c 'delete hook reject'")
	eventually(t, "the hook is gone", 20*time.Second, func() bool {
		return on(t, node, "ls "+pbsHome+"/mom_priv/hooks/reject.PY 2>/dev/null || :") == ""
	})
	if len(j.cgroups(node)) == 0 {
		t.Logf("job %s has no cgroup on %s any more: nothing is tested", j.id, node)
	}
	all := on(t, node, "nproc")
	next := qsub(t, "alice", "-l select=1:ncpus="+all+":mem=64mb:host="+node, "true")
	if a := next.finished(); a.ExitStatus == nil || *a.ExitStatus != 0 {
		t.Errorf("exit status of job %s: %v", next.id, a.ExitStatus)
	}
	j.gone()
	next.gone()
}

// chunks is one for each node.
func chunks() string { return map[int]string{1: "1", 2: "2"}[len(nodes)] }
