package main

import (
	"context"
	"time"

	"github.com/hookhost/hookhost/internal/cgroup"
)

// follower compares a job's usage with its bounds. The beat passes it each sample, and the job's
// goroutine kills.
type follower struct {
	h     *hook
	j     *cgroup.Job
	chart *chart
	found chan excess // has room for one
}

func (h *hook) follower(j *cgroup.Job, c *chart) *follower {
	return &follower{h: h, j: j, chart: c, found: make(chan excess, 1)}
}

// memory handles a sample of anonymous and shared memory, and returns the longest pause until the
// next one.
func (f *follower) memory(used int64) time.Duration {
	f.h.recordMem(f.j.ID(), used)
	f.chart.record(used)
	return f.compare("mem", used, f.h.boundsNow(f.j).mem)
}

// compare reports an excess if there is one, and returns the longest pause until the next sample.
func (f *follower) compare(what string, used, bound int64) time.Duration {
	if bound > 0 && used > bound {
		select {
		case f.found <- excess{what, used, bound}:
		default: // one is being handled
		}
	}
	return pauseAt(used, bound)
}

// run waits for the job to exceed a bound and then kills it. It returns when ctx ends.
func (f *follower) run(ctx context.Context, resized <-chan struct{}) {
	if text, err := f.j.Mark(reasonMark); err == nil { // an earlier process died after it began to kill the job
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
		case e := <-f.found:
			if f.inForce(e) {
				f.kill(ctx, e.text())
			}
		}
	}
}

// inForce reports whether the job still has the bound in e. Meanwhile it may have been resized or
// have ended.
func (f *follower) inForce(e excess) bool {
	b := f.h.boundsNow(f.j)
	return e.bound == map[string]int64{"mem": b.mem, "pmem": b.pmem, "pvmem": b.pvmem}[e.what]
}
