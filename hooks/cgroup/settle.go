package main

import (
	"context"
	"errors"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
)

// When the hook starts, and when the memory, swap or tasks of the node have changed, it reapplies
// each job's assignment. That undoes an interrupted resize, applies a change of [memory] enforce,
// and replaces limits that somebody set by hand. A job may take seconds to give back memory, so
// only events of that job wait for it. A job that does not give back enough keeps its memory limits
// until the next time.

// settle does that for all jobs, in the background.
func (h *hook) settle() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, e := range h.table {
		if e.assigned != nil && !e.unmarked {
			h.background.Go(func() {
				err := h.settleJob(context.Background(), id)
				if err != nil && !errors.Is(err, cgroup.ErrNotFound) {
					h.logOf(id).Warnf("its assigned limits are not in force until this hook starts again: %v", err)
				}
			})
		}
	}
}

// settleJob applies a job's assigned limits, unless the job has ended.
func (h *hook) settleJob(ctx context.Context, id string) error {
	release, err := h.wait(ctx, id, func(e *job) turn { return e.turn })
	if err != nil {
		return err
	}
	defer release()
	var j *cgroup.Job
	var got assignment
	h.with(id, func(e *job) {
		if e.assigned != nil && e.phase != hostapi.PhaseExiting {
			j, got = e.cgroup, *e.assigned
		}
	})
	if j == nil {
		return nil
	}
	l := got.limits
	if got.allMem && h.policy.Memory.Enabled {
		h.policy.allMem(&l, h.node(), got.ask)
	}
	l = h.inKernel(l, got.ask)
	err = j.Apply(l, nil)
	if errors.Is(err, cgroup.ErrInUse) { // other jobs may have its cpus by now
		err = errors.Join(err, applyAllButMemory(j, l))
	}
	return err
}

// applyAllButMemory applies the limits that cannot fail because of the job's memory usage.
func applyAllButMemory(j *cgroup.Job, l cgroup.Limits) error {
	now, err := j.Limits()
	if err != nil {
		return err
	}
	l.Mem, l.MemSwap, l.MemHigh, l.Hugetlb = now.Mem, now.MemSwap, now.MemHigh, now.Hugetlb
	return j.Apply(l, nil)
}
