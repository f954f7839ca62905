//go:build openpbs

package openpbs_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/must"
)

// hostReport is what tests ask of hookhost's report.
type hostReport struct {
	ResourcesUsed map[string]any `json:"resources_used"`
	Hosts         map[string]*struct {
		NCPUs int      `json:"ncpus"`
		CPUT  *float64 `json:"cput_seconds"`
		Mem   *int64   `json:"mem_bytes"`
		Ranks []rank
	}
	Missing map[string]string
}

// rank is an MPI rank of the report.
type rank struct {
	Rank int
	Comm string
}

// report is hookhost's report of the job on a node.
func (j *job) report(node string) hostReport {
	j.t.Helper()
	var r hostReport
	text := on(j.t, node, "hookhost report --format json "+j.id)
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		j.t.Fatalf("report of job %s on %s: %v in %s", j.id, node, err, text)
	}
	return r
}

// joined is the report that node1 makes of those of all nodes.
func (j *job) joined() hostReport {
	j.t.Helper()
	parts := ""
	for _, node := range nodes {
		parts += on(j.t, node, "hookhost report --format json "+j.id) + "\n"
	}
	var r hostReport
	text := on(j.t, "node1", "hookhost report --format json - <<'END'\n"+parts+"END")
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		j.t.Fatalf("joined reports of job %s: %v in %s", j.id, err, text)
	}
	return r
}

// spin is a program that uses so many seconds of cpu time, and so many megabytes.
func spin(seconds float64, megabytes int) string {
	program := fmt.Sprintf(`import time\nx = bytearray(%d << 20)\nwhile time.process_time() < %.2f: sum(range(10000))`,
		megabytes, seconds)
	return `python3 -c 'exec("` + program + `")'`
}

// The job is over before anything polls.
func TestUsageOfAllHostsIsInAccountingAndInTheMotherSuperiorsReport(t *testing.T) {
	needNodes(t, 2)
	// Each host's part is rounded to whole seconds before MoM adds them up: 1.7 and 1.7 are 4, not
	// 2.
	script := "cat >sister.sh <<'END'\n" + spin(1.7, 90) + "\nEND\n" +
		"/opt/pbs/bin/pbs_tmrsh node2 sh $PWD/sister.sh &\n" + spin(1.7, 40) + "\nwait"
	j := qsub(t, "alice", twoHosts, script)
	a := j.finished()
	if a.ExitStatus == nil || *a.ExitStatus != 0 {
		t.Fatalf("exit status %v: %s", a.ExitStatus, j.stderr())
	}
	var seconds, kb int
	cput, mem := fmt.Sprint(a.ResourcesUsed["cput"]), fmt.Sprint(a.ResourcesUsed["mem"])
	if _, err := fmt.Sscanf(cput, "00:00:%d", &seconds); err != nil || seconds < 4 || seconds > 6 {
		t.Errorf("resources_used.cput %s, want that of both hosts, 4 s", cput)
	}
	if _, err := fmt.Sscanf(mem, "%dkb", &kb); err != nil || kb < 130<<10 || kb > 170<<10 {
		t.Errorf("resources_used.mem %s, want that of both hosts, 130 MB and a little", mem)
	}
	record := j.end()
	for _, name := range []string{"cput", "mem", "vmem", "cpupercent"} {
		if got, want := record["resources_used."+name], fmt.Sprint(a.ResourcesUsed[name]); got != want {
			t.Errorf("resources_used.%s: %s in accounting, %s in qstat", name, got, want)
		}
	}
	j.gone()
	r := j.report("node1")
	if len(r.Missing) > 0 || len(r.Hosts) != len(nodes) {
		t.Fatalf("report of node1: %+v", r)
	}
	for host, u := range r.Hosts {
		if u.NCPUs != 1 || u.CPUT == nil || u.Mem == nil {
			t.Fatalf("%s in the report of node1: %+v", host, u)
		}
		want := map[string]int64{"node1": 40, "node2": 90}[host]
		if megabytes := *u.Mem >> 20; *u.CPUT < 1.7 || *u.CPUT > 3 || megabytes < want || megabytes > want+20 {
			t.Errorf("%s in the report of node1: %v s, %d MB", host, *u.CPUT, megabytes)
		}
	}
	if got, want := r.ResourcesUsed["mem"], a.ResourcesUsed["mem"]; got != want {
		t.Errorf("mem: %v in the report of node1, %v in qstat", got, want)
	}
	whole := j.joined() // vmem of all hosts is in their own reports alone
	for _, name := range []string{"mem", "vmem", "walltime"} {
		if got, want := whole.ResourcesUsed[name], a.ResourcesUsed[name]; got != want {
			t.Errorf("%s: %v in the joined report, %v in qstat", name, got, want)
		}
	}
	if len(whole.Hosts) != len(nodes) || len(whole.Missing) > 0 {
		t.Errorf("joined report: %+v", whole)
	}
	idle(t, "alice")
}

// A launcher that calls ssh and pbs_attach has nothing launched on a sister, only attached. MoM may
// carry out the answer of an exechost_periodic after that of the epilogue, up to a second late, and
// keeps what it got last. So the job is busy until it ends, long after it has used two seconds.
func TestUsageOfASisterCountsWhereProcessesWereOnlyAttached(t *testing.T) {
	needNodes(t, 2)
	hold := filepath.Join(shared(t), "hold")
	must.NoError(t, os.WriteFile(hold, nil, 0o644))
	j := qsub(t, "alice", twoHosts, "cat >sister.sh <<'END'\nwhile [ -e "+hold+" ]; do "+spin(0.3, 90)+"; done\nEND\n"+
		`ssh node2 "hookhost attach -j $PBS_JOBID -- sh $PWD/sister.sh"`)
	j.running()
	eventually(t, "node2 has counted 4 s of the job", func() bool {
		u := j.report("node2").Hosts["node2"]
		return u != nil && u.CPUT != nil && *u.CPUT >= 4
	})
	must.NoError(t, os.Remove(hold))
	a := j.finished()
	var seconds, percent int
	cput, cpupercent := fmt.Sprint(a.ResourcesUsed["cput"]), fmt.Sprint(a.ResourcesUsed["cpupercent"])
	if _, err := fmt.Sscanf(cput, "00:00:%d", &seconds); err != nil || seconds < 2 {
		t.Errorf("resources_used.cput %s of a job that used 4 s on its sister", cput)
	}
	walltime := secondsOf(t, fmt.Sprint(a.ResourcesUsed["walltime"]))
	// It is a moving average of 100 * cput / walltime. The mother superior alone is far below a
	// third of that.
	if _, err := fmt.Sscan(cpupercent, &percent); err != nil || 3*percent*walltime < 100*seconds {
		t.Errorf("resources_used.cpupercent %s of a job that was busy on its sister: %d s in %d s", cpupercent, seconds,
			walltime)
	}
	j.gone()
}

func TestReportOfALiveJobSaysThatASistersPartIsYetToCome(t *testing.T) {
	needNodes(t, 2)
	j := qsub(t, "alice", twoHosts, "sleep 1000")
	j.running()
	if r := j.report("node1"); !strings.Contains(r.Missing["node2"], "when the job ends") {
		t.Errorf("node1 says of node2: %q", r.Missing)
	}
	on(t, nodes[0], "qdel "+j.id)
	j.finished()
	if r := j.report("node1"); len(r.Missing) > 0 || r.Hosts["node2"] == nil || r.Hosts["node2"].CPUT == nil {
		t.Errorf("after qdel: %+v", r)
	}
	j.gone()
}

// The epilogue waits for a daemon that goes on.
func TestRecordOfAJobThatMeetsAStoppedDaemonHasItsUsage(t *testing.T) {
	needNodes(t, 2)
	node := nodes[len(nodes)-1]
	goOn := func() { output("root", node, "kill -CONT $("+daemonPid+")") }
	t.Cleanup(goOn)
	wait, release := hold(t)
	j := qsub(t, "alice", medium(node), spin(2, 50)+"\n"+wait)
	j.running()
	on(t, node, "kill -STOP $("+daemonPid+")")
	release()
	eventually(t, "the epilogue has begun", func() bool {
		return on(t, node, "pgrep -f '[h]ook_execjob_epilogue' || :") != ""
	})
	time.Sleep(8 * time.Second) // longer than a begin would wait
	goOn()
	if cput := fmt.Sprint(j.finished().ResourcesUsed["cput"]); cput < "00:00:02" {
		t.Errorf("resources_used.cput %s of a job that used 2 s", cput)
	}
	j.gone()
}
