package host

import (
	"context"
	"fmt"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
)

// Abandon ends a job here that another host has begun, if it is still that run of it: its head knows of it no more. why becomes a note
// of its report. It does nothing where there is no such job. ctx bounds the wait for the job's turn
// only, as with Handle. Idempotent.
func (h *Host) Abandon(ctx context.Context, id, run, why string) error {
	if err := hostapi.CheckJobID(id); err != nil {
		return err
	}
	if !h.enter(&h.begun) {
		return ErrClosed
	}
	defer h.begun.Done()
	release, err := h.jobs.take(ctx, id, course)
	if err != nil {
		return fmt.Errorf("end job %s: wait for its turn: %w", id, err)
	}
	defer release()
	ctx = h.detach(ctx)
	var left *jobstate.Record
	err = h.opt.Store.Update(id, func(rec *jobstate.Record) (*jobstate.Record, error) {
		left = nil
		if rec == nil || rec.Head == "" || rec.Run != run {
			return rec, nil
		}
		left = rec
		return rec, nil
	})
	if err != nil || left == nil {
		return err
	}
	if err := h.finishLeft(ctx, left, why); err != nil {
		return fmt.Errorf("end job %s: %w", id, err)
	}
	return nil
}
