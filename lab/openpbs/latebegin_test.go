//go:build openpbs

package openpbs_test

import (
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// deleteWhileTheyStart is a shell script that prints the jobs that it submits. Each is deleted by
// force some moments after it was sent to its node.
const deleteWhileTheyStart = `for i in $(seq 30); do
	id=$(runuser -u alice -- bash -c "echo 'sleep 20' | qsub -o /dev/null -e /dev/null -l select=1:ncpus=1:mem=64mb")
	echo $id
	for k in $(seq 100); do [ -n "$(qselect -s R)" ] && break; sleep 0.02; done
	sleep 0.$(printf %02d $((i * 2)))
	qdel -W force $id || :
done 2>/dev/null`

// TestJobDeletedWhileItStartsBeginsOnce deletes jobs by force. MoM ends such a job, while its child
// goes on with the job's prologue and launch. The job would hold cpus that nobody gives back.
func TestJobDeletedWhileItStartsBeginsOnce(t *testing.T) {
	lives := qsub(t, "alice", small(nodes[0]), "sleep 600")
	lives.running()
	for _, part := range []string{"/pbs_jobs.service/", `"job"`, "/run/hookhost/jobs/", " sleep"} {
		if left := leftOn(t, nodes[0]); !strings.Contains(left, part) { // else it says nothing below
			t.Errorf("of a job that runs, a node has no %s: %s", part, left)
		}
	}
	lives.deleted()
	ids := strings.Fields(on(t, nodes[0], deleteWhileTheyStart))
	must.Equal(t, "jobs that were submitted", 30, len(ids))
	eventually(t, "no job is left", func() bool { return on(t, nodes[0], "qselect") == "" })
	reports := 0
	for _, node := range nodes {
		eventually(t, node+" has nothing of them", func() bool { return leftOn(t, node) == "" })
		names := on(t, node, "ls /var/lib/hookhost/reports/*/ 2>/dev/null || :")
		for _, id := range ids {
			n := strings.Count(names, "."+id+".")
			if reports += n; n > 1 {
				t.Errorf("%s has %d reports of job %s: %s", node, n, id,
					on(t, node, "grep -F "+id+" "+daemonLog))
			}
		}
		must.Equal(t, "state of "+node, true, strings.Contains(on(t, nodes[0], "pbsnodes "+node), "state = free"))
	}
	if reports == 0 {
		t.Error("no job has come as far as its report")
	}
}
