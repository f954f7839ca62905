package main

import (
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
)

// memAmounts are bytes of memory: what a job may use, or what it uses. In bounds, 0 means no bound.
// mem is memory without caches. pmem and pvmem apply to each process (pbs_resources(7B)).
type memAmounts struct{ mem, pmem, pvmem int64 }

// boundsOf decides what a job is killed for exceeding. The kernel enforces none of that. A job that
// was granted no mem, or all of it, has no bound, whatever defaults are configured since.
func (p *policy) boundsOf(got *assignment) memAmounts {
	b := memAmounts{pmem: int64(got.ask.pmem), pvmem: int64(got.ask.pvmem)}
	if p.Memory.Enabled && p.Memory.Enforce != "cgroup" && got.limits.Mem != nil && !got.allMem {
		b.mem = *got.limits.Mem
	}
	return b
}

// boundsNow returns the job's current bounds. A job that this hook did not begin, or that is over,
// has none.
func (h *hook) boundsNow(j *cgroup.Job) (b memAmounts) {
	h.with(j.ID(), func(e *job) {
		if e.granted != nil && !e.unmarked && e.phase != hostapi.PhaseExiting {
			b = h.policy.boundsOf(e.granted)
		}
	})
	return b
}

// A job can exceed a bound unnoticed, and undo that, between two samples.
const (
	usualPause = cgroup.SamplePause
	nearPause  = 100 * time.Millisecond // above four fifths of a bound
)

// pauseAt returns the longest pause until the next sample.
func pauseAt(used, bound int64) time.Duration {
	if bound > 0 && used > bound/5*4 {
		return nearPause
	}
	return usualPause
}
