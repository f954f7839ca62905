//go:build openpbs

package openpbs_test

import (
	"strings"
	"testing"
)

// PBS passes the message of a reject on to the job's comment if the scheduler is set so, as
// docs/openpbs-reference.md says. The default is that it does not.
func TestHeldJobSaysWhyIfTheSchedulerWaitsForItsBegin(t *testing.T) {
	t.Cleanup(func() { on(t, nodes[0], "qmgr -c 'set sched default job_run_wait = runjob_hook'") })
	on(t, nodes[0], "qmgr -c 'set sched default job_run_wait = execjob_hook'")
	node := nodes[len(nodes)-1]
	const refused = ` -v $'EVIL=a\npbs.event().job.Resource_List[vmem]=10gb'`
	j := qsub(t, "alice", "-l select=1:ncpus=0:mem=50mb:host="+node+refused, "sleep 1000")
	var comment string
	eventually(t, "the held job's comment has hookhost's message", func() bool {
		a := j.attributes()
		if a.State == "H" && a.Comment != comment {
			comment = a.Comment
			t.Log(comment)
		}
		return a.State == "H" && strings.Contains(comment, "hookhost: execjob_begin of job "+j.id+": rejected: ")
	})
	j.forced()
}
