package report

import (
	"bytes"
	"fmt"
	"math"
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

// Of many hosts the extremes and the median are plotted. One host that idles is the least.
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
	if strings.Count(text, "\n  cpu ") != 3 || !strings.Contains(text, "most 1.9 of 8 cpus\n") ||
		!strings.Contains(text, "  max, median and min of 60 hosts at each time\n") ||
		!strings.Contains(text, "cpu is the mean of 60 s") {
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
		3600: "1 of 2 hosts was idle: n2; start the program on all hosts",
	} {
		rec := caseRecord("109.srv", "waits", func(r *jobstate.Record) {
			r.Hosts = map[string]*hostapi.HostUsage{"n1": caseHost(most, 1<<30), "n2": caseHost(0, 1<<30)}
		})
		notes := strings.Join(fromRecord(rec, rec.Ended.Wall).Notes, "; ")
		if !strings.Contains(notes, want) || most < 1 && strings.Contains(notes, "all hosts") {
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

// The lines over many hosts are those of each time, not of a host. What a host did not measure
// counts for nothing.
func TestLinesOverManyHostsAreOfEachTime(t *testing.T) {
	r := charted(t, "imbalanced")
	r.Hosts = map[string]*hostapi.HostUsage{}
	for i := range 11 {
		h := caseHost(1000, int64(i)<<30)
		h.Series = course(map[string]func(float64) float64{hostapi.ColumnCPU: func(at float64) float64 {
			if i == 10 && at > 0.5 {
				return math.NaN()
			}
			return float64((i + int(10*at)) % 11)
		}})
		r.Hosts[fmt.Sprintf("n%02d", i)] = h
	}
	lines := r.drawn(mostLines)
	must.Equal(t, "lines", 3, len(lines))
	for i, want := range []float64{10, 5, 0} {
		values := lines[i].Series.Columns[hostapi.ColumnCPU]
		must.Equal(t, lines[i].name+" at first", want, values[0])
		if last := values[len(values)-2]; math.Abs(last-want) > 1 {
			t.Errorf("%s at last: %v", lines[i].name, last)
		}
		must.NoError(t, lines[i].Series.Check())
	}
	must.Equal(t, "peak of memory", int64(10<<30), *lines[0].MemBytes)
	must.Equal(t, "eleven lines", 11, len(r.drawn(11)))
}

// The mother superior's report has the course of its own host alone.
func TestPlotsOfSomeHostsNameThem(t *testing.T) {
	rec := caseRecord("1.srv", "x", func(r *jobstate.Record) {
		r.Hosts = map[string]*hostapi.HostUsage{"n1": caseHost(3600, 1<<30), "n2": caseHost(60, 1<<30)}
		r.Hosts["n1"].Series = course(map[string]func(float64) float64{hostapi.ColumnCPU: level(7, 0)})
	})
	for _, text := range []string{plotted(t, Text(80, false), rec), plotted(t, writeHTML, rec)} {
		for _, want := range []string{"of n1 alone", "hookhost report 1.srv shows theirs"} {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in %s", want, text)
			}
		}
		if strings.Contains(text, "cpus busy") {
			t.Errorf("a line of n1 is not named: %s", text)
		}
	}
}
