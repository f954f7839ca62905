package main

import (
	"context"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
)

// job is what this program knows about a job. It is lost when the program ends. Everything that
// must survive is on the job's cgroup and in the state that the host stores. The hook's mu guards
// all fields except the contents of the turns.
type job struct {
	// turn is held by one event at a time. The host sends a job's events one after the other, but
	// exechost_startup and exechost_periodic run concurrently with them and handle all jobs.
	turn turn
	// oomTurn is held while kills are recorded, which can happen while an event holds turn.
	oomTurn turn
	uses    int // how many goroutines hold or wait for turn or oomTurn

	known     bool          // it began here or was listed, so no sweep removes it
	phase     hostapi.Phase // set by its last event
	killDelay *int

	watch   *watch
	mem     int64 // the greatest sample of memory, in bytes; see memAtEnd
	chart   *chart
	ranks   *rankMemory
	counted *reading // the node's energy when the job was last counted

	cgroup      *cgroup.Job
	assigned    *assignment // by begin or the last resize; nil if it holds nothing
	growing     *assignment // the target of a resize in progress: until it finishes, the job holds the larger of both
	unread      bool        // assigned has no devices, because their mark could not be read at the start
	unmarked    bool        // assigned was read from the kernel and is not applied again; see fill
	asStays     bool        // RLIMIT_AS of a program could not be lifted; see limit
	lastWarning string      // see warnOnce
}

// idle reports whether there is nothing left to remember about the job.
func (e *job) idle() bool {
	return e.uses == 0 && !e.known && e.watch == nil && e.chart == nil && e.ranks == nil && e.counted == nil &&
		e.assigned == nil && !e.asStays && e.lastWarning == ""
}

// with calls f with the entry of a job, under mu. If nothing is left to remember afterwards, it
// drops the job.
func (h *hook) with(id string, f func(e *job)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.table[id]
	if e == nil {
		e = &job{turn: make(turn, 1), oomTurn: make(turn, 1)}
		h.table[id] = e
	}
	f(e)
	if e.idle() {
		delete(h.table, id)
	}
}

// snapshot returns a copy of a job's entry. It is zero for an unknown job.
func (h *hook) snapshot(id string) job {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e := h.table[id]; e != nil {
		return *e
	}
	return job{}
}

// learn records that this program knows the job. No sweep removes the job until forget. For a job
// that is already known, learn changes nothing, because its events are newer than any list.
func (h *hook) learn(listed *hostapi.Job) {
	h.with(listed.ID, func(e *job) {
		if !e.known {
			e.known, e.phase, e.killDelay = true, listed.Phase, listed.KillDelay
		}
	})
}

// forget forgets a job that has no cgroup, except for its watch and operations in progress.
func (h *hook) forget(id string) {
	h.with(id, func(e *job) { *e = job{turn: e.turn, oomTurn: e.oomTurn, uses: e.uses, watch: e.watch} })
}

// setPhase records the job's phase after an event.
func (h *hook) setPhase(id string, phase hostapi.Phase) {
	h.with(id, func(e *job) { e.known, e.phase = true, phase })
}

// recordMem records a sample of the job's memory.
func (h *hook) recordMem(id string, used int64) {
	h.with(id, func(e *job) { e.mem = max(e.mem, used) })
}

// turn can be held by one goroutine at a time.
type turn chan struct{}

// turn takes the turn of the event's job. The job's cgroup may not exist.
func (h *hook) turn(ctx context.Context, req *hostapi.Request) (j *cgroup.Job, release func(), err error) {
	if j, err = h.job(req); err != nil {
		return nil, nil, err
	}
	release, err = h.wait(ctx, j.ID(), func(e *job) turn { return e.turn })
	return j, release, err
}

// wait waits for one of the job's turns. It takes a free turn even if ctx is already done. If ctx
// ends first, the error is KindBusy.
func (h *hook) wait(ctx context.Context, id string, of func(e *job) turn) (release func(), err error) {
	var t turn
	h.with(id, func(e *job) { t = of(e); e.uses++ })
	done := func() { h.with(id, func(e *job) { e.uses-- }) }
	select {
	case t <- struct{}{}: // even after the alarm, as at the end of a job
	default:
		select {
		case t <- struct{}{}:
		case <-ctx.Done():
			done()
			return nil, hostapi.Errorf(hostapi.KindBusy, "job %s: wait for its turn: %w", id, ctx.Err())
		}
	}
	return func() { <-t; done() }, nil
}

// try takes the turn of a job if it is free, and returns nil otherwise.
func (h *hook) try(id string) (release func()) {
	h.with(id, func(e *job) {
		select {
		case e.turn <- struct{}{}:
			e.uses++
			release = func() { <-e.turn; h.with(id, func(e *job) { e.uses-- }) }
		default:
		}
	})
	return release
}
