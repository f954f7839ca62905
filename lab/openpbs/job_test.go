//go:build openpbs

package openpbs_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// job is a job of the complex, by its id.
type job struct {
	t  *testing.T
	id string
}

// attributes are those of qstat -xf that tests ask for.
type attributes struct {
	State         string            `json:"job_state"`
	Substate      int               `json:"substate"`
	ExitStatus    *int              `json:"Exit_status"`
	Comment       string            `json:"comment"`
	ResourcesUsed map[string]any    `json:"resources_used"`
	ResourceList  map[string]any    `json:"Resource_List"`
	ExecVnode     string            `json:"exec_vnode"`
	HoldTypes     string            `json:"Hold_Types"`
	RunCount      int               `json:"run_count"`
	RunVersion    int               `json:"run_version"`
	Variables     map[string]string `json:"Variable_List"`
}

// qsub submits a script as a user. The job is deleted with the test.
func qsub(t *testing.T, user, options, script string) *job {
	t.Helper()
	out := as(t, user, nodes[0], fmt.Sprintf("qsub %s <<'END OF JOB'\n%s\nEND OF JOB", options, script))
	j := &job{t: t, id: out}
	t.Cleanup(func() { output("root", nodes[0], "qdel -W force '"+j.id+"' 2>/dev/null") })
	return j
}

// hold returns a line of a job's script that waits until the test calls release, or ends.
func hold(t *testing.T) (wait string, release func()) {
	t.Helper()
	file := filepath.Join(shared(t), "hold")
	must.NoError(t, os.WriteFile(file, nil, 0o644))
	return "while [ -e " + file + " ]; do sleep 0.2; done", func() { must.NoError(t, os.Remove(file)) }
}

// small and medium are options of a job of one cpu on a node, with so much memory.
func small(node string) string  { return "-l select=1:ncpus=1:mem=64mb:host=" + node }
func medium(node string) string { return "-l select=1:ncpus=1:mem=300mb:host=" + node }

// short is the id up to the server's name.
func (j *job) short() string {
	id, _, _ := strings.Cut(j.id, ".")
	return id
}

func (j *job) attributes() attributes {
	j.t.Helper()
	var all struct {
		Jobs map[string]attributes `json:"Jobs"`
	}
	out := on(j.t, nodes[0], "qstat -x -f -F json '"+j.id+"'")
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		j.t.Fatalf("qstat %s: %v in %s", j.id, err, out)
	}
	return all.Jobs[j.id]
}

// becomes waits until qstat says of the job what it is to be.
func (j *job) becomes(what string, is func(attributes) bool) attributes {
	j.t.Helper()
	var a attributes
	eventually(j.t, "job "+j.id+" "+what, func() bool {
		a = j.attributes()
		return is(a)
	})
	return a
}

// started waits until MoM has begun the job: execjob_begin is over, on the mother superior at
// least.
func (j *job) started() attributes {
	j.t.Helper()
	return j.becomes("is started", func(a attributes) bool {
		return a.State == "R" && a.Substate == 41
	})
}

// running waits until the job's program has started.
func (j *job) running() attributes {
	j.t.Helper()
	return j.becomes("runs", func(a attributes) bool { return a.State == "R" && a.Substate == 42 })
}

// finished waits for the job's end.
func (j *job) finished() attributes {
	j.t.Helper()
	return j.becomes("has finished", func(a attributes) bool { return a.State == "F" })
}

// succeeds waits for the job's end, which has to be with status 0.
func (j *job) succeeds() attributes {
	j.t.Helper()
	a := j.finished()
	if a.ExitStatus == nil || *a.ExitStatus != 0 {
		j.t.Errorf("exit status of job %s: %v, %s", j.id, a.ExitStatus, a.Comment)
	}
	return a
}

// ended waits for the job's end, and until nothing is left of it.
func (j *job) ended() {
	j.t.Helper()
	j.finished()
	j.gone()
}

// deleted deletes the job, and waits until nothing is left of it.
func (j *job) deleted() {
	j.t.Helper()
	on(j.t, nodes[0], "qdel "+j.id)
	j.ended()
}

// queued waits until the scheduler has said why the job does not run.
func (j *job) queued() attributes {
	j.t.Helper()
	return j.becomes("waits", func(a attributes) bool {
		return a.State == "Q" && strings.Contains(a.Comment, "Not Running")
	})
}

// accounting returns the job's records of a type (S, E, R and others) in the server's log.
func (j *job) accounting(kind string) []map[string]string {
	j.t.Helper()
	var records []map[string]string
	lines := on(j.t, nodes[0],
		fmt.Sprintf("cat %s/server_priv/accounting/* | grep ';%s;%s;' || :", pbsHome, kind, j.id))
	for line := range strings.Lines(lines) {
		record := map[string]string{}
		for _, field := range strings.Fields(strings.SplitN(line, ";", 4)[3]) {
			key, value, _ := strings.Cut(field, "=")
			record[key] = value
		}
		records = append(records, record)
	}
	return records
}

// end returns the record of the job's end, once the server's log has it: the only one.
func (j *job) end() map[string]string {
	j.t.Helper()
	var records []map[string]string
	eventually(j.t, "accounting has the end of job "+j.id, func() bool {
		records = j.accounting("E")
		return len(records) > 0
	})
	if len(records) != 1 {
		j.t.Fatalf("accounting has %d records E of job %s", len(records), j.id)
	}
	return records[0]
}

// momLog counts the lines about the job that a node's MoM has logged and that begin with text.
func (j *job) momLog(node, text string) int {
	j.t.Helper()
	found := on(j.t, node, "cat "+pbsHome+"/mom_logs/* | grep -cF ';Job;"+j.id+";"+text+"' || :")
	n, err := strconv.Atoi(found)
	must.NoError(j.t, err)
	return n
}

// cgroups are the job's directories on a node, in whatever hierarchies there are. A job that ends
// takes some away while find(1) looks, which is no failure.
func (j *job) cgroups(node string) []string {
	j.t.Helper()
	return strings.Fields(on(j.t, node,
		"find /sys/fs/cgroup -type d -path '*/pbs_jobs.service/*' -name '"+j.pattern()+"' 2>/dev/null || :"))
}

// pattern is the job's id in a pattern of find(1) or grep(1).
func (j *job) pattern() string {
	return strings.NewReplacer("[", `\[`, "]", `\]`).Replace(j.id)
}

// read returns a file of the job's cgroup on a node. On cgroup v1 it is the one by which the limit
// is known there, such as cpuset.cpus, else the one of v2.
func (j *job) read(node, v1, v2 string) string {
	j.t.Helper()
	controller, _, _ := strings.Cut(v1, ".")
	return on(j.t, node, fmt.Sprintf("cd /sys/fs/cgroup; cat %s/pbs_jobs.service/jobid/%s/%s 2>/dev/null || "+
		"cat pbs_jobs.service/jobs/%s/%s", controller, j.id, v1, j.id, v2))
}

// forced ends the job without waiting for its end, and waits until nothing is left of it.
func (j *job) forced() {
	j.t.Helper()
	on(j.t, nodes[0], "qdel -W force '"+j.id+"'")
	j.gone()
}

// gone waits until nothing is left of the job, which MoM has to have ended. A job that MoM has
// dropped is ended by hookhost itself.
func (j *job) gone() {
	j.t.Helper()
	j.vanished()
	for _, node := range nodes {
		j.endedByMoM(node)
	}
}

// endedByMoM fails where the daemon of a node has ended the job itself.
func (j *job) endedByMoM(node string) {
	j.t.Helper()
	n, err := said(node, `ending a job: .* job="\?`+j.pattern())
	must.NoError(j.t, err)
	if n > 0 {
		j.t.Errorf("the daemon of %s has ended job %s itself", node, j.id)
	}
}

// vanished waits until no node has a cgroup of the job's, nor lists it.
func (j *job) vanished() {
	j.t.Helper()
	for _, node := range nodes {
		eventually(j.t, node+" has nothing left of job "+j.id, func() bool {
			return len(j.cgroups(node)) == 0 && !strings.Contains(on(j.t, node, "hookhost jobs"), j.id)
		})
	}
}
