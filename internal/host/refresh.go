package host

import (
	"context"
	"errors"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
)

// Refresh makes every hook report a live job's usage so far. So its record, and a report made from
// it, are more recent than the last periodic. As with Handle, ctx limits only the wait for the
// turn. A job that is not live, or is ending, stays unchanged.
func (h *Host) Refresh(ctx context.Context, id string) error { return h.refresh(ctx, id, inquiry) }

// RefreshForUser is Refresh with the bounds of HandleUser.
func (h *Host) RefreshForUser(ctx context.Context, id string) error {
	return h.refresh(ctx, id, request)
}

func (h *Host) refresh(ctx context.Context, id string, from class) error {
	end, ok := h.beginEvent()
	if !ok {
		return ErrClosed
	}
	defer end()
	release, err := h.turns.acquire(ctx, id, from)
	if err != nil {
		return err
	}
	defer release()
	ctx = context.WithoutCancel(ctx)
	rec := h.opt.Store.Get(id)
	if rec == nil || rec.Phase == hostapi.PhaseExiting {
		return nil
	}
	c := h.about([]*jobstate.Record{rec}, h.links()...)
	if v := c.run(ctx); v.Reject {
		err = errors.New(v.Message)
	}
	defer h.adopt(h.ctx, c)
	h.change(func(rec *jobstate.Record) { recordUpdates(rec, h.opt.Node, c, h.clock.Now()) }, id)
	return err
}
