package main

import (
	"context"
	"time"

	"github.com/hookhost/hookhost/internal/cgroup"
)

// follower compares what a job uses with its bounds. The beat calls it with each sample, and the
// job's goroutine kills.
type follower struct {
	h      *hook
	j      *cgroup.Job
	chart  *chart
	excess chan excess // holds one
}

// excess is a bound that a sample exceeds, in bytes.
type excess struct {
	what        string
	used, bound int64
}

func (h *hook) follower(j *cgroup.Job, c *chart) *follower {
	return &follower{h: h, j: j, chart: c, excess: make(chan excess, 1)}
}

// memory takes in a sample of anonymous and shared memory, and returns the longest pause until the
// next one.
func (f *follower) memory(used int64) time.Duration {
	f.chart.see(used)
	return f.compare("mem", used, f.h.boundsNow(f.j).mem)
}

// compare reports an excess, and returns the longest pause until the next sample.
func (f *follower) compare(what string, used, bound int64) time.Duration {
	if bound > 0 && used > bound {
		select {
		case f.excess <- excess{what, used, bound}:
		default: // one is being handled
		}
	}
	return pauseAt(used, bound)
}

// run kills the job when it exceeds a bound, until ctx ends.
func (f *follower) run(ctx context.Context, resized <-chan struct{}) {
	if text, err := f.j.Mark(excessMark); err == nil { // an earlier process began to kill it and is gone
		f.kill(ctx, string(text))
	}
	entry := f.h.tree.Beat().Add(&processSampler{follower: f})
	defer entry.Remove()
	for {
		select {
		case <-ctx.Done():
			return
		case <-resized:
			entry.Wake()
		case e := <-f.excess:
			if f.inForce(e) {
				f.kill(ctx, e.text())
			}
		}
	}
}

// inForce reports whether the bound of e is still the job's. The job may have been resized, or be
// over.
func (f *follower) inForce(e excess) bool {
	b := f.h.boundsNow(f.j)
	return e.bound == map[string]int64{"mem": b.mem, "pmem": b.pmem, "pvmem": b.pvmem}[e.what]
}
