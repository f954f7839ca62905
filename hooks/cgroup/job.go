package main

import (
	"context"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
)

// job is what this program knows of a job. Nothing of it outlives the program: what matters is on
// the job's cgroup, and in the state that the host keeps. The hook's mu is over all fields but the
// turns.
type job struct {
	// turn is held by one event at a time. The host sends a job's own events one after the other,
	// but exechost_startup and exechost_periodic come beside them and look at all jobs.
	turn turn
	// tale is held by whoever tells of kills, which may be while an event has turn.
	tale turn
	uses int // of the two: by those that hold or wait

	known     bool          // it was begun here, or listed: no sweep takes it
	phase     hostapi.Phase // that its last event has brought it to
	killDelay *int

	watch   *watch
	chart   *chart
	ranks   *rankMemory
	counted *reading // of the node's energy, when the job was last counted

	cgroup   *cgroup.Job
	granted  *assignment // by its begin or its last resize; nil while it holds nothing
	growing  *assignment // what a resize is bringing it: until that is over it holds the larger of both
	unread   bool        // its devices are not in granted: their mark could not be read at the start
	unmarked bool        // granted is what the kernel had, and no limit to put in force: see fill
}

// idle reports whether nothing is worth keeping of the job.
func (e *job) idle() bool {
	return e.uses == 0 && !e.known && e.watch == nil && e.chart == nil && e.ranks == nil && e.counted == nil &&
		e.granted == nil
}

// with calls f with what is known of a job, under mu, and forgets the job if nothing is left.
func (h *hook) with(id string, f func(e *job)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.table[id]
	if e == nil {
		e = &job{turn: make(turn, 1), tale: make(turn, 1)}
		h.table[id] = e
	}
	f(e)
	if e.idle() {
		delete(h.table, id)
	}
}

// learn notes that this program knows the job. No sweep takes the job until disown. learn changes
// nothing of a job that is known: the events of the job say more than a list, which may be old.
func (h *hook) learn(told *hostapi.Job) {
	h.with(told.ID, func(e *job) {
		if !e.known {
			e.known, e.phase, e.killDelay = true, told.Phase, told.KillDelay
		}
	})
}

// disown forgets the job, but for its watch, what is under way and what it holds: see letGo.
func (h *hook) disown(id string) {
	h.with(id, func(e *job) {
		e.known, e.phase, e.killDelay = false, "", nil
		e.chart, e.ranks, e.counted = nil, nil, nil
	})
}

func (h *hook) owns(id string) (known bool) {
	h.with(id, func(e *job) { known = e.known })
	return known
}

// setPhase notes the phase that an event brings the job to.
func (h *hook) setPhase(id string, phase hostapi.Phase) {
	h.with(id, func(e *job) { e.known, e.phase = true, phase })
}

// phaseOf returns the job's phase, "" of a job that this program does not know.
func (h *hook) phaseOf(id string) (phase hostapi.Phase) {
	h.with(id, func(e *job) { phase = e.phase })
	return phase
}

// setKillDelay notes the job's kill_delay, if it has one.
func (h *hook) setKillDelay(id string, delay *int) {
	if delay != nil {
		h.with(id, func(e *job) { e.known, e.killDelay = true, delay })
	}
}

func (h *hook) killDelayOf(id string) (delay *int) {
	h.with(id, func(e *job) { delay = e.killDelay })
	return delay
}

// turn is held by one at a time.
type turn chan struct{}

// turn takes the turn of an event's job, whose cgroup need not exist.
func (h *hook) turn(ctx context.Context, req *hostapi.Request) (j *cgroup.Job, release func(), err error) {
	if j, err = h.job(req); err != nil {
		return nil, nil, err
	}
	release, err = h.wait(ctx, j.ID(), func(e *job) turn { return e.turn })
	return j, release, err
}

// wait waits for a turn of the job, and takes one that is free though ctx has ended. The error is
// of KindBusy when ctx ends first.
func (h *hook) wait(ctx context.Context, id string, of func(e *job) turn) (release func(), err error) {
	var t turn
	h.with(id, func(e *job) { t = of(e); e.uses++ })
	left := func() { h.with(id, func(e *job) { e.uses-- }) }
	select {
	case t <- struct{}{}: // also after the alarm, as at the end of a job
	default:
		select {
		case t <- struct{}{}:
		case <-ctx.Done():
			left()
			return nil, hostapi.Errorf(hostapi.KindBusy, "job %s: wait for its turn: %w", id, ctx.Err())
		}
	}
	return func() { <-t; left() }, nil
}

// try takes the turn of a job if it is free. Else the result is nil.
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
