package main

import (
	"context"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
)

// follower compares a job's usage with its bounds. The beat passes it each sample, and the job's
// goroutine kills.
type follower struct {
	h        *hook
	j        *cgroup.Job
	chart    *chart
	excesses chan excess // has room for one
}

func (h *hook) follower(j *cgroup.Job, c *chart) *follower {
	return &follower{h: h, j: j, chart: c, excesses: make(chan excess, 1)}
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
		case f.excesses <- excess{what, used, bound}:
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
		case e := <-f.excesses:
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

// memAmounts are bytes of memory: the bounds of a job, or its usage. As a bound, 0 means none. mem
// is memory without page cache. pmem and pvmem apply to each process (pbs_resources(7B)).
type memAmounts struct{ mem, pmem, pvmem int64 }

// boundsOf returns the bounds that a job is killed for exceeding. The kernel does not enforce any
// of them. A job that was assigned no mem, or all of it, has no bound, whatever defaults have been
// configured since.
func (p *policy) boundsOf(got *assignment) memAmounts {
	b := memAmounts{pmem: int64(got.ask.pmem), pvmem: int64(got.ask.pvmem)}
	if p.Memory.Enabled && p.Memory.Enforce != "cgroup" && got.limits.Mem != nil && !got.allMem {
		b.mem = *got.limits.Mem
	}
	return b
}

// boundsNow returns the job's current bounds. It returns none for a job that is over or that this
// hook did not begin.
func (h *hook) boundsNow(j *cgroup.Job) (b memAmounts) {
	h.with(j.ID(), func(e *job) {
		if e.assigned != nil && !e.unmarked && e.phase != hostapi.PhaseExiting {
			b = h.policy.boundsOf(e.assigned)
		}
	})
	return b
}

// Between two samples a job can exceed a bound and return below it unnoticed.
const (
	usualPause = cgroup.SamplePause
	nearPause  = 100 * time.Millisecond // above four fifths of a bound
)

// pauseAt returns the longest permissible pause until the next sample.
func pauseAt(used, bound int64) time.Duration {
	if bound > 0 && used > bound/5*4 {
		return nearPause
	}
	return usualPause
}
