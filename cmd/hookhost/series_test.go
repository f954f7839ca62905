package main_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// eachSecond is a configuration with points as close together as they may be.
const eachSecond = "[series]\ninterval = \"1s\"\n"

// reportedSeries is a series in the JSON of a report.
type reportedSeries struct {
	Times   []int64
	Columns map[string][]*float64 // null is nil
}

// integral is the sum of a rate over the time of the series.
func (s *reportedSeries) integral(column string) (sum float64) {
	for i := 1; i < len(s.Times); i++ {
		if v := s.Columns[column][i]; v != nil {
			sum += *v * float64(s.Times[i]-s.Times[i-1])
		}
	}
	return sum
}

// greatest is the greatest value of a column, and where it is.
func (s *reportedSeries) greatest(column string) (most float64, at int) {
	for i, v := range s.Columns[column] {
		if v != nil && *v > most {
			most, at = *v, i
		}
	}
	return most, at
}

// seriesOf is that of the one host in a job's report.
func (n *node) seriesOf(id string) *reportedSeries {
	n.t.Helper()
	out, err := n.command("report", "--format=json", id).Output()
	must.NoError(n.t, err)
	for _, h := range decodeReport(n.t, string(out)).Hosts {
		return h.Series
	}
	return nil
}

// points waits until a live job has so many points.
func (n *node) points(id string, count int) (s *reportedSeries) {
	n.t.Helper()
	must.Eventually(n.t, fmt.Sprintf("%d points of job %s", count, id), func() bool {
		s = n.seriesOf(id)
		return s != nil && len(s.Times) >= count
	})
	return s
}

// Real jobs have series that show how they are. Their reports have them, from run, from a daemon
// and from root alone. The list of all reports has none.
func TestSeriesOfAFinishedJobIsInItsReport(t *testing.T) {
	n := newNode(t, eachSecond)
	const mib = 1 << 20
	for _, job := range []struct {
		name, program string
		fits          func(s *reportedSeries, r usageReport) bool
	}{
		{"steady", `
import time
x = bytearray(80 << 20)
end = time.time() + 5
while time.time() < end: pass`, func(s *reportedSeries, r usageReport) bool {
			cput := *r.Hosts[hostOf(r)].CPUTSeconds
			most, _ := s.greatest("rss_bytes")
			half := s.Columns["rss_bytes"][len(s.Times)/2]
			return math.Abs(s.integral("cpu")-cput) < 1.5 && most > 80*mib && *half > most/1.5
		}},
		{"bursty", `
import time
time.sleep(2)
x = bytearray(150 << 20)
time.sleep(1.2)
x = None
time.sleep(4)`, func(s *reportedSeries, r usageReport) bool {
			most, at := s.greatest("rss_bytes")
			return most > 100*mib && at > 1 && at < len(s.Times)-4 && *s.Columns["rss_bytes"][at+4] < 80*mib
		}},
		{"leaking", `
import time
x = []
for _ in range(30):
    x.append(bytearray(4 << 20))
    time.sleep(0.2)`, func(s *reportedSeries, r usageReport) bool {
			rss := []float64{}
			for _, v := range s.Columns["rss_bytes"][2 : len(s.Times)-1] {
				rss = append(rss, *v)
			}
			return len(rss) > 2 && slices.IsSorted(rss) && rss[len(rss)-1] > 80*mib
		}},
	} {
		r := n.hookhost("run", "--report=json", "-l", "select=1:ncpus=1:mem=300mb", "--",
			"python3", "-c", job.program).report(t)
		s := r.Hosts[hostOf(r)].Series
		if s == nil || len(s.Times) < 5 || !job.fits(s, r) {
			t.Errorf("%s: %s", job.name, marshal(t, s))
			continue
		}
		for daemon, end := range map[string]func(){"a daemon": func() {}, "none": n.endDaemon} {
			end()
			if got := n.seriesOf(r.Job); marshal(t, got) != marshal(t, s) {
				t.Errorf("%s by %s: %s, want %s", job.name, daemon, marshal(t, got), marshal(t, s))
			}
		}
	}
	if all := n.hookhost("report", "--format=json"); strings.Contains(all.stdout, "series") {
		t.Error("the list of all reports has series")
	}
}

func hostOf(r usageReport) string {
	for name := range r.Hosts {
		return name
	}
	return ""
}

func marshal(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	must.NoError(t, err)
	return string(b)
}

// A job that is over before its second point is due has a series all the same.
func TestShortJobHasASeries(t *testing.T) {
	n := newNode(t, "[series]\ninterval = \"1h\"\n")
	r := n.hookhost("run", "--report=json", "-l", "select=1:ncpus=1:mem=300mb", "--", "true").report(t)
	if s := n.seriesOf(r.Job); s == nil || len(s.Times) < 2 {
		t.Errorf("series: %+v", s)
	}
}

// The points that a daemon had are there after it was stopped or killed, and the series goes on.
func TestSeriesOutlivesTheDaemon(t *testing.T) {
	n := newNode(t, eachSecond)
	d := n.serve()
	b := n.start("run", "--report=json", "-l", "ncpus=1", "--job=7.x", "--", "sh", "-c", "echo ready; read x; true")
	before := n.points("7.x", 3)
	for _, end := range []func(){d.stop, func() { d.kill() }} {
		end()
		d = n.serve()
		after := n.points("7.x", len(before.Times)+2)
		if !slices.Equal(after.Times[:len(before.Times)], before.Times) {
			t.Errorf("points of %v, before %v", after.Times, before.Times)
		}
		before = after
	}
	must.NoError(t, b.stdin.Close())
	b.report(t)
	if s := n.seriesOf("7.x"); s == nil || !slices.Equal(s.Times[:len(before.Times)], before.Times) {
		t.Errorf("at the end: %+v, want %v and more", s, before.Times)
	}
	d.stop()
}

// SIGKILL of the daemon at the end of a job leaves a whole report.
func TestKilledDaemonLeavesNoHalfReport(t *testing.T) {
	n := newNode(t, eachSecond)
	for i := range 3 {
		d := n.serve()
		id := fmt.Sprintf("%d.x", i)
		b := n.start("run", "--report=none", "--job="+id, "--", "sh", "-c", "echo ready; read x; true")
		must.NoError(t, b.stdin.Close())
		must.Eventually(t, "the report is there", func() bool { return len(n.reportFiles(id)) > 0 })
		d.kill()
		b.wait()
		r := n.hookhost("report", "--format=json", id)
		if r.status != 0 || r.stderr != "" {
			t.Errorf("%+v", r)
		}
	}
}
