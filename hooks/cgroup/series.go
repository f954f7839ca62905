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

// chart holds the points of a job's series that the host may not have received yet. The beat adds
// points, and the job's end adds the last one.
type chart struct {
	h     *hook
	j     *cgroup.Job
	begun time.Time

	mu     sync.Mutex // guards the rest
	points *series.Recorder
	last   cgroup.Usage
	at     time.Time // time of last; zero before the first point
	most   float64   // the most memory since then
	failed bool      // a reading failed, and that has been logged
}

// chartOf returns a job's chart, and creates it if necessary. It is nil if no series is configured.
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
	return &chart{h: h, j: j, begun: time.Now(), points: series.NewRecorder(
		hostapi.ColumnCPU, hostapi.ColumnRSSBytes, hostapi.ColumnCacheBytes, hostapi.ColumnPids,
		hostapi.ColumnReadBytes, hostapi.ColumnWriteBytes,
		hostapi.ColumnCPUPressure, hostapi.ColumnMemoryPressure, hostapi.ColumnIOPressure)}
}

// draw adds points on the beat until stop is called. stop waits for a point that is being added.
func (c *chart) draw() (stop func()) {
	if c == nil {
		return func() {}
	}
	return c.h.tree.Beat().Add(c).Remove
}

// Sample is called by the beat.
func (c *chart) Sample() sample.Next {
	u, err := c.j.Usage()
	if errors.Is(err, cgroup.ErrNotFound) {
		return sample.Asleep
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil && !c.failed {
		c.h.logOf(c.j.ID()).Warn(err)
	}
	c.failed = err != nil
	now := time.Now()
	c.add(now, now.Unix(), u)
	pause, slack := series.Pause(time.Duration(c.h.policy.Series.Interval), now.Sub(c.begun), now)
	return sample.Next{After: pause, Slack: slack}
}

// record notes memory that the watch saw. Each point has the greatest value since the previous one.
func (c *chart) record(bytes int64) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.most = max(c.most, float64(bytes))
}

// end adds the last point, so that even a job that ends before its second point has two. If there
// is already a point for the current second, the last one is dated later.
func (c *chart) end(u cgroup.Usage) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.add(now, max(now.Unix(), c.points.Last()+1), u)
}

// answer returns the points that the host may not have yet.
func (c *chart) answer() *hostapi.Series {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.points.Answer()
}

// add adds a point for the given second of the clock. If the clock was set back, it adds nothing
// until the clock reaches the old time again. The next point then covers the whole gap. The caller
// holds mu.
func (c *chart) add(now time.Time, second int64, u cgroup.Usage) {
	if second <= c.points.Last() {
		return
	}
	seconds := math.NaN() // since the previous point
	if !c.at.IsZero() {
		seconds = max(now.Sub(c.at).Seconds(), 1) // two points are at least a second apart
	}
	rss := figure(u.Anon) + figure(u.Shmem)
	if !math.IsNaN(rss) {
		rss = max(rss, c.most)
	}
	last := c.last
	c.points.Add(second,
		rate(figure(last.CPU), figure(u.CPU), seconds)/float64(time.Second), rss, figure(u.File), figure(u.Pids),
		rate(figure(last.ReadBytes), figure(u.ReadBytes), seconds),
		rate(figure(last.WriteBytes), figure(u.WriteBytes), seconds),
		share(last.CPUSome, u.CPUSome, seconds), share(last.MemorySome, u.MemorySome, seconds),
		share(last.IOSome, u.IOSome, seconds))
	c.last, c.at, c.most = u, now, 0
}

// figure returns a counter as a number, or NaN if the kernel does not provide it.
func figure[N int64 | time.Duration](n *N) float64 {
	if n == nil {
		return math.NaN()
	}
	return float64(*n)
}

// rate returns a counter's growth per second. If the counter went down, it is a different counter,
// and the rate is not known.
func rate(before, now, seconds float64) float64 {
	if grew := (now - before) / seconds; grew >= 0 {
		return grew
	}
	return math.NaN()
}

// share is rate for a counter of time. It is capped at 1, because the counter and the clock are not
// read at the same moment.
func share(before, now *time.Duration, seconds float64) float64 {
	return min(rate(figure(before), figure(now), seconds)/float64(time.Second), 1)
}
