package report

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/must"
)

// hadRunFor is a job's report that ended with this status after part of its walltime of two hours.
func hadRunFor(elapsed time.Duration, status int, change func(*hostapi.HostUsage)) *Report {
	return fromRecord(caseRecord("1.srv", "x", func(r *jobstate.Record) {
		r.Ended, r.ExitStatus = moment(begun.Add(elapsed)), &status
		h := caseHost(7.9*elapsed.Seconds(), 13<<30)
		if change != nil {
			change(h)
		}
		r.Hosts["n1"] = h
	}), begun.Add(elapsed))
}

func firstAdvice(r *Report) string {
	if len(r.Advice) == 0 {
		return ""
	}
	return r.Advice[0].String()
}

func TestAdviceOnMemoryFollowsItsGrowth(t *testing.T) {
	ranOut := func(of func(at float64) float64) func(*hostapi.HostUsage) {
		return func(h *hostapi.HostUsage) {
			h.OOMKills, h.MemBytes = ptr(int64(1)), ptr(int64(16<<30))
			if of != nil {
				h.Series = course(map[string]func(float64) float64{hostapi.ColumnRSSBytes: of})
			}
		}
	}
	for _, tt := range []struct {
		name string
		of   func(at float64) float64
		want string
	}{
		{"not measured", nil, "try mem=24gb or more: mem=16gb was too little"},
		{"grew evenly", func(at float64) float64 { return at * 16 * gib },
			"try mem=24gb: mem=16gb was too little; 8.3gb were in use half-way"},
		{"grew at the end", func(at float64) float64 { return 1 * gib },
			"try mem=31gb: mem=16gb was too little; 1.0gb were in use half-way"},
		{"nearly enough", func(at float64) float64 { return 15 * gib },
			"try mem=20gb: mem=16gb was too little; 15.0gb were in use half-way"},
		{"not known half-way", func(at float64) float64 { return math.NaN() },
			"try mem=24gb or more: mem=16gb was too little"},
	} {
		must.Equal(t, tt.name, tt.want, firstAdvice(hadRunFor(time.Hour, 137, ranOut(tt.of))))
	}
}

func TestAdviceOnWalltime(t *testing.T) {
	cpu := func(of func(at float64) float64) func(*hostapi.HostUsage) {
		return func(h *hostapi.HostUsage) {
			h.Series = course(map[string]func(float64) float64{hostapi.ColumnCPU: of})
		}
	}
	const more = "try walltime=03:00:00: walltime=02:00:00 was too short; walltime_signal warns a program that can " +
		"save its state"
	for _, tt := range []struct {
		name    string
		elapsed time.Duration
		status  int
		change  func(*hostapi.HostUsage)
		want    string
	}{
		{"a quarter", 30 * time.Minute, 0, nil, "try walltime=00:40:00: the job used 25% of 02:00:00; with a " +
			"shorter walltime it may start sooner"},
		{"half", time.Hour, 0, nil, ""},
		{"a quarter, and failed", 30 * time.Minute, 1, nil, ""},
		{"too short", 2 * time.Hour, -29, nil, more},
		{"too short, and busy", 2 * time.Hour, -29, cpu(level(7, 0.1)), more},
		{"hung", time.Hour, -29, cpu(func(at float64) float64 { return max(0, math.Round(1-at*1.5)) }),
			"no cpu was busy after 12:20:00: the job may have waited for something that did not come"},
		{"never busy", time.Hour, -29, cpu(level(0, 0)), more},
	} {
		must.Equal(t, tt.name, tt.want, firstAdvice(hadRunFor(tt.elapsed, tt.status, tt.change)))
	}
}

// A host whose series begins late does not make the job's time shorter.
func TestJobIsIdleForAPartOfTheTimeOfAllHosts(t *testing.T) {
	r := hadRunFor(time.Hour, -29, func(h *hostapi.HostUsage) {
		busy := func(at float64) float64 { return max(0, math.Round(1.4-at)) } // until 12:54
		h.Series = course(map[string]func(float64) float64{hostapi.ColumnCPU: busy})
	})
	late := course(map[string]func(float64) float64{hostapi.ColumnCPU: level(0, 0)})
	late.Times, late.Columns[hostapi.ColumnCPU] = late.Times[50:], late.Columns[hostapi.ColumnCPU][50:]
	r.Hosts["n2"] = &hostapi.HostUsage{Series: late}
	for range 20 { // the order of hosts is random
		if since, idle := r.idleSince(); idle {
			t.Fatalf("idle since %v, which is a tenth of the time", since)
		}
	}
}

// Advice comes before the facts, notes with their times after them, and the kernel's line last.
func TestTextHasAdviceFirstAndTheKernelLast(t *testing.T) {
	r := fromRecord(caseRecord("1.srv", "x", func(r *jobstate.Record) {
		r.Hosts["n1"].OOMKills, r.ExitStatus = ptr(int64(1)), ptr(137)
		r.Diag = map[string]string{"n1": "Cgroup mem limit exceeded", "n2": "a message"}
		r.Notes = []string{"Cgroup mem limit exceeded: Killed process 7 (x)", "warned", "later", "no time"}
		r.NoteTimes = []time.Time{begun.Add(time.Minute), begun.Add(2 * time.Minute), begun.Add(26 * time.Hour)}
	}), begun.Add(time.Hour))
	rest := textOf(t, r)
	for _, line := range []string{"Outcome   out of memory: ",
		" SIGKILL)\n          n2: a message\nAdvice    try mem=24gb or more: ", "\nMemory ",
		"\nNotes     12:02:00  warned\n          03-02 14:00:00  later\n          no time\n",
		"Kernel    12:01:00  Cgroup mem limit exceeded: Killed process 7 (x)\n"} {
		_, after, found := strings.Cut(rest, line)
		if !found {
			t.Errorf("no %q in its place:\n%s", line, rest)
		}
		rest = after
	}
	must.Equal(t, "after the kernel's line", "", rest)
}

func textOf(t *testing.T, r *Report) string {
	t.Helper()
	var b bytes.Buffer
	must.NoError(t, r.WriteText(&b))
	return b.String()
}
