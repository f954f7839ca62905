package main

import (
	"errors"
	"math"
	"sync"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/sample"
	"github.com/hookhost/hookhost/internal/series"
)

// chart has the points of a job's series that the host does not have for certain yet. The beat adds
// points, and the job's end adds the last one.
type chart struct {
	h     *hook
	j     *cgroup.Job
	begun time.Time

	mu     sync.Mutex // over the rest
	meter  *cgroup.Meter
	points *series.Recorder
	last   cgroup.Reading
	at     time.Time // of last; zero before the first
	most   float64   // the greatest memory that was seen since
	failed bool      // a reading failed, and that was logged
}

// chartOf returns a job's chart, which is made if there is none. The result is nil where no series
// is configured.
func (h *hook) chartOf(j *cgroup.Job) (c *chart) {
	if h.policy.Series.Interval <= 0 {
		return nil
	}
	h.with(j.ID(), func(e *job) {
		if e.chart == nil {
			e.chart = h.newChart(j)
		}
		c = e.chart
	})
	return c
}

func (h *hook) newChart(j *cgroup.Job) *chart {
	return &chart{h: h, j: j, begun: time.Now(), meter: j.Meter(), points: series.NewRecorder(
		hostapi.ColumnCPU, hostapi.ColumnRSSBytes, hostapi.ColumnCacheBytes, hostapi.ColumnPids,
		hostapi.ColumnReadBytes, hostapi.ColumnWriteBytes,
		hostapi.ColumnCPUPressure, hostapi.ColumnMemoryPressure, hostapi.ColumnIOPressure)}
}

// draw has points added on the beat until stop is called, which waits for one that is being added.
func (c *chart) draw() (stop func()) {
	if c == nil {
		return func() {}
	}
	entry := c.h.tree.Beat().Add(c)
	return func() {
		entry.Remove()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.meter.Close()
	}
}

// Sample is for the beat.
func (c *chart) Sample() sample.Next {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if err := c.add(now, now.Unix()); errors.Is(err, cgroup.ErrNotFound) {
		return sample.Asleep
	}
	pause, slack := series.Pause(time.Duration(c.h.policy.Series.Interval), now.Sub(c.begun), now)
	return sample.Next{After: pause, Slack: slack}
}

// see notes memory that a look at the job has seen: a point has the greatest.
func (c *chart) see(bytes int64) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.most = max(c.most, float64(bytes))
}

// end adds the last point, so that a job that ends before its second point has two. A second of the
// clock that has a point already is not the last one's.
func (c *chart) end() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.add(now, max(now.Unix(), c.points.Last()+1))
	c.meter.Close()
}

// answer returns the points that the host may not have.
func (c *chart) answer() *hostapi.Series {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.points.Answer()
}

// add adds a point with the given second of the clock. A clock that was set back adds none until it
// has come to where it was. The next point counts from the one before then. The caller holds mu.
func (c *chart) add(now time.Time, second int64) error {
	if second <= c.points.Last() {
		return nil
	}
	r, err := c.meter.Read()
	switch {
	case errors.Is(err, cgroup.ErrNotFound):
		return err
	case err != nil && !c.failed:
		c.h.logOf(c.j.ID()).Warn(err)
	}
	c.failed = err != nil
	seconds := math.NaN() // since the point before
	if !c.at.IsZero() {
		seconds = max(now.Sub(c.at).Seconds(), 1) // the times of two points are a second apart at least
	}
	rss := r.RSS
	if !math.IsNaN(rss) {
		rss = max(rss, c.most)
	}
	c.points.Add(second,
		rate(c.last.CPU, r.CPU, seconds), rss, r.Cache, r.Pids,
		rate(c.last.ReadBytes, r.ReadBytes, seconds), rate(c.last.WriteBytes, r.WriteBytes, seconds),
		share(c.last.CPUPressure, r.CPUPressure, seconds), share(c.last.MemoryPressure, r.MemoryPressure, seconds),
		share(c.last.IOPressure, r.IOPressure, seconds))
	c.last, c.at, c.most = r, now, 0
	return nil
}

// rate returns by how much a counter grew in a second. A counter that fell was not the same one.
func rate(before, now, seconds float64) float64 {
	if grew := (now - before) / seconds; grew >= 0 {
		return grew
	}
	return math.NaN()
}

// share is rate of a time. The counter and the clock are not read at the same moment.
func share(before, now, seconds float64) float64 { return min(rate(before, now, seconds), 1) }
