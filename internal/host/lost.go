package host

import (
	"context"
	"fmt"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
)

// record returns the job's record, nil without an error when the job is not known. One that was lost is made anew by
// Options.Recover and stored.
func (h *Host) record(ctx context.Context, id string) (*jobstate.Record, error) {
	rec := h.opt.Store.Get(id)
	if rec == nil && h.opt.Recover != nil {
		return h.remake(ctx, id)
	}
	return rec, nil
}

func (h *Host) remake(ctx context.Context, id string) (*jobstate.Record, error) {
	rec, err := h.opt.Recover(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("make the lost record anew: %w", err)
	}
	if rec == nil {
		return nil, nil
	}
	rec.Host = h.opt.Self
	if rec.Begun.IsZero() {
		rec.Begun = h.clock.Now().Wall // what has something in the kernel was begun
	}
	err = h.opt.Store.Update(id, func(there *jobstate.Record) (*jobstate.Record, error) {
		if there != nil {
			rec = there // somebody was faster
		}
		h.arm(rec)
		return rec, nil
	})
	if err != nil {
		return nil, err
	}
	h.watchMoM(id, rec.MoM)
	h.behindIt(func() { // its timers are the hooks' to set; an event has its turn now
		if err := h.Refresh(h.ctx, id); err != nil && h.ctx.Err() == nil {
			h.log.WithField("job", id).Errorf("ask hooks about a record made anew: %v", err)
		}
	})
	h.log.WithField("job", id).Warn("the job's record was lost and is made anew from what the job has in the kernel")
	return rec, nil
}

// unknown answers an event of a job that has no record: its begin was never seen here, as when hookhost was installed
// while the job ran, or the records were lost.
//
//   - prologue, launch: an error that sends the job back to the queue. To start it would start it unconfined. pbs_mom's begin
//     the job first (beginLate).
//   - attach, resize: an error; there is nothing to attach to.
//   - preterm, postsuspend, preresume: accepted without calling a hook. A job that has to be killed, or stopped, or
//     went on before hookhost came is nothing to hold up.
//
// Epilogue, end and abort are accepted as well, and hooks are called: tear-down is idempotent and what they find is to go (finish).
func unknown(req *hostapi.Request) (*Verdict, error) {
	switch req.Event {
	case hostapi.EventPreterm, hostapi.EventPostsuspend, hostapi.EventPreresume:
		return &Verdict{Outcome: &hostapi.Outcome{}}, nil
	case hostapi.EventAttach, hostapi.EventResize:
		return nil, hostapi.Errorf(hostapi.KindJob, "no such job on this host")
	}
	return &Verdict{Kind: hostapi.KindNode, Outcome: &hostapi.Outcome{
		Reject: true, OnReject: hostapi.JobActionRerun,
		Message: fmt.Sprintf("%s request rejected: the job had no execjob_begin on this host", req.Event),
	}}, nil
}
