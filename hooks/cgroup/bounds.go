package main

import (
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
)

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
