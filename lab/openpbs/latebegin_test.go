//go:build openpbs

package openpbs_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// submitted is the head of a shell script that submits a job, prints its id, and waits until it is
// sent to its node. The job makes a file when its program starts.
const submitted = `id=$(echo 'echo >%[1]s; sleep 1000' |
	runuser -u alice -- qsub -o /dev/null -e /dev/null -l select=1:ncpus=1:mem=64mb)
echo $id
until [ -n "$(qselect -s R)" ]; do sleep 0.02; done
`

// TestJobDeletedWhileItStartsBeginsOnce deletes jobs by force. The moments span a job's start, on a
// slow machine too. MoM ends such a job, while its child goes on with the job's prologue and
// launch. The job would hold cpus that nobody gives back.
func TestJobDeletedWhileItStartsBeginsOnce(t *testing.T) {
	lives := qsub(t, "alice", small(nodes[0]), "sleep 600")
	lives.running()
	for _, part := range []string{"/pbs_jobs.service/", `"job"`, "/run/hookhost/jobs/", " sleep"} {
		// Else an empty answer says nothing below.
		eventually(t, "a node has of a job that runs "+part, func() bool {
			return strings.Contains(leftOn(t, nodes[0]), part)
		})
	}
	lives.deleted()
	const jobs, remove = 30, "qdel -W force $id 2>/dev/null || :"
	file := filepath.Join(shared(t), "started")
	t.Cleanup(func() { output("root", nodes[0], "qselect -u alice | xargs -r qdel -W force") })
	out := on(t, nodes[0], fmt.Sprintf(submitted+`began=$(date +%%s%%3N)
until [ -e %[1]s ]; do sleep 0.02; done; echo $(($(date +%%s%%3N) - began)); `+remove, file))
	var id string
	var start int // how long a job's start takes, in milliseconds
	_, err := fmt.Sscan(out, &id, &start)
	must.NoError(t, err)
	var ids []string
	for i := range jobs {
		after := float64(max(600, 2*start)) * float64(i+1) / jobs
		ids = append(ids, on(t, nodes[0], fmt.Sprintf(submitted+"sleep %.3[2]f; "+remove, file, after/1000)))
	}
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
