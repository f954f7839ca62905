package report

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/must"
)

// The outcome is the same from the record and from the report's file. A job without an end, or on a
// sister host, is not said to have not started.
func TestOutcomesInWords(t *testing.T) {
	status := func(n int) func(*jobstate.Record) { return func(r *jobstate.Record) { r.ExitStatus = &n } }
	killed := func(text string) func(*jobstate.Record) {
		return func(r *jobstate.Record) {
			r.ExitStatus, r.Diag = ptr(143), map[string]string{"n1": "job killed: " + text}
		}
	}
	notRun := func(n int) func(*jobstate.Record) {
		return func(r *jobstate.Record) { r.Launched, r.ExitStatus = jobstate.Moment{}, &n }
	}
	const own = "the job's own status; its output may say why"
	for _, tt := range []struct {
		name   string
		change func(*jobstate.Record)
		state  string
		want   string
	}{
		{"ok", status(0), "ok", "completed"},
		{"the program's status", status(3), "failed", "failed with status 3: " + own},
		{"no such program", status(127), "failed",
			"failed with status 127: the shell did not find a program: is its module loaded?"},
		{"a status that is no signal", status(193), "failed", "failed with status 193: " + own},
		{"a shell's status of a signal", status(137), "killed", "killed by SIGKILL: Exit_status 137"},
		{"PBS's status of a signal", status(267), "killed", "killed by SIGSEGV: a program used an address where it " +
			"has no memory, which is an error in the program (Exit_status 267)"},
		{"a signal without a name", status(162), "killed", "killed by signal 34: Exit_status 162"},
		{"walltime under PBS", status(-29), "timeout",
			"walltime exceeded: it was ended after 00:10:03; it had requested 01:00:00 (Exit_status -29)"},
		{"walltime under run", killed("walltime 603 exceeded limit 600"), "timeout",
			"walltime exceeded: it was ended after 00:10:03; it had requested 01:00:00 (Exit_status 143, SIGTERM)"},
		{"walltime, and a program that copes", func(r *jobstate.Record) {
			killed("walltime 603 exceeded limit 600")(r)
			r.ExitStatus = ptr(0)
		}, "timeout", "walltime exceeded: it was ended after 00:10:03; it had requested 01:00:00 (Exit_status 0)"},
		{"memory, by hookhost", killed("mem 70000kb exceeded limit 65536kb"), "oom",
			"out of memory: it was ended because it used more than its mem (Exit_status 143, SIGTERM)"},
		{"memory, by pbs_mom", status(-26), "oom",
			"out of memory: it was ended because it used more than its vmem (Exit_status -26)"},
		{"cput", status(-28), "failed",
			"cput exceeded: it was ended because it used more than its cput (Exit_status -28)"},
		{"memory, by the kernel", func(r *jobstate.Record) {
			r.ExitStatus, r.Hosts["n1"].OOMKills = ptr(137), ptr(int64(2))
		}, "oom", "out of memory: the kernel killed 2 processes of the job (Exit_status 137, SIGKILL)"},
		{"memory of a child", func(r *jobstate.Record) { r.Hosts["n1"].OOMKills = ptr(int64(1)) }, "ok",
			"completed: exit status 0, but the kernel killed 1 process of the job for lack of memory"},
		{"memory, then time", func(r *jobstate.Record) {
			r.ExitStatus, r.Hosts["n1"].OOMKills = ptr(-29), ptr(int64(1))
		}, "timeout", "walltime exceeded: it was ended after 00:10:03; it had requested 01:00:00; " +
			"before that, the kernel killed 1 process of the job for lack of memory (Exit_status -29)"},
		{"deleted", func(r *jobstate.Record) { r.ExitStatus, r.Terminated = ptr(271), true }, "cancelled",
			"cancelled: it was ended on request, as by qdel (Exit_status 271, SIGTERM)"},
		{"requeued", status(-11), "cancelled",
			"requeued: it was ended on request, as by qrerun, and runs again (Exit_status -11)"},
		{"sister died", status(-14), "node_failure", "node failure: a host of the job failed, or the others could " +
			"not reach it (Exit_status -14)"},
		{"a status of PBS's that nobody knows", status(-99), "failed", "ended by PBS: Exit_status -99"},
		{"rejected", notRun(-16), "not_started", "not started: a hook refused the job (Exit_status -16)"},
		{"deleted before its start", func(r *jobstate.Record) {
			notRun(271)(r)
			r.Terminated = true
		}, "not_started", "not started: it was ended on request, as by qdel (Exit_status 271, SIGTERM)"},
		{"on a sister host", func(r *jobstate.Record) {
			r.Launched, r.Job.MotherSuperior, r.ExitStatus = jobstate.Moment{}, false, nil
		}, "", "ended: the exit status is in the report of the job's first host"},
		{"out of memory on a sister host", func(r *jobstate.Record) {
			r.Job.MotherSuperior, r.ExitStatus, r.Hosts["n1"].OOMKills = false, nil, ptr(int64(1))
		}, "", "ended: the exit status is in the report of the job's first host; before that, the kernel killed 1 " +
			"process of the job for lack of memory"},
		{"not known", func(r *jobstate.Record) { r.ExitStatus = nil }, stateFailed,
			"ended: the exit status is not known"},
		{"runs", func(r *jobstate.Record) { r.ExitStatus, r.Ended = nil, jobstate.Moment{} }, "running", "running"},
		{"runs out of memory", func(r *jobstate.Record) {
			r.ExitStatus, r.Ended, r.Hosts["n1"].OOMKills = nil, jobstate.Moment{}, ptr(int64(1))
		}, "running", "running: the kernel killed 1 process of the job for lack of memory"},
		{"ending", func(r *jobstate.Record) { r.ExitStatus, r.Ended = ptr(-16), jobstate.Moment{} }, "running",
			"ending: exit status -16"},
	} {
		rec := record(tt.change)
		kept, err := json.Marshal(fromRecord(rec, rec.Ended.Wall))
		must.NoError(t, err)
		r, err := FromArchive(kept)
		must.NoError(t, err)
		must.Equal(t, tt.name, [2]string{tt.state, tt.want}, [2]string{r.Outcome.State, r.Outcome.String()})
	}
	if r := fromRecord(&jobstate.Record{Job: &hostapi.Job{ID: "7"}}, time.Time{}); r.Outcome.Words != "not started" {
		t.Errorf("before its start: %v", r.Outcome)
	}
}

// The names of files hold the states, so each result of States has to be among AllStates.
func TestAllStatesHaveEachResult(t *testing.T) {
	all := AllStates()
	statuses := []int{0, 3, 137, 271}
	for status := -40; status < 0; status++ {
		statuses = append(statuses, status)
	}
	for _, status := range statuses {
		for _, terminated := range []bool{false, true} {
			for _, kills := range []int64{0, 1} {
				for _, launched := range []jobstate.Moment{{}, moment(begun)} {
					r := fromRecord(record(func(r *jobstate.Record) {
						r.ExitStatus, r.Terminated, r.Launched = &status, terminated, launched
						r.Hosts["n1"].OOMKills = &kills
					}), ended)
					if states := r.States(); !slices.ContainsFunc(all, func(of []string) bool {
						return slices.Equal(of, states)
					}) {
						t.Fatalf("status %d: %q", status, states)
					}
				}
			}
		}
	}
}
