//go:build openpbs

package openpbs_test

import (
	"strings"
	"testing"
)

// A limit that is lowered needs no CAP_SYS_RESOURCE, which the lab's root may lack.
func TestLimitsOfProcessesHoldInWhatPBSStarts(t *testing.T) {
	node := nodes[len(nodes)-1]
	settings(t, "[rlimits]\nnofile = \"512\"", node)
	j := qsub(t, "alice", "-j oe -l select=1:ncpus=1:mem=64mb:host="+node+" -l pvmem=3gb",
		"ulimit -v; ulimit -n; pbs_tmrsh "+node+" /bin/bash -c 'ulimit -v; ulimit -n'")
	j.succeeds()
	out := as(t, "alice", nodes[0], "cat STDIN.o"+strings.SplitN(j.id, ".", 2)[0])
	if got := strings.Join(strings.Fields(out), " "); got != "3145728 512 3145728 512" {
		t.Errorf("ulimit -v and -n in the script and in a task: %s", got)
	}
}

// MoM sets RLIMIT_AS to vmem, if the scheduler gives the job some, and hookhost lifts it. The lab's
// root may not be able to.
func TestOwnerReadsWhereRLIMIT_ASCouldNotBeLifted(t *testing.T) {
	const config = pbsHome + "/sched_priv/sched_config"
	const reread = "kill -HUP $(cat " + pbsHome + "/sched_priv/sched.lock)"
	t.Cleanup(func() { on(t, nodes[0], `sed -i '/^resources:/s/, vmem"/"/' `+config+"; "+reread) })
	on(t, nodes[0], `sed -i '/^resources:/s/"$/, vmem"/' `+config+"; "+reread)
	node := nodes[len(nodes)-1]
	j := qsub(t, "alice", "-l select=1:ncpus=1:mem=64mb:vmem=128mb:host="+node, "ulimit -v")
	if a := j.succeeds(); !strings.Contains(a.ExecVnode, ":vmem=") {
		t.Fatalf("exec_vnode without vmem: %s", a.ExecVnode)
	}
	lifted := as(t, "alice", nodes[0], "cat STDIN.o"+j.short()) == "unlimited"
	if told := strings.Contains(j.stderr(), "RLIMIT_AS (ulimit -v) could not be lifted"); told == lifted {
		t.Errorf("RLIMIT_AS is lifted: %t; standard error: %s", lifted, j.stderr())
	}
}
