package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/report"
)

// fallbackLimit bounds Options.Fallback.
const fallbackLimit = 20 * time.Second

// begin makes the job's record and lets the hooks set it up. The record is there before the first hook is called and
// until the last one is done, so that whatever a hook has made belongs to a job that somebody can find.
func (h *Host) begin(ctx context.Context, req *hostapi.Request) (*Verdict, error) {
	id := req.Job.ID
	if err := resolveOwner(&req.Job.Owner); err != nil {
		return nil, hostapi.Errorf(hostapi.KindJob, "%w", err)
	}
	if err := h.makeWay(ctx, req); err != nil {
		return nil, err
	}
	rec := &jobstate.Record{Job: req.Job, Phase: jobstate.PhasePrerun, MoM: req.MoM, Host: h.opt.Self}
	if err := h.opt.Store.Update(ctx, id, func(*jobstate.Record) (*jobstate.Record, error) { return rec, nil }); err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "%w", err)
	}
	c := h.newChain(req, nil)
	v := c.run(ctx)
	if !v.Reject {
		now := time.Now()
		advance(rec, req, now)
		take(rec, h.opt.Node, c, now)
		err := h.opt.Store.Update(ctx, id, func(*jobstate.Record) (*jobstate.Record, error) { return rec, nil })
		if err == nil {
			h.setTimers(id, rec.Timers)
			h.watchMoM(id, req.MoM)
			return v, nil
		}
		// Without its record the job would be nobody's, and what was made for it an orphan.
		v.Reject, v.OnReject, v.Kind, v.Message = true, hostapi.JobActionRerun, hostapi.KindNode, line(err.Error())
	}
	if err := h.undo(ctx, c); err != nil {
		v.Message = line(v.Message + "; " + err.Error())
	}
	return v, nil
}

// undo takes back a begin that was not accepted.
func (h *Host) undo(ctx context.Context, c *chain) error {
	id := c.req.Job.ID
	err := c.undo(ctx)
	if err != nil {
		err = errors.Join(err, h.fallback(ctx, id))
	}
	return errors.Join(err, h.forget(ctx, id))
}

// forget deletes the job's record and all that the host has of it.
func (h *Host) forget(ctx context.Context, id string) error {
	h.clock.drop(id)
	h.unwatchMoM(id)
	return h.opt.Store.Update(ctx, id, func(*jobstate.Record) (*jobstate.Record, error) { return nil, nil })
}

// makeWay decides about a record that begin finds under the job's id. It fails with KindBusy when the job runs. What
// is left of an earlier run is ended first:
//
//	the record's MoM or host is dead           ended
//	another living MoM's or host's             busy
//	another run_count                          ended: PBS counts each start, so it knows nothing of that run any more
//	same run, prerun                           begin once more; hooks are idempotent
//	same run, running or suspended             busy
//	exiting                                    ended
func (h *Host) makeWay(ctx context.Context, req *hostapi.Request) error {
	rec, err := h.opt.Store.Get(ctx, req.Job.ID)
	if err != nil {
		return hostapi.Errorf(hostapi.KindNode, "%w", err)
	}
	if rec == nil {
		return nil
	}
	foreign := rec.Host != h.opt.Self
	dead := foreign && !h.opt.Processes.Alive(rec.Host) || rec.MoM != nil && !h.opt.Processes.Alive(*rec.MoM)
	sameMoM := (rec.MoM == nil) == (req.MoM == nil) && (rec.MoM == nil || *rec.MoM == *req.MoM)
	switch {
	case dead, rec.Phase == jobstate.PhaseExiting && !foreign:
	case foreign:
		return hostapi.Errorf(hostapi.KindBusy, "the job is carried by process %d", rec.Host.PID)
	case !sameMoM:
		return hostapi.Errorf(hostapi.KindBusy, "the job runs here already")
	case rec.Job.RunCount != req.Job.RunCount:
	case rec.Phase == jobstate.PhasePrerun:
		return nil
	default:
		return hostapi.Errorf(hostapi.KindBusy, "the job runs here already: %s since %s", rec.Phase, rec.Begun.Format(time.DateTime))
	}
	return h.finishLeft(ctx, rec, "a run that was never ended was found when the job began again")
}

// finish carries out epilogue, end and abort. It goes on to the end whatever fails, and says what did.
func (h *Host) finish(ctx context.Context, req *hostapi.Request) (*Verdict, error) {
	id, last := req.Job.ID, req.Event != hostapi.EventEpilogue
	rec, storeErr := h.leaving(ctx, req, last)
	h.clock.drop(id)
	if rec != nil {
		req.Job = jobOf(rec, req)
	} else if err := resolveOwner(&req.Job.Owner); err != nil {
		h.log.WithField("job", id).Debug(err) // hooks tear down without it
	}
	c := h.newChain(req, rec)
	v := c.run(ctx)
	errs := []error{storeErr}
	if last && c.failures() != nil {
		err := h.fallback(ctx, id)
		errs = append(errs, err)
		if err == nil && h.opt.Fallback != nil && rec != nil {
			addNote(rec, "hookhost removed what the job left, because a hook failed to")
		}
	}
	switch {
	case rec == nil:
	case last:
		take(rec, h.opt.Node, c, time.Now())
		errs = append(errs, h.settle(ctx, rec, req.Event))
	default:
		errs = append(errs, h.change(ctx, id, func(r *jobstate.Record) {
			exiting(r, req, last, time.Now())
			take(r, h.opt.Node, c, time.Now())
		}))
	}
	if err := errors.Join(errs...); err != nil {
		if !v.Reject {
			v.Reject, v.Kind = true, hostapi.KindNode
		}
		v.Message = line(joinLines(v.Message, err.Error()))
	}
	return v, nil
}

// leaving returns the job's record as it goes into its last phase. That is on disk before hooks are called only where it
// has to be: pbs_mom sends end once, so a host that dies over it has to find that out; a MoM of ours asks again, and
// everything else is written with what the hooks answer.
func (h *Host) leaving(ctx context.Context, req *hostapi.Request, last bool) (*jobstate.Record, error) {
	rec, err := h.opt.Store.Get(ctx, req.Job.ID)
	if err != nil || rec == nil {
		return nil, err
	}
	exiting(rec, req, last, time.Now())
	if last && rec.MoM == nil {
		err = h.change(ctx, req.Job.ID, func(r *jobstate.Record) { exiting(r, req, last, time.Now()) })
	}
	return rec, err
}

// settle writes the job's report to the ledger and then deletes its record. When the report cannot be written the
// record stays, and Reconcile tries again. The key keeps a report from being written twice when the host dies in between.
func (h *Host) settle(ctx context.Context, rec *jobstate.Record, e hostapi.Event) error {
	if e == hostapi.EventEnd || !rec.Launched.IsZero() {
		r := report.FromRecord(rec, rec.Ended)
		if err := h.opt.Ledger.AppendOnce(ctx, rec.Job.ID, runKey(rec), r.Archive()); err != nil {
			return fmt.Errorf("report of job %s: %w", rec.Job.ID, err)
		}
	}
	return h.forget(ctx, rec.Job.ID)
}

// runKey tells the runs of a job apart.
func runKey(rec *jobstate.Record) string {
	return fmt.Sprintf("%d %s", rec.Job.RunCount, rec.Begun.UTC().Format(time.RFC3339Nano))
}

func (h *Host) fallback(ctx context.Context, id string) error {
	if h.opt.Fallback == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, fallbackLimit)
	defer cancel()
	h.log.WithField("job", id).Warn("a hook failed to clean up: the host removes what the job left")
	if err := h.opt.Fallback.RemoveJob(ctx, id); err != nil {
		return fmt.Errorf("remove job %s: %w", id, err)
	}
	return nil
}
