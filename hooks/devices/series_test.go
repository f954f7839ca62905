package main

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/inventory"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/series"
)

// gauge plays NVML with devices that are half busy and draw 300 W.
type gauge struct {
	begun time.Time

	mu    sync.Mutex
	asked [][]string // UUIDs of each call
	err   error
}

func newGauge() *gauge { return &gauge{begun: time.Now()} }

func (g *gauge) energy() *uint64 { return ptr(uint64(300_000 * time.Since(g.begun).Seconds())) }

func (g *gauge) sample(_ context.Context, _ time.Duration, _ time.Time, uuids ...string) (
	*inventory.NVIDIASamples, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked = append(g.asked, uuids)
	if g.err != nil {
		return nil, g.err
	}
	all := &inventory.NVIDIASamples{Devices: map[string]inventory.NVIDIASample{}}
	for _, id := range uuids {
		all.Devices[id] = inventory.NVIDIASample{GPUPercent: ptr(50.0), MemBytes: ptr(uint64(1 << 30)),
			EnergyMillijoules: g.energy()}
	}
	return all, nil
}

func (g *gauge) usage(_ context.Context, _ time.Duration, uuids ...string) (*inventory.NVIDIAUsage, error) {
	u := &inventory.NVIDIAUsage{Devices: map[string]inventory.NVIDIACounters{}}
	for _, id := range uuids {
		u.Devices[id] = inventory.NVIDIACounters{EnergyMillijoules: g.energy()}
	}
	return u, nil
}

// calls returns the requests so far.
func (g *gauge) calls() [][]string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.asked)
}

func (g *gauge) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.err = err
}

func drawnNode(t *testing.T, interval time.Duration) (*node, *gauge) {
	t.Helper()
	n := newNode(t, 0, eight(), func(f *config.File) { f.Series.Interval = config.Duration(interval) })
	n.do(hostapi.EventStartup)
	g := newGauge()
	n.ask, n.hook.sample = g.usage, g.sample
	return n, g
}

// seriesIn appends the series of a device in an answer to s.
func seriesIn(s *hostapi.Series, u *hostapi.HostUsage, id string) *hostapi.Series {
	if u == nil {
		return s
	}
	for _, d := range u.Devices {
		if d.ID == id {
			s = series.Append(s, d.Series)
		}
	}
	return s
}

func TestSeriesOfADeviceIsWhatNVMLTells(t *testing.T) {
	n, g := drawnNode(t, time.Second)
	n.job("1.srv", a100(0))
	n.job("2.srv", a100(1), a100(2))
	n.job("3.srv")
	for _, id := range []string{"1.srv", "2.srv", "3.srv"} {
		n.do(hostapi.EventBegin, id)
	}
	var s *hostapi.Series
	must.Eventually(t, "four points", func() bool {
		out := n.do(hostapi.EventPeriodic, "1.srv")
		if u := out.Jobs["1.srv"]; u != nil {
			must.NoError(t, u.Usage.CheckSeries())
			s = seriesIn(s, u.Usage, uuid(0))
		}
		return s != nil && len(s.Times) >= 4
	})
	s = seriesIn(s, n.do(hostapi.EventEpilogue, "1.srv").Usage, uuid(0))
	last := len(s.Times) - 1
	joules, power := 0.0, s.Columns[hostapi.ColumnPowerWatts]
	for i := 1; i < last; i++ { // a point that comes late has too little, and the next one too much
		joules += power[i] * float64(s.Times[i]-s.Times[i-1])
	}
	if mean := joules / float64(s.Times[last-1]-s.Times[0]); !(math.Abs(mean-300) <= 60) {
		t.Errorf("%v W are %v W in the mean", power, mean)
	}
	if busy := s.Columns[hostapi.ColumnUtilizationPercent]; busy[0] != 50 || !math.IsNaN(busy[last]) {
		t.Errorf("utilization %v", busy)
	}
	if memory := s.Columns[hostapi.ColumnDeviceMemBytes]; memory[0] != 1<<30 {
		t.Errorf("memory %v", memory)
	}
	all := []string{uuid(0), uuid(1), uuid(2)} // all in one call
	if !slices.ContainsFunc(g.calls(), func(asked []string) bool { return slices.Equal(asked, all) }) {
		t.Errorf("asked for %v", g.calls())
	}
	for _, id := range []string{"1.srv", "2.srv", "3.srv"} {
		n.do(hostapi.EventEnd, id)
	}
	must.Eventually(t, "nobody asks any more", func() bool {
		n.charts.mu.Lock()
		defer n.charts.mu.Unlock()
		return !n.charts.drawing
	})
}

// A job that ends before its first point has one that covers its whole time, without another call.
func TestShortJobHasAPointOfItsDevice(t *testing.T) {
	n, g := drawnNode(t, time.Hour)
	j := n.job("1.srv", a100(0))
	begun := time.Now()
	n.do(hostapi.EventBegin, "1.srv")
	must.Eventually(t, "the energy before is noted", func() bool {
		s, err := sinceOf(j)
		return err == nil && s[uuid(0)].EnergyMillijoul != nil
	})
	time.Sleep(100*time.Millisecond + time.Since(begun)) // most of its time has its energy counted
	s := seriesIn(nil, n.do(hostapi.EventEpilogue, "1.srv").Usage, uuid(0))
	n.do(hostapi.EventEnd, "1.srv")
	if s == nil || len(s.Times) != 1 || !(s.Columns[hostapi.ColumnPowerWatts][0] > 50) ||
		s.Columns[hostapi.ColumnUtilizationPercent][0] != 0 {
		t.Errorf("%+v", s)
	}
	if calls := g.calls(); len(calls) > 0 {
		t.Errorf("asked for %v", calls)
	}
}

func TestNobodyIsAskedWithoutADeviceOfOneJob(t *testing.T) {
	n, g := drawnNode(t, time.Second)
	n.job("1.srv")
	n.do(hostapi.EventBegin, "1.srv")
	shared, h := drawnNode(t, time.Second)
	shared.policy.Devices.JobsPerDevice = 2
	shared.job("1.srv", a100(0))
	shared.do(hostapi.EventBegin, "1.srv")
	for _, m := range []*node{n, shared} {
		if len(m.charts.jobs) > 0 || m.charts.drawing {
			t.Errorf("charts of %d jobs", len(m.charts.jobs))
		}
		m.do(hostapi.EventEpilogue, "1.srv")
		m.do(hostapi.EventEnd, "1.srv")
	}
	if calls := append(g.calls(), h.calls()...); len(calls) > 0 {
		t.Errorf("asked for %v", calls)
	}
}

// A driver takes seconds to answer if no program holds it open.
func TestJobThatIsDueWhileTheDriverAnswersIsAskedForNext(t *testing.T) {
	n, g := drawnNode(t, time.Hour)
	clock := time.Now()
	n.now = func() time.Time { return clock }
	n.hook.sample = func(ctx context.Context, limit time.Duration, since time.Time, uuids ...string) (
		*inventory.NVIDIASamples, error) {
		clock = clock.Add(5 * time.Second)
		return g.sample(ctx, limit, since, uuids...)
	}
	device := func(id string) map[string]*deviceChart {
		return map[string]*deviceChart{id: {points: series.NewRecorder(hostapi.ColumnUtilizationPercent,
			hostapi.ColumnDeviceMemBytes, hostapi.ColumnPowerWatts)}}
	}
	n.charts.jobs["1.srv"] = &jobChart{begun: clock, due: clock, devices: device(uuid(0))}
	due := clock.Add(3 * time.Second)
	n.charts.jobs["2.srv"] = &jobChart{begun: clock, due: due, devices: device(uuid(1))}
	asked := n.now()
	_, uuids, since, _ := n.charts.next(asked)
	n.addPoints(asked, uuids, since)
	if got := n.charts.jobs["2.srv"].due; !got.Equal(due) {
		t.Errorf("2.srv is due at %v, want %v", got, due)
	}
	if n.charts.jobs["1.srv"].devices[uuid(0)].points.Last() == 0 {
		t.Error("1.srv has no point")
	}
}

// A periodic may have a list of jobs from before a job's end.
func TestDeviceOfAJobThatHasGoneIsNotAskedFor(t *testing.T) {
	n, _ := drawnNode(t, time.Hour)
	j := n.job("1.srv", a100(0))
	g, err := inventory.GrantOf(j)
	must.NoError(t, err)
	n.do(hostapi.EventBegin, "1.srv")
	n.do(hostapi.EventEpilogue, "1.srv")
	must.NoError(t, j.Remove(t.Context()))
	n.do(hostapi.EventEnd, "1.srv")
	n.draw(j, g)
	n.charts.mu.Lock()
	defer n.charts.mu.Unlock()
	if len(n.charts.jobs) > 0 {
		t.Errorf("charts of %d jobs", len(n.charts.jobs))
	}
}

func TestDriverThatFailsLeavesAGapAndOneLine(t *testing.T) {
	n, g := drawnNode(t, time.Second)
	g.fail(errors.New("no answer"))
	n.job("1.srv", a100(0))
	n.do(hostapi.EventBegin, "1.srv")
	must.Eventually(t, "three calls", func() bool { return len(g.calls()) >= 3 })
	if s := seriesIn(nil, n.do(hostapi.EventPeriodic, "1.srv").Jobs["1.srv"].Usage, uuid(0)); s != nil {
		t.Errorf("%+v", s)
	}
	g.fail(nil)
	must.Eventually(t, "a point", func() bool {
		return seriesIn(nil, n.do(hostapi.EventPeriodic, "1.srv").Jobs["1.srv"].Usage, uuid(0)) != nil
	})
	n.do(hostapi.EventEpilogue, "1.srv")
	n.do(hostapi.EventEnd, "1.srv")
	if lines := strings.Count(n.logged.String(), "have gaps"); lines != 1 {
		t.Errorf("%d lines", lines)
	}
}
