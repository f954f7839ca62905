package main

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/sample"
)

// bounds are what a job is killed for exceeding, in bytes; nil is no bound. The kernel limits none
// of it: mem is memory without caches (see charged), pmem and pvmem are of one process
// (pbs_resources(7B)).
type bounds struct{ mem, pmem, pvmem *int64 }

func (b bounds) none() bool { return b == bounds{} }

// boundsOf decides what is sampled of a job.
func (p *policy) boundsOf(a ask) bounds {
	b := bounds{pmem: a.pmem, pvmem: a.pvmem}
	switch {
	case !p.Memory.Enabled || p.Memory.Enforce == "cgroup":
	case a.Mem != nil:
		mem := int64(*a.Mem)
		b.mem = &mem
	case p.Memory.EnforceDefault && p.Memory.Default > 0:
		mem := int64(p.Memory.Default)
		b.mem = &mem
	}
	return b
}

// boundsNow returns the bounds of a job as its cgroup has them. A job that was not begun by this
// hook, or is over, has none.
func (h *hook) boundsNow(j *cgroup.Job) (bounds, error) {
	if h.phaseOf(j.ID()) == hostapi.PhaseExiting {
		return bounds{}, nil
	}
	m, found, err := markOf(j)
	if err != nil || !found {
		return bounds{}, err
	}
	a, err := h.policy.askedIn(m)
	if err != nil {
		return bounds{}, err
	}
	return h.policy.boundsOf(a), nil
}

// From one look to the next a job may exceed a bound unnoticed by what it can take in the pause. A
// job that has been at rest may by a second's worth, or a tenth of that within a tenth of its
// bound. A job that moves may by less, the nearer the less; see pace. Only the budget makes it
// more.
const (
	shortestPause = 20 * time.Millisecond

	// usualKernel is the part of mem that is free of charge for kernel memory: what any program has
	// of page tables, stacks and descriptors. A job that was within its mem without these stays so.
	usualKernel = 16

	nearPause    = 100 * time.Millisecond // the longest of a job at rest that is within a tenth of its bound
	longestPause = 800 * time.Millisecond
	fastGrowth   = 1 << 30 // bytes a second that a job is taken to be capable of until it shows more
	boundsAge    = 30 * time.Second

	// All looks of this process together may take one part in budget of a cpu. The wake-ups for
	// them cost about as much again. If looks are expensive, at many processes with pmem, pauses
	// grow, to costliestPause at most.
	budget         = 200
	costliestPause = 20 * time.Second
)

// sampler samples a job's memory, on the beat, until the job is over. Its reports are on the
// cgroup, and a sampler in another process resumes from there.
type sampler struct {
	h        *hook
	j        *cgroup.Job
	entry    *sample.Entry
	resized  atomic.Bool   // the bounds are to be read anew
	exceeded chan string   // the text of a bound that was exceeded; holds one
	over     chan struct{} // the job is gone or has no bounds; holds one

	// The beat writes the rest. While the entry is asleep the job's own goroutine reads it.
	bounds bounds
	asked  time.Time // when bounds were read
	failed bool      // a sample failed, and that was logged

	before int64 // Seen when the bounds came into force: not theirs
	held   int64 // what a look found that was more than the bound of mem

	last  values
	at    time.Time
	pause time.Duration
	took  time.Duration // what the last look cost
}

// values are what the bounds bound, and of mem the part that is the kernel's.
type values struct{ mem, pmem, pvmem, kernel int64 }

// charged is what counts of a job's memory against a bound of mem, and which part of that is the
// kernel's. Anonymous and shared memory count. Kernel memory counts that no one but the job can
// give back, such as the buffers of its sockets and pipes.
func charged(held cgroup.Resident, bound int64) (mem, kernel int64) {
	kernel = max(0, held.Kernel-bound/usualKernel)
	return held.Used + kernel, kernel
}

// enforce follows the job until ctx ends or its cgroup is gone, and kills it when it exceeds a
// bound. A job without bounds is not sampled until a resize brings some.
func (h *hook) enforce(ctx context.Context, j *cgroup.Job, resized <-chan struct{}) {
	for {
		s := &sampler{h: h, j: j, exceeded: make(chan string, 1), over: make(chan struct{}, 1)}
		var again <-chan time.Time
		switch b, err := h.boundsNow(j); {
		case err != nil:
			if h.firstLeft("bounds " + j.ID()) {
				h.logOf(j.ID()).Warnf("its bounds are not known yet: %v", err)
			}
			again = time.After(boundsAge)
		case !b.none():
			s.bounds, s.asked = b, time.Now()
			s.run(ctx, resized)
		}
		select {
		case <-resized:
		case <-again:
		case <-ctx.Done():
			return
		}
	}
}

// run has the job sampled while it has bounds.
func (s *sampler) run(ctx context.Context, resized <-chan struct{}) {
	h, j := s.h, s.j
	h.samplers.Add(1)
	defer h.samplers.Add(-1)
	if held, err := j.Resident(0); err == nil {
		s.before = held.Seen
	}
	if text, err := j.Mark(excessMark); err == nil { // the process that began to kill it is gone
		s.kill(ctx, string(text))
	}
	s.entry = h.tree.Beat().Add(s)
	defer s.entry.Remove()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.over:
			return
		case <-resized:
			s.resized.Store(true)
		case text := <-s.exceeded:
			s.kill(ctx, text)
			select {
			case <-time.After(s.pause):
			case <-ctx.Done():
				return
			}
		}
		s.entry.Wake()
	}
}

// Sample is for the beat. A sampler that has found an excess, or has no bounds, sleeps.
func (s *sampler) Sample() sample.Next {
	if s.resized.Swap(false) || time.Since(s.asked) > boundsAge {
		if _, err := s.renew(); err != nil {
			s.resized.Store(true)
			s.warn(err)
		}
	}
	excess, err := s.measure()
	if excess != "" {
		var changed bool
		if changed, err = s.renew(); err == nil && !changed { // else the job was resized, is over, or is not known
			select {
			case s.exceeded <- excess:
			default:
			}
			return sample.Asleep
		}
	}
	switch {
	case errors.Is(err, cgroup.ErrNotFound):
		s.bounds = bounds{}
	case err != nil:
		s.pause = longestPause
		s.warn(err)
	}
	if s.bounds.none() {
		select {
		case s.over <- struct{}{}:
		default:
		}
		return sample.Asleep
	}
	next := sample.Next{After: s.pause}
	if s.pause >= nearPause {
		next.Slack = s.pause / 4
	}
	return next
}

// warn logs the first error.
func (s *sampler) warn(err error) {
	if !s.failed {
		s.h.logOf(s.j.ID()).Warn(err)
	}
	s.failed = true
}

// renew reads the bounds again and reports whether they have changed. The old ones stay where they
// cannot be read.
func (s *sampler) renew() (changed bool, err error) {
	b, err := s.h.boundsNow(s.j)
	if err != nil {
		return false, err
	}
	s.asked = time.Now()
	same := func(a, b *int64) bool { return a == b || a != nil && b != nil && *a == *b }
	if same(b.mem, s.bounds.mem) && same(b.pmem, s.bounds.pmem) && same(b.pvmem, s.bounds.pvmem) {
		return false, nil
	}
	if held, err := s.j.Resident(0); err == nil {
		s.before = held.Seen
	}
	s.bounds = b
	return true, nil
}

// measure takes a sample, sets the next pause, and returns what is to be said when a bound is
// exceeded.
func (s *sampler) measure() (excess string, err error) {
	// The clock is the thread's: time that others had the cpu is no cost.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start := threadTime()
	v, seen, err := s.read()
	if err != nil {
		return "", err
	}
	b := s.bounds
	// Until its execve(2) a vfork child has the memory of its parent, which may be hookhost.
	// Figures that processes themselves show count when two looks say so; a controller knows whose
	// memory it is.
	counted := s.h.tree.Has("memory")
	switch {
	case b.mem != nil && v.mem-v.kernel > *b.mem && (counted || s.last.mem > *b.mem):
		s.held = v.mem - v.kernel // up to the bound it may be page cache
		excess = exceededText("mem", v.mem-v.kernel, *b.mem)
	case b.mem != nil && v.mem > *b.mem && s.last.mem > *b.mem: // twice: the kernel's counters are not of one moment
		s.held = v.mem - v.kernel
		excess = exceededText("mem", v.mem, *b.mem) + kernelText(v.kernel)
	case b.mem != nil && seen > max(*b.mem, s.before): // between two looks
		excess = exceededText("mem", seen, *b.mem)
	case b.pmem != nil && v.pmem > *b.pmem && s.last.pmem > *b.pmem:
		excess = exceededText("pmem", v.pmem, *b.pmem)
	case b.pvmem != nil && v.pvmem > *b.pvmem && s.last.pvmem > *b.pvmem:
		excess = exceededText("pvmem", v.pvmem, *b.pvmem)
	}
	now := time.Now()
	s.pause = s.pace(v, now.Sub(s.at))
	s.last, s.at = v, now
	took := threadTime() - start
	cost := min(took, s.took) * budget * time.Duration(s.h.samplers.Load()) // one look may have been unlucky
	s.took = took
	s.pause = max(s.pause, min(cost, costliestPause))
	return excess, nil
}

// read takes what the bounds need and no more.
func (s *sampler) read() (v values, seen int64, err error) {
	counted := s.h.tree.Has("memory")
	if s.bounds.mem != nil && counted {
		held, err := s.j.Resident(*s.bounds.mem)
		if err != nil {
			return v, 0, err
		}
		v.mem, v.kernel = charged(held, *s.bounds.mem)
		seen = held.Seen
	}
	if s.bounds.pmem == nil && s.bounds.pvmem == nil && (counted || s.bounds.mem == nil) {
		return v, seen, nil
	}
	pids, err := s.j.Processes()
	if err != nil {
		return v, 0, err
	}
	all, err := footprintOf(s.h.roots.Proc, pids)
	if err != nil {
		return v, 0, err
	}
	v.pmem, v.pvmem = all.largest, all.widest
	if s.bounds.mem != nil && !counted {
		held, err := heldByProcesses(s.h.roots.Proc, pids, all, *s.bounds.mem)
		if err != nil {
			return v, 0, err
		}
		v.mem = held.Used
	}
	return v, seen, nil
}

// pace decides when to look again, given what was found and how long ago the look before was. The
// next look is when the first of the bounds could be reached at twice the growth since then. While
// nothing moves the pause doubles.
func (s *sampler) pace(v values, since time.Duration) time.Duration {
	pause := longestPause
	for _, q := range []struct {
		bound     *int64
		now, then int64
	}{
		{s.bounds.mem, v.mem, s.last.mem},
		{s.bounds.pmem, v.pmem, s.last.pmem},
		{s.bounds.pvmem, v.pvmem, s.last.pvmem},
	} {
		if q.bound == nil {
			continue
		}
		room := max(0, *q.bound-q.now)
		growth := float64(max(0, q.now-q.then)) / max(since.Seconds(), 1e-3)
		next := time.Duration(float64(room) / max(fastGrowth, 2*growth) * float64(time.Second))
		next = min(max(next, shortestPause), longestPause)
		if moved := max(q.now-q.then, q.then-q.now); moved < min(1<<20, *q.bound/64) {
			rest := longestPause
			if room < *q.bound/10 {
				rest = nearPause
			}
			next = max(next, min(2*s.pause, rest))
		}
		pause = min(pause, next)
	}
	return pause
}

// threadTime is the cpu time of the calling thread.
func threadTime() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
