package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
)

// lostRecord is the note in the report of a job whose record was made anew.
const lostRecord = "the record of this job was lost and made anew from its cgroup: its time counts from then"

// recoverJobs makes records of the jobs that a hook has found at its startup and the host does not
// list. No event has reached the hook's program yet, so none of these jobs can end meanwhile. How
// long such a job ran and was suspended before is lost.
func (h *Host) recoverJobs(c *chain) {
	for _, a := range c.answers {
		for id, u := range a.out.Jobs {
			if u != nil && u.Begin != nil && u.Begin.Job != nil {
				h.recoverJob(id, u.Begin, u.Frozen != nil && *u.Frozen)
			}
		}
	}
}

// findJobs returns when all hooks run that find jobs at their startup. The jobs without a record
// have one then. On an error a hook does not run, and there may be more.
func (h *Host) findJobs(ctx context.Context) error {
	var errs []error
	for _, p := range h.plugins.List() {
		if p.Gets(hostapi.EventStartup) {
			errs = append(errs, p.Start(ctx))
		}
	}
	return errors.Join(errs...)
}

func (h *Host) recoverJob(id string, begin *hostapi.Request, frozen bool) {
	now := h.clock.Now()
	made := &jobstate.Record{
		Job: begin.Job, Phase: jobstate.PhaseRunning, Kept: true,
		MoM: begin.MoM, PBS: begin.PBS, MoMHome: begin.MoMHome,
		Host: h.opt.Self, Begun: now.Wall, Launched: now, Notes: []string{lostRecord},
	}
	noteSisters(made, h.opt.Node, nil)
	if frozen {
		made.Phase, made.SuspendedAt = jobstate.PhaseSuspended, now
	}
	entry := h.log.WithField("job", id)
	err := h.opt.Store.Update(id, func(there *jobstate.Record) (*jobstate.Record, error) {
		if there != nil { // it begins at this moment
			made = nil
			return there, nil
		}
		h.arm(made)
		return made, nil
	})
	switch {
	case err != nil:
		entry.Errorf("make the lost record anew: %v", err)
		return
	case made == nil:
		return
	}
	entry.Warn("the job's record was lost and is made anew from the job's cgroup")
	h.watchMoM(id, made.MoM)
	h.goBackground(func() { // its timers are the hooks' to set
		if err := h.Refresh(h.ctx, id); err != nil && h.ctx.Err() == nil {
			entry.Errorf("ask hooks about a record made anew: %v", err)
		}
	})
}

// align has hooks freeze or thaw jobs that the kernel holds, or does not hold, unlike what their
// records say. A crash in the middle of a suspension, a resumption or a moment's freeze leaves
// that. The record is right: a postsuspend changes it before hooks are called, and a preresume
// after them.
func (h *Host) align(c *chain) {
	for _, a := range c.answers {
		for id, u := range a.out.Jobs {
			if u != nil && u.Frozen != nil {
				h.goBackground(func() { h.alignJob(a.hook, id, *u.Frozen) })
			}
		}
	}
}

func (h *Host) alignJob(hook, id string, frozen bool) {
	release, err := h.jobs.acquire(h.ctx, id, course)
	if err != nil {
		return
	}
	defer release()
	rec := h.opt.Store.Get(id)
	if rec == nil || rec.Phase == jobstate.PhaseExiting || frozen == (rec.Phase == jobstate.PhaseSuspended) {
		return
	}
	req := &hostapi.Request{Event: hostapi.EventPostsuspend, Node: h.opt.Node}
	if frozen {
		req.Event = hostapi.EventPreresume
	}
	h.log.WithField("job", id).Warnf("frozen: %t, and the job is %s: %s once more", frozen, rec.Phase, req.Event)
	req.Job = jobOf(rec, req, h.clock.Now())
	c := &chain{links: []link{h.plugins.Place(hook)}, req: req, states: cloneStates(rec)}
	if v := c.run(h.ctx); v.Reject {
		h.log.WithField("job", id).Error(v.Message)
	}
	h.change(func(rec *jobstate.Record) { recordAnswers(rec, h.opt.Node, c, h.clock.Now()) }, id)
}

// unknown answers an event of a job that has no record. Its begin was never seen here, as when
// hookhost was installed while the job ran, or the records were lost.
//
//   - prologue, launch: an error that sends the job back to the queue. To start it would start it
//     unconfined. pbs_mom's begin the job first (beginLate).
//   - attach, resize: an error; there is nothing to attach to.
//   - preterm, postsuspend, preresume: accepted without calling a hook. A job that has to be
//     killed, or stopped, or went on before hookhost came is nothing to hold up. A preresume is
//     rejected where a hook could not say of which jobs it knows. The job may be frozen, and nobody
//     would thaw it.
//
// Epilogue, end and abort are accepted as well, and hooks are called: tear-down is idempotent and
// what they find is to go (finish).
func unknown(req *hostapi.Request, unsure error) (*Verdict, error) {
	if unsure != nil && req.Event == hostapi.EventPreresume {
		return &Verdict{Kind: hostapi.KindNode, Outcome: &hostapi.Outcome{
			Reject:  true,
			Message: hostapi.OneLine(fmt.Sprintf("%s request rejected: the job may be frozen: %v", req.Event, unsure)),
		}}, nil
	}
	switch req.Event {
	case hostapi.EventPreterm, hostapi.EventPostsuspend, hostapi.EventPreresume:
		return &Verdict{Outcome: &hostapi.Outcome{}}, nil
	case hostapi.EventAttach, hostapi.EventResize:
		return nil, hostapi.Errorf(hostapi.KindJob, "no such job on this host")
	}
	return refuseStart(req, hostapi.KindNode, "the job had no execjob_begin on this host"), nil
}

// refuseStart answers an event that would start a program. A job that MoM still has goes back to
// the queue.
func refuseStart(req *hostapi.Request, kind hostapi.Kind, why string) *Verdict {
	return &Verdict{Kind: kind, Outcome: &hostapi.Outcome{
		Reject: true, OnReject: hostapi.JobActionRerun,
		Message: fmt.Sprintf("%s request rejected: %s", req.Event, why),
	}}
}
