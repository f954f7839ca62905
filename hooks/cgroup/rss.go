package main

import (
	"context"
	"errors"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/sample"
)

// bounds are the amounts that a job is killed for exceeding, in bytes. 0 means no bound. The kernel
// enforces none of them: mem is memory without caches (see charged), pmem and pvmem apply to each
// process (pbs_resources(7B)).
type bounds struct{ mem, pmem, pvmem int64 }

func (b bounds) none() bool { return b == bounds{} }

// boundsOf decides which bounds of a job are sampled.
func (p *policy) boundsOf(a ask) bounds {
	b := bounds{pmem: int64(a.pmem), pvmem: int64(a.pvmem)}
	switch {
	case !p.Memory.Enabled || p.Memory.Enforce == "cgroup":
	case a.Mem != nil:
		b.mem = int64(*a.Mem)
	case p.Memory.EnforceDefault && !(p.Memory.ExclhostIgnoreDefault && a.exclhost):
		b.mem = int64(p.Memory.Default)
	}
	return b
}

// boundsNow returns the job's current bounds. A job that this hook did not begin, or that is over,
// has none.
func (h *hook) boundsNow(j *cgroup.Job) (b bounds) {
	h.with(j.ID(), func(e *job) {
		if e.granted != nil && !e.unmarked && e.phase != hostapi.PhaseExiting {
			b = h.policy.boundsOf(e.granted.ask)
		}
	})
	return b
}

// Between two samples a job can exceed a bound unnoticed, by as much as it can allocate in the
// pause. For a job at rest that is up to a second's worth, or a tenth of that within a tenth of its
// bound. For a job that is moving, the pause shrinks as it comes closer; see pace. Only the budget
// can make it longer.
const (
	shortestPause = 20 * time.Millisecond

	// usualKernel is the divisor of mem for the kernel memory that does not count (1/16). Any
	// program has page tables, stacks and descriptors. A job that is within its mem without these
	// stays within it.
	usualKernel = 16

	nearPause    = 100 * time.Millisecond // longest for a job at rest within a tenth of its bound
	longestPause = 800 * time.Millisecond
	fastGrowth   = 1 << 30 // bytes a second that any job is assumed capable of

	// All samples of this process together may use 1/budget of a cpu. Waking up for them costs
	// about as much again. If samples are expensive, as with pmem and many processes, pauses grow
	// to costliestPause at most.
	budget         = 200
	costliestPause = 20 * time.Second
)

// sampler samples a job's memory on the beat, as long as the job has these bounds. What it reports
// is also on the cgroup, and a sampler in another process continues from there.
type sampler struct {
	h      *hook
	j      *cgroup.Job
	bounds bounds
	entry  *sample.Entry
	found  chan string // text about the exceeded bound, or "" if the bounds have changed; holds one

	before int64 // Seen when the bounds took effect, so it does not count

	// The beat writes the rest. The job's goroutine reads it while the entry is asleep.
	failed bool  // a sample failed, which was logged
	held   int64 // memory above the bound of mem that a sample found

	last  values
	at    time.Time
	pause time.Duration
	took  time.Duration // cost of the last sample
}

// values are what the bounds limit, and the kernel's part of mem.
type values struct{ mem, pmem, pvmem, kernel int64 }

// charged returns what counts against a bound of mem, and the kernel's part of it. Anonymous and
// shared memory count. So does kernel memory that only the job can release, such as the buffers of
// its sockets and pipes.
func charged(held cgroup.Resident, bound int64) (mem, kernel int64) {
	kernel = max(0, held.Kernel-bound/usualKernel)
	return held.Used + kernel, kernel
}

// enforce watches the job until ctx ends, and kills it when it exceeds a bound. A job without
// bounds is not sampled until a resize sets some.
func (h *hook) enforce(ctx context.Context, j *cgroup.Job, resized <-chan struct{}) {
	for ctx.Err() == nil {
		if b := h.boundsNow(j); !b.none() {
			s := &sampler{h: h, j: j, bounds: b, found: make(chan string, 1)}
			s.run(ctx, resized)
			continue
		}
		select {
		case <-resized:
		case <-ctx.Done():
		}
	}
}

// run samples the job until its bounds have to be read again.
func (s *sampler) run(ctx context.Context, resized <-chan struct{}) {
	h, j := s.h, s.j
	h.samplers.Add(1)
	defer h.samplers.Add(-1)
	if held, err := j.Resident(0); err == nil {
		s.before = held.Seen
	}
	if text, err := j.Mark(excessMark); err == nil { // an earlier process began to kill it and is gone
		s.kill(ctx, string(text))
	}
	s.entry = h.tree.Beat().Add(s)
	defer s.entry.Remove()
	for {
		select {
		case <-ctx.Done():
			return
		case <-resized:
			return
		case text := <-s.found:
			if text == "" {
				return
			}
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

// Sample is called by the beat. A sampler that found something, or whose job is gone, sleeps.
func (s *sampler) Sample() sample.Next {
	excess, err := s.measure()
	switch {
	case errors.Is(err, cgroup.ErrNotFound):
		return sample.Asleep
	case err != nil:
		s.pause = longestPause
		if !s.failed {
			s.h.logOf(s.j.ID()).Warn(err)
		}
		s.failed = true
	}
	if excess != "" {
		if s.h.boundsNow(s.j) != s.bounds { // the job was resized or is over
			excess = ""
		}
		s.found <- excess
		return sample.Asleep
	}
	next := sample.Next{After: s.pause}
	if s.pause >= nearPause {
		next.Slack = s.pause / 4
	}
	return next
}

// measure takes a sample, sets the next pause, and returns the message if a bound is exceeded.
func (s *sampler) measure() (excess string, err error) {
	// The thread's clock does not count time in which others used the cpu.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start := threadTime()
	v, seen, err := s.read()
	if err != nil {
		return "", err
	}
	b := s.bounds
	// Until its execve(2) a vfork child has the memory of its parent, which may be hookhost. So
	// figures from /proc count only when two samples agree. A controller knows whose memory it is.
	counted := s.h.tree.Has("memory")
	switch {
	case b.mem > 0 && v.mem-v.kernel > b.mem && (counted || s.last.mem > b.mem):
		s.held = v.mem - v.kernel // the part up to the bound may be page cache
		excess = exceededText("mem", v.mem-v.kernel, b.mem)
	case b.mem > 0 && v.mem > b.mem && s.last.mem > b.mem: // twice: the kernel's counters are not from one moment
		s.held = v.mem - v.kernel
		excess = exceededText("mem", v.mem, b.mem) + kernelText(v.kernel)
	case b.mem > 0 && seen > max(b.mem, s.before): // between two samples
		excess = exceededText("mem", seen, b.mem)
	case b.pmem > 0 && v.pmem > b.pmem && s.last.pmem > b.pmem:
		excess = exceededText("pmem", v.pmem, b.pmem)
	case b.pvmem > 0 && v.pvmem > b.pvmem && s.last.pvmem > b.pvmem:
		excess = exceededText("pvmem", v.pvmem, b.pvmem)
	}
	now := time.Now()
	s.pause = s.pace(v, now.Sub(s.at))
	s.last, s.at = v, now
	took := threadTime() - start
	cost := min(took, s.took) * budget * time.Duration(s.h.samplers.Load()) // a single sample may have been unlucky
	s.took = took
	s.pause = max(s.pause, min(cost, costliestPause))
	return excess, nil
}

// read reads only what the bounds need.
func (s *sampler) read() (v values, seen int64, err error) {
	counted := s.h.tree.Has("memory")
	if s.bounds.mem > 0 && counted {
		held, err := s.j.Resident(s.bounds.mem)
		if err != nil {
			return v, 0, err
		}
		v.mem, v.kernel = charged(held, s.bounds.mem)
		seen = held.Seen
	}
	if s.bounds.pmem == 0 && s.bounds.pvmem == 0 && (counted || s.bounds.mem == 0) {
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
	if s.bounds.mem > 0 && !counted {
		held, err := heldByProcesses(s.h.roots.Proc, pids, all, s.bounds.mem)
		if err != nil {
			return v, 0, err
		}
		v.mem = held.Used
	}
	return v, seen, nil
}

// pace decides when to sample next, given the values and the time since the last sample. The next
// sample comes when a bound could be reached at twice the recent growth. While nothing moves, the
// pause doubles.
func (s *sampler) pace(v values, since time.Duration) time.Duration {
	pause := longestPause
	for _, q := range []struct {
		bound, now, then int64
	}{
		{s.bounds.mem, v.mem, s.last.mem},
		{s.bounds.pmem, v.pmem, s.last.pmem},
		{s.bounds.pvmem, v.pvmem, s.last.pvmem},
	} {
		if q.bound == 0 {
			continue
		}
		room := max(0, q.bound-q.now)
		growth := float64(max(0, q.now-q.then)) / max(since.Seconds(), 1e-3)
		next := time.Duration(float64(room) / max(fastGrowth, 2*growth) * float64(time.Second))
		next = min(max(next, shortestPause), longestPause)
		if moved := max(q.now-q.then, q.then-q.now); moved < min(1<<20, q.bound/64) {
			rest := longestPause
			if room < q.bound/10 {
				rest = nearPause
			}
			next = max(next, min(2*s.pause, rest))
		}
		pause = min(pause, next)
	}
	return pause
}

// threadTime returns the cpu time of the calling thread.
func threadTime() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
