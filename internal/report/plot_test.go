package report

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/must"
)

func TestPlotsAreOfBlocksWhereTheTerminalShowsThem(t *testing.T) {
	rec := cases["leaking"]
	golden(t, "plots-of-blocks.txt", []byte(plotted(t, Text(100, true), rec)))
}

// Few hosts of many are plotted: those whose use of cpus stands out. A host without a series, or of
// which nothing was measured, has no line.
func TestPlotsOfManyHostsAreFew(t *testing.T) {
	cpuAndMemory := func(cpu, rss func(at float64) float64) *hostapi.Series {
		return course(map[string]func(float64) float64{hostapi.ColumnCPU: cpu, hostapi.ColumnRSSBytes: rss})
	}
	rec := caseRecord("107.srv", "wide", func(r *jobstate.Record) {
		for i := range 60 {
			h := caseHost(20000+10*float64(i%7), 12<<30)
			h.Series = cpuAndMemory(level(5.5, 0), level(12<<30, 0))
			r.Hosts[fmt.Sprintf("node%03d", i)] = h
		}
		idle := r.Hosts["node017"]
		idle.CPUTSeconds, idle.Series = ptr(400.0), cpuAndMemory(level(1, 1), level(1<<30, 0))
		delete(r.Hosts, "n1")
	})
	text := plotted(t, Text(80, false), rec)
	if !strings.Contains(text, "  cpu node017 ") || strings.Count(text, "  cpu node") != 4 ||
		!strings.Contains(text, "  56 hosts more\n") || strings.Contains(text, "memory node017") {
		t.Errorf("plots:\n%s", text)
	}
	for _, h := range rec.Hosts {
		h.Series.Times = h.Series.Times[:2]
	}
	text = plotted(t, Text(80, false), rec)
	if strings.Contains(text, "Over time") {
		t.Errorf("plots of two points:\n%s", text)
	}
}

// A job that has no cpu of its own is plotted by one cpu, and by more where it used more.
func TestJobWithoutCPUsIsPlottedByOneCPU(t *testing.T) {
	for busy, want := range map[float64]string{0.01: "", 0.3: "::::|  most 0.3 cpus\n", 2: "####|  most 2.0 cpus\n"} {
		rec := caseRecord("108.srv", "shares", func(r *jobstate.Record) {
			r.Hosts["n1"].NCPUs = 0
			r.Hosts["n1"].Series = course(map[string]func(float64) float64{hostapi.ColumnCPU: level(busy, 0)})
		})
		text := plotted(t, Text(80, false), rec)
		if want == "" && strings.Contains(text, "Over time") || !strings.Contains(text, want) {
			t.Errorf("%.2f cpus busy, want %q:\n%s", busy, want, text)
		}
	}
}

// Hosts on which nothing ran are idle, and none of them did more than the other.
func TestHostsThatDidNothingAreNotImbalanced(t *testing.T) {
	for most, want := range map[float64]string{
		0.04: "idle: 0.0 s of cpu time",
		3600: "imbalance between n1 and n2: 01:00:00 and 0.0 s of cpu time",
	} {
		rec := caseRecord("109.srv", "waits", func(r *jobstate.Record) {
			r.Hosts = map[string]*hostapi.HostUsage{"n1": caseHost(most, 1<<30), "n2": caseHost(0, 1<<30)}
		})
		notes := strings.Join(fromRecord(rec, rec.Ended.Wall).Notes, "; ")
		if !strings.Contains(notes, want) || most < 1 && strings.Contains(notes, "imbalance") {
			t.Errorf("%q, want %q", notes, want)
		}
	}
}

func plotted(t *testing.T, f Format, rec *jobstate.Record) string {
	t.Helper()
	var b bytes.Buffer
	must.NoError(t, f(&b, slices.Values([]*Report{fromRecord(rec, rec.Ended.Wall)})))
	return b.String()
}
