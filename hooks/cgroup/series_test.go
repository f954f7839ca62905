package main

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/series"
)

// eachSecond makes the points as close together as is allowed.
func eachSecond(f *config.File) { f.Series.Interval = config.Duration(time.Second) }

// drawn is a node whose host appends the points from a job's answers.
type drawn struct {
	*node
	series *hostapi.Series
}

func newDrawn(t *testing.T) *drawn {
	t.Helper()
	return &drawn{node: realNode(t, eachSecond)}
}

// points asks for the job's usage until its series has so many points.
func (d *drawn) points(n int) {
	d.t.Helper()
	must.Eventually(d.t, fmt.Sprintf("%d points", n), func() bool {
		d.collect(d.do(hostapi.EventPeriodic, "").Jobs["1.srv"].Usage)
		return d.series != nil && len(d.series.Times) >= n
	})
}

func (d *drawn) collect(u *hostapi.HostUsage) {
	d.t.Helper()
	must.NoError(d.t, u.CheckSeries())
	d.series = series.Append(d.series, u.Series)
}

// end ends the job and returns its usage.
func (d *drawn) end() *hostapi.HostUsage {
	d.t.Helper()
	u := d.do(hostapi.EventEpilogue, "1.srv").Usage
	d.collect(u)
	d.do(hostapi.EventEnd, "1.srv")
	return u
}

// integral returns the sum of a rate over the time of the series.
func integral(s *hostapi.Series, column string) float64 {
	sum := 0.0
	for i := 1; i < len(s.Times); i++ {
		sum += s.Columns[column][i] * float64(s.Times[i]-s.Times[i-1])
	}
	return sum
}

func TestSeriesOfASteadyJobIsFlat(t *testing.T) {
	must.BesideOthers(t)
	n := newDrawn(t)
	n.do(hostapi.EventBegin, "1.srv", asks("ncpus=1", "mem=200mb"))
	enter := n.launches("1.srv")
	const held = 64 << 20
	startActor(t, enter, "hold", fmt.Sprint(held), "/dev/null")
	startActor(t, enter, "burn")
	n.points(1)
	steady := len(n.series.Times) + 1 // the next point may have been read before
	n.points(steady + 3)
	must.Eventually(t, "two cpu seconds are used", func() bool {
		n.points(len(n.series.Times) + 1)
		return integral(n.series, hostapi.ColumnCPU) >= 2
	})
	before := len(n.series.Times)
	u := n.end()
	rss := n.series.Columns[hostapi.ColumnRSSBytes][steady : before-1]
	if low, high := slices.Min(rss), slices.Max(rss); low < held || high > 2*held || high > 1.2*low {
		t.Errorf("memory is %v to %v, want a little more than %d", low, high, held)
	}
	// The points' times are whole seconds. At each end one busy cpu may be counted for a second too
	// much or too little.
	cpu, used := integral(n.series, hostapi.ColumnCPU), *u.CPUTSeconds
	if math.Abs(cpu-used) > 2 {
		t.Errorf("the points add up to %.2f cpu seconds, the job has used %.2f", cpu, used)
	}
	if pids := slices.Max(n.series.Columns[hostapi.ColumnPids]); pids < 2 {
		t.Errorf("at most %v tasks", pids)
	}
}

// If a sample of the watch sees a burst, the next point shows it.
func TestSeriesOfABurstyJobHasItsPeaks(t *testing.T) {
	must.BesideOthers(t)
	n := newDrawn(t)
	n.do(hostapi.EventBegin, "1.srv", asks("ncpus=1", "mem=200mb"))
	enter := n.launches("1.srv")
	startActor(t, enter, "sleep")
	const taken, bursts = 96 << 20, 2
	n.points(2)
	until := func(what string, is func(rss float64) bool) {
		t.Helper()
		must.Eventually(t, what, func() bool {
			n.points(len(n.series.Times) + 1)
			rss := n.series.Columns[hostapi.ColumnRSSBytes]
			return is(rss[len(rss)-1])
		})
	}
	for range bursts {
		eater := startActor(t, enter, "hold", fmt.Sprint(taken), "/dev/null")
		until("the memory is up", func(rss float64) bool { return rss > taken })
		must.NoError(t, eater.child.Signal(unix.SIGKILL))
		until("the memory is down", func(rss float64) bool { return rss < taken/2 })
	}
	n.end()
	peaks := 0
	rss := n.series.Columns[hostapi.ColumnRSSBytes]
	for i := 1; i < len(rss); i++ {
		if rss[i] > taken/2 && rss[i-1] < taken/2 {
			peaks++
		}
	}
	if peaks != bursts {
		t.Errorf("%d peaks of %d bytes: %v", peaks, int64(taken), rss)
	}
}

func TestShortJobHasItsFirstAndLastPoint(t *testing.T) {
	for _, interval := range []time.Duration{30 * time.Second, time.Hour} {
		n := &drawn{node: realNode(t, func(f *config.File) { f.Series.Interval = config.Duration(interval) })}
		n.do(hostapi.EventBegin, "1.srv", asks("ncpus=1", "mem=200mb"))
		enter := n.launches("1.srv")
		const taken = 96 << 20
		a := startActor(t, enter, "keep", fmt.Sprint(taken))
		n.awaitPoint()
		must.NoError(t, a.stdin.Close())
		must.Eventually(t, "a sample", func() bool {
			u, err := n.cgroup("1.srv").Usage()
			return err == nil && u.MemPeak != nil && *u.MemPeak >= taken
		})
		must.NoError(t, a.child.Signal(unix.SIGKILL))
		must.Eventually(t, "its end", func() bool { return len(n.inside("1.srv")) == 0 })
		u := n.end()
		s := n.series
		if len(s.Times) < 2 || len(s.Times) > 3 { // there is a second point if a multiple of 30 s came meanwhile
			t.Fatalf("points of %v", s.Times)
		}
		if rss := slices.Max(s.Columns[hostapi.ColumnRSSBytes]); rss < taken/2 {
			t.Errorf("memory %v, want %d", rss, taken)
		}
		if cpu := integral(s, hostapi.ColumnCPU); !math.IsNaN(s.Columns[hostapi.ColumnCPU][0]) || cpu <= 0 {
			t.Errorf("cpu %v adds up to %v, used %v", s.Columns[hostapi.ColumnCPU], cpu, *u.CPUTSeconds)
		}
	}
}

// awaitPoint waits until the chart of the job has a point.
func (d *drawn) awaitPoint() {
	d.t.Helper()
	j := d.cgroup("1.srv")
	must.Eventually(d.t, "a point", func() bool {
		c := d.chartOf(j)
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.points.Last() > 0
	})
}

func TestSeriesOfASuspendedJobGoesOn(t *testing.T) {
	must.BesideOthers(t)
	n := newDrawn(t)
	n.do(hostapi.EventBegin, "1.srv", asks("ncpus=1", "mem=200mb"))
	enter := n.launches("1.srv")
	startActor(t, enter, "burn")
	n.points(3)
	n.do(hostapi.EventPostsuspend, "1.srv")
	n.points(0)                       // those from before
	n.points(len(n.series.Times) + 1) // the next point still covers part of the earlier time
	frozen := len(n.series.Times)
	n.points(frozen + 3)
	for i, cpu := range n.series.Columns[hostapi.ColumnCPU][frozen:] {
		if cpu > 0.05 {
			t.Errorf("point %d of a frozen job: %v cpus", i, cpu)
		}
	}
	n.end()
}

func TestSeriesHasNoColumnThatTheKernelDoesNotTell(t *testing.T) {
	n, k := fakeNode(t, kernfstest.NewV1, eachSecond)
	n.do(hostapi.EventBegin, "1.srv")
	n.launches("1.srv")(k.Spawn())
	s := n.do(hostapi.EventEpilogue, "1.srv").Usage.Series
	n.do(hostapi.EventEnd, "1.srv")
	for _, name := range []string{hostapi.ColumnCPUPressure, hostapi.ColumnReadBytes} {
		if column, told := s.Columns[name]; told {
			t.Errorf("%s: %v", name, column)
		}
	}
	if _, told := s.Columns[hostapi.ColumnRSSBytes]; !told {
		t.Error("no memory")
	}
}

func TestNoSeriesIsDrawnWhereNoneIsConfigured(t *testing.T) {
	n := realNode(t, func(f *config.File) { f.Series.Interval = 0 })
	n.do(hostapi.EventBegin, "1.srv")
	u := n.do(hostapi.EventEpilogue, "1.srv").Usage
	n.do(hostapi.EventEnd, "1.srv")
	if u.Series != nil || n.chartOf(n.cgroup("1.srv")) != nil {
		t.Errorf("series of a job where none is configured: %v", u.Series)
	}
}

// If a counter is not known or has been replaced, its rate is not known either.
func TestRateOfACounterIsNeverNegative(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct{ before, now, seconds, want float64 }{
		{1, 3, 4, 0.5}, {0, 0, 1, 0}, {3, 1, 1, nan}, {nan, 1, 1, nan}, {1, nan, 1, nan}, {0, 1, nan, nan},
	} {
		if got := rate(c.before, c.now, c.seconds); got != c.want && !(math.IsNaN(got) && math.IsNaN(c.want)) {
			t.Errorf("%v: %v", c, got)
		}
	}
	before, now := time.Duration(0), 1010*time.Millisecond
	if got := share(&before, &now, 1); got != 1 {
		t.Errorf("share %v", got)
	}
}

// The beat ends with the last job. The end of all tests checks that (kernfstest.Run).
func TestNothingOfAJobsSeriesIsLeftAtItsEnd(t *testing.T) {
	n := realNode(t, eachSecond)
	n.do(hostapi.EventBegin, "1.srv")
	if e := n.table["1.srv"]; e == nil || e.chart == nil {
		t.Error("a job without a chart")
	}
	n.do(hostapi.EventEpilogue, "1.srv")
	n.do(hostapi.EventEnd, "1.srv")
	if e := n.table["1.srv"]; e != nil {
		t.Errorf("left of the job: %+v", e)
	}
}
