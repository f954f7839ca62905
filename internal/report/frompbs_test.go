package report

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/pbs"
)

// fromQstat returns the reports of the jobs that qstat shows in a file of internal/pbs.
func fromQstat(t *testing.T) map[string]*Report {
	t.Helper()
	text, err := os.ReadFile("../pbs/testdata/qstat.json")
	must.NoError(t, err)
	jobs, err := pbs.ParseQstat(text, time.UTC)
	must.NoError(t, err)
	reports := map[string]*Report{}
	for i := range jobs {
		reports[jobs[i].ID] = FromPBS(&jobs[i])
	}
	return reports
}

func TestReportFromPBSHasTheUsageOfEachHost(t *testing.T) {
	reports := fromQstat(t)
	two := reports["0.node1"]
	must.Equal(t, "hosts", []string{"node1", "node2"}, two.hostNames())
	for name, h := range two.Hosts {
		if h.NCPUs != 1 || h.CPUTSeconds == nil || *h.CPUTSeconds < 2 || *h.CPUTSeconds > 2.5 || h.MemBytes == nil ||
			*h.MemBytes>>20 < 90 || *h.MemBytes>>20 > 100 || *h.MemLimitBytes != 300<<20 || h.Pressure == nil {
			t.Errorf("%s: %+v", name, h)
		}
	}
	totals := two.totals()
	if totals.cput == nil || totals.cput.Round(time.Second) != 4*time.Second {
		t.Errorf("cput %v", totals.cput)
	}
	if eff, ok := totals.memEfficiency(); !ok || eff < 0.3 || eff > 0.35 {
		t.Errorf("memory %v, %t", eff, ok)
	}
	if two.Imbalance == nil || len(two.Missing) > 0 || *two.ExitStatus != 3 || two.Owner != "alice" ||
		two.ResourcesUsed["host_usage"] != "" || two.PBSJob.Account != "my account" {
		t.Errorf("%+v", two)
	}
	oom := reports["2.node1"]
	must.Equal(t, "messages", 1, len(oom.DiagMessages))
	must.Equal(t, "states", []string{stateFailed, stateKilled, stateOOM}, oom.States())
}

func TestReportFromPBSOfAJobThatHasNotEnded(t *testing.T) {
	reports := fromQstat(t)
	for id, tt := range map[string]struct {
		started, ended bool
		words, note    string
	}{
		"3.node1": {false, false, "not started", ""},
		"4.node1": {false, true, "cancelled", ""},
		"5.node1": {true, false, "running", ""},
		"6.node1": {false, false, "not started", "Can Never Run: "},
	} {
		r := reports[id]
		must.Equal(t, id, tt.words, r.Outcome.Words)
		if (r.Start != nil) != tt.started || (r.End != nil) != tt.ended || r.ExitStatus != nil ||
			!strings.Contains(strings.Join(r.Notes, "\n"), tt.note) {
			t.Errorf("%+v", r)
		}
		for _, format := range formats { // none of them fails
			must.NoError(t, format(&bytes.Buffer{}, func(yield func(*Report) bool) { yield(r) }))
		}
	}
}

func TestReportFromPBSSaysWhichFiguresPBSHasNot(t *testing.T) {
	s := pbs.JobStatus{ID: "1.s", State: "F", Start: time.Unix(1000, 0), End: time.Unix(2000, 0), ExitStatus: new(0),
		ExecHost: "n1/0+n2.cluster/0+n3/0", ExecVnode: "(n1:ncpus=1)+(n2:ncpus=2)+(n3:ncpus=1)",
		ResourceList: map[string]string{"ncpus": "4"}}
	used := func(text string) *Report {
		s.ResourcesUsed = map[string]string{"mem": "9kb", "cput": "00:00:05"}
		if text != "" {
			s.ResourcesUsed["host_usage"] = text
		}
		return FromPBS(&s)
	}
	r := used(`'{"n1": {"mem": 1}, "n2": {"mem": 2}}'`)
	must.Equal(t, "missing", map[string]string{"n3": "PBS has no figures of it"}, r.Missing)
	must.Equal(t, "ncpus of n2", 2, r.Hosts["n2"].NCPUs)
	for text, note := range map[string]string{"": "hookhost openpbs install", "'{": "host_usage: "} {
		r := used(text)
		if len(r.Hosts) > 0 || len(r.Missing) > 0 || !strings.Contains(strings.Join(r.Notes, ""), note) ||
			r.ResourcesUsed["mem"] != "9kb" {
			t.Errorf("%q: %+v", text, r)
		}
	}
}

// A record that a report writes is read as the same run.
func TestAccountingRecordIsReadAsItWasWritten(t *testing.T) {
	text, err := os.ReadFile("../pbs/testdata/accounting")
	must.NoError(t, err)
	runs := 0
	for line := range strings.Lines(string(text)) {
		s, ok := pbs.ParseRun(strings.TrimSpace(line))
		if !ok {
			continue
		}
		runs++
		var b bytes.Buffer
		must.NoError(t, FromPBS(&s).WriteAccounting(&b))
		again, ok := pbs.ParseRun(strings.TrimSpace(b.String()))
		for _, name := range byHost {
			delete(s.ResourcesUsed, name)
		}
		if !ok {
			t.Fatalf("%s", &b)
		}
		must.Equal(t, "", s, again)
	}
	must.Equal(t, "runs", 7, runs)
}

func TestDiagMessagesOfPBSAreRead(t *testing.T) {
	for text, want := range map[string]map[string]string{
		"":                                      nil,
		"{}":                                    {},
		`'{"n1": "Cgroup mem limit exceeded"}'`: {"n1": "Cgroup mem limit exceeded"},
		`{"n1":"x","n2":["y"]}`:                 {"n1": "x"},
		"nonsense":                              nil,
	} {
		must.Equal(t, text, want, diagnoses(hostapi.Resources{"diag_messages": text}))
	}
}
