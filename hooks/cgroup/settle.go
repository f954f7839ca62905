package main

import (
	"context"
	"errors"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
)

// A hook that starts puts in force once more what each job was granted. So a resize that was broken
// off is undone, and a change of [memory] enforce comes into force. Limits that somebody has set by
// hand are replaced. No event waits for that, since to give memory back takes seconds. A job that
// does not give back enough keeps what it has until the next start.

// settle does that for all jobs, in the background.
func (h *hook) settle() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, e := range h.table {
		if e.granted != nil && !e.unmarked {
			h.background.Go(func() {
				err := h.settleJob(context.Background(), id)
				if err != nil && !errors.Is(err, cgroup.ErrNotFound) {
					h.logOf(id).Warnf("its limits are not those that it was granted: %v; "+
						"it is tried again when this hook starts", err)
				}
			})
		}
	}
}

// settleJob puts a job's grant in force. Nothing happens to a job that is over.
func (h *hook) settleJob(ctx context.Context, id string) error {
	release, err := h.wait(ctx, id, func(e *job) turn { return e.turn })
	if err != nil {
		return err
	}
	defer release()
	var j *cgroup.Job
	var got assignment
	h.with(id, func(e *job) {
		if e.granted != nil && e.phase != hostapi.PhaseExiting {
			j, got = e.cgroup, *e.granted
		}
	})
	if j == nil {
		return nil
	}
	l := got.limits
	if got.allMem && h.policy.Memory.Enabled {
		h.policy.allMem(&l, h.node(), got.ask)
	}
	return j.Apply(h.inKernel(l, got.ask))
}
