package pbs

import (
	"os"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/must"
)

// The file has jobs of OpenPBS 23.06.06, as their owner sees them. One is of two hosts, one an
// array with its second subjob, one out of memory. Others are held, deleted before they ran,
// running, and waiting.
func TestQstatIsRead(t *testing.T) {
	text, err := os.ReadFile("testdata/qstat.json")
	must.NoError(t, err)
	jobs, err := ParseQstat(text, time.UTC)
	must.NoError(t, err)
	at := func(clock string) time.Time {
		t.Helper()
		when, err := time.Parse(time.DateTime, "2026-11-29 "+clock)
		must.NoError(t, err)
		return when
	}
	byID := map[string]JobStatus{}
	for _, j := range jobs {
		byID[j.ID] = j
	}
	first := byID["0.node1"]
	usage := first.ResourcesUsed["host_usage"]
	delete(first.ResourcesUsed, "host_usage")
	must.Equal(t, "", JobStatus{ID: "0.node1", Name: "1e5", User: "alice", Queue: "workq",
		Project: "_pbs_project_default", Account: "my account", State: "F", Comment: first.Comment,
		Start: first.Start, End: first.End, ExitStatus: new(3), SessionID: first.SessionID, RunCount: 1,
		ExecHost:  "node1/0+node2/0",
		ExecVnode: "(node1:ncpus=1:mem=307200kb)+(node2:ncpus=1:mem=307200kb)",
		ResourceList: map[string]string{"mem": "600mb", "ncpus": "2", "nodect": "2", "place": "free",
			"select": "1:ncpus=1:mem=300mb:host=node1+1:ncpus=1:mem=300mb:host=node2", "walltime": "00:10:00"},
		ResourcesUsed: first.ResourcesUsed}, first)
	must.Equal(t, "cput", "00:00:04", first.ResourcesUsed["cput"])
	must.Equal(t, "diag_messages", "{}", first.ResourcesUsed["diag_messages"])
	if usage == "" || usage[0] != '\'' || first.SessionID == 0 || first.End.Sub(first.Start) > time.Minute ||
		first.Start.Before(at("02:00:00")) || first.End.After(at("03:00:00")) {
		t.Errorf("%+v, host_usage %s", first, usage)
	}
	for _, tt := range []struct {
		id, state    string
		ran, ended   bool
		status       *int
		comment, mem string
	}{
		{"1[].node1", "F", true, true, new(1), "", ""},
		{"1[2].node1", "F", true, true, new(2), "", "0kb"},
		{"2.node1", "F", true, true, new(137), "", "65536kb"},
		{"3.node1", "H", false, false, nil, "", ""},
		{"4.node1", "F", false, true, nil, "", ""},
		{"5.node1", "R", true, false, nil, "", ""},
		{"6.node1", "Q", false, false, nil,
			"Can Never Run: Insufficient amount of resource: ncpus (R: 99 A: 4 T: 4)", ""},
	} {
		j := byID[tt.id]
		if j.State != tt.state || j.Start.IsZero() == tt.ran || j.Ended() != tt.ended || j.End.IsZero() == tt.ended ||
			tt.comment != "" && j.Comment != tt.comment ||
			tt.mem == "65536kb" && j.ResourcesUsed["mem"] != tt.mem {
			t.Errorf("%+v", j)
		}
		must.Equal(t, tt.id, tt.status, j.ExitStatus)
	}
	if len(jobs) != 8 {
		t.Errorf("%d jobs", len(jobs))
	}
}

// A job that waits to run again has the usage of its last run in qstat.
func TestQstatOfARequeuedJobHasNoUsage(t *testing.T) {
	jobs, err := ParseQstat([]byte(`{"Jobs": {"7.srv": {"job_state": "Q", "Job_Owner": "alice@n1", "Exit_status": -11,
		"stime": "Sun Nov 29 02:17:25 2026", "resources_used": {"mem": "1kb"}, "run_count": 2}}}`), time.UTC)
	must.NoError(t, err)
	must.Equal(t, "", []JobStatus{{ID: "7.srv", User: "alice", State: "Q", RunCount: 2}}, jobs)
}

func TestQstatThatIsNotUnderstoodIsAnError(t *testing.T) {
	for _, text := range []string{"", "Job id  Name", `{"Jobs": []}`, `{"Jobs": {"1.s": 7}}`} {
		if jobs, err := ParseQstat([]byte(text), time.UTC); err == nil {
			t.Errorf("%q: %v", text, jobs)
		}
	}
	jobs, err := ParseQstat([]byte(`{"timestamp": 1, "pbs_version": "23.06.06"}`), time.UTC)
	must.NoError(t, err)
	must.Equal(t, "jobs", 0, len(jobs))
}

func FuzzParseQstat(f *testing.F) {
	f.Add([]byte(`{"Jobs": {"1.s": {"Job_Name": 1e5, "stime": 5, "resources_used": {"x": {"a": null}}, "job_state": "F"}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		jobs, err := ParseQstat(text, time.UTC)
		if err != nil && jobs != nil {
			t.Errorf("%v and %v", err, jobs)
		}
	})
}
