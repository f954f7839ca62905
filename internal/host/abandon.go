package host

import (
	"context"
	"fmt"

	"github.com/hookhost/hookhost/hostapi"
)

// Abandon ends a job here that another host has begun, if it is still that run of it: its head
// knows of it no more. why becomes a note of its report. No such job is no error. ctx bounds the
// wait for the job's turn only, as with Handle. Idempotent.
func (h *Host) Abandon(ctx context.Context, id, run, why string) error {
	if err := hostapi.CheckJobID(id); err != nil {
		return err
	}
	end, ok := h.beginEvent()
	if !ok {
		return ErrClosed
	}
	defer end()
	release, err := h.jobs.acquire(ctx, id, course)
	if err != nil {
		return fmt.Errorf("end job %s: wait for its turn: %w", id, err)
	}
	defer release()
	ctx = context.WithoutCancel(ctx)
	rec := h.opt.Store.Get(id)
	if rec == nil || rec.Head == "" || rec.Run != run {
		return nil
	}
	if err := h.finishLeft(ctx, rec, why); err != nil {
		return fmt.Errorf("end job %s: %w", id, err)
	}
	return nil
}
