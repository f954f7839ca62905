package main_test

import (
	"encoding/json"
	"fmt"
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

// The series of a finished job is in its report, by a daemon and by root alone. The list of all
// reports has none.
func TestSeriesOfAFinishedJobIsInItsReport(t *testing.T) {
	must.BesideOthers(t)
	n := newNode(t, eachSecond)
	r := n.hookhost("run", "--job", "94.x", "--report=json", "-l", "select=1:ncpus=1:mem=300mb", "--", "python3", "-c",
		"import time; x = bytearray(80 << 20); time.sleep(2.5)").report(t)
	s := r.Hosts[hostOf(r)].Series
	if s == nil || len(s.Times) < 3 {
		t.Fatalf("series: %+v", s)
	}
	isHeld := func(bytes *float64) bool { return bytes != nil && *bytes > 80*mib }
	if rss := s.Columns["rss_bytes"]; !slices.ContainsFunc(rss, isHeld) {
		t.Errorf("memory in use: %s", marshal(t, rss))
	}
	for _, daemon := range []string{"a daemon", "none"} {
		if daemon == "none" {
			n.endDaemon()
		}
		if got := n.seriesOf(r.Job); marshal(t, got) != marshal(t, s) {
			t.Errorf("by %s: %s, want %s", daemon, marshal(t, got), marshal(t, s))
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

// The points that a daemon had are there after it was stopped or killed, and the series goes on.
func TestSeriesOutlivesTheDaemon(t *testing.T) {
	must.BesideOthers(t)
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
	must.BesideOthers(t)
	n := newNode(t, eachSecond)
	d := n.serve()
	for i := range 3 {
		id := fmt.Sprintf("%d.x", i)
		b := n.start("run", "--report=none", "--job="+id, "--", "sh", "-c", "echo ready; read x; true")
		must.NoError(t, b.stdin.Close())
		must.Eventually(t, "the report is there", func() bool { return len(n.reportFiles(id)) > 0 })
		d.kill()
		d = n.serve() // the run asks again until one answers
		b.wait()
		r := n.hookhost("report", "--format=json", id)
		if r.status != 0 || r.stderr != "" {
			t.Errorf("%+v", r)
		}
	}
}
