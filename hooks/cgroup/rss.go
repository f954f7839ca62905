package main

import (
	"context"
	"errors"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/cgroup"
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

// boundsNow returns the bounds of a job as its cgroup has them. Of what was not begun by this hook, or is over, nothing
// is bounded.
func (h *hook) boundsNow(j *cgroup.Job) bounds {
	r, err := j.Record()
	if err != nil || r.Ending {
		return bounds{}
	}
	a, err := h.policy.askedIn(r)
	if err != nil {
		h.logOf(j.ID()).Warn(err)
		return bounds{}
	}
	return h.policy.boundsOf(a)
}

// How often a job is looked at. From one look to the next it may exceed a bound unnoticed by what it can take in the
// pause: one that has been at rest by a second's worth, or a tenth of that within a tenth of its bound; one that moves by
// less, the nearer the less; see pace. Only the budget makes it more.
const (
	shortestPause = 20 * time.Millisecond

	// usualKernel is the part of mem that is free of charge for kernel memory: what any program has
	// of page tables, stacks and descriptors. A job that was within its mem without these stays so.
	usualKernel = 16

	nearPause    = 100 * time.Millisecond // the longest of a job at rest that is within a tenth of its bound
	longestPause = 800 * time.Millisecond
	fastGrowth   = 1 << 30 // bytes a second that a job is taken to be capable of until it shows more
	boundsAge    = 30 * time.Second

	// All looks of this process together may take one part in budget of a cpu; to wake up for them costs about as much again.
	// Where they are expensive, at many processes with pmem, pauses grow, to costliestPause at most.
	budget         = 200
	costliestPause = 20 * time.Second
)

// sampler looks at a job's memory until the job is over. What it has said is on the cgroup, and it begins anew from
// there in another process.
type sampler struct {
	h      *hook
	j      *cgroup.Job
	bounds bounds
	asked  time.Time // when bounds were read

	resized <-chan struct{}

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
// kernel's: anonymous and shared memory, and kernel memory that no one but the job can give back,
// such as the buffers of its sockets and pipes.
func charged(held cgroup.Resident, bound int64) (mem, kernel int64) {
	kernel = max(0, held.Kernel-bound/usualKernel)
	return held.Used + kernel, kernel
}

// enforce follows the job until ctx ends or its cgroup is gone, and kills it when it exceeds a bound. Without bounds it
// waits for a resize to bring some.
func (h *hook) enforce(ctx context.Context, j *cgroup.Job, resized <-chan struct{}) {
	for {
		s := &sampler{h: h, j: j, resized: resized}
		if s.bounds, s.asked = h.boundsNow(j), time.Now(); !s.bounds.none() {
			s.run(ctx)
		}
		select {
		case <-resized:
		case <-ctx.Done():
			return
		}
	}
}

// run follows the job while it has bounds.
func (s *sampler) run(ctx context.Context) {
	h, j := s.h, s.j
	h.samplers.Add(1)
	defer h.samplers.Add(-1)
	if held, err := j.Resident(0); err == nil {
		s.before = held.Seen
	}
	if text, err := j.Mark(excessMark); err == nil { // the process that began to kill it is gone
		s.kill(ctx, string(text))
	}
	for failed := false; ; {
		excess, err := s.look()
		switch {
		case errors.Is(err, cgroup.ErrNotFound):
			return
		case err != nil:
			if s.pause = longestPause; !failed {
				h.logOf(j.ID()).Warn(err)
			}
			failed = true
		case excess != "" && s.renew(): // it was resized, or is over
		case excess != "":
			s.kill(ctx, excess)
		case time.Since(s.asked) > boundsAge:
			s.renew()
		}
		if s.bounds.none() {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-s.resized:
			s.renew()
		case <-time.After(together(s.pause)):
		}
	}
}

// together lengthens a long pause, by a quarter at most, so that jobs at rest are looked at in one go: it is the waking
// up that costs.
func together(pause time.Duration) time.Duration {
	if pause < nearPause {
		return pause
	}
	grid := nearPause / 4
	for grid*8 <= pause {
		grid *= 2
	}
	now := time.Duration(time.Now().UnixNano())
	return (now+pause+grid-1)/grid*grid - now
}

// renew reads the bounds again and tells whether they have changed.
func (s *sampler) renew() (changed bool) {
	b := s.h.boundsNow(s.j)
	s.asked = time.Now()
	same := func(a, b *int64) bool { return a == b || a != nil && b != nil && *a == *b }
	if same(b.mem, s.bounds.mem) && same(b.pmem, s.bounds.pmem) && same(b.pvmem, s.bounds.pvmem) {
		return false
	}
	if held, err := s.j.Resident(0); err == nil {
		s.before = held.Seen
	}
	s.bounds = b
	return true
}

// look takes a sample, sets the next pause, and returns what is to be said when a bound is exceeded.
func (s *sampler) look() (excess string, err error) {
	// The clock is the thread's: time that others had the cpu is no cost.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start := threadTime()
	v, seen, err := s.read()
	if err != nil {
		return "", err
	}
	b := s.bounds
	// Until its execve(2) a vfork child has the memory of its parent, which may be hookhost. What
	// processes themselves show counts when two looks say so; a controller knows whose memory it is.
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

// pace decides when to look again, given what was found and how long ago the look before was: when the first of the
// bounds could be reached at twice the growth since then. While nothing moves the pause doubles.
func (s *sampler) pace(v values, since time.Duration) time.Duration {
	pause := longestPause
	for _, q := range []struct {
		bound     *int64
		now, then int64
	}{{s.bounds.mem, v.mem, s.last.mem}, {s.bounds.pmem, v.pmem, s.last.pmem}, {s.bounds.pvmem, v.pvmem, s.last.pvmem}} {
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
