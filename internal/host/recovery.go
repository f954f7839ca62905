package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
)

// lostRecord is the note in the report of a job whose record was restored.
const lostRecord = "the record of this job was lost and made anew from its cgroup: its time counts from then"

// recoverJobs makes records of the jobs that a hook found at its startup and the host does not
// list. No event has reached the hook's program yet, so none of these jobs can end meanwhile. How
// long such a job had run or been suspended before is lost.
func (h *Host) recoverJobs(c *chain) {
	for _, a := range c.answers {
		for id, u := range a.out.Jobs {
			if u != nil && u.Begin != nil && u.Begin.Job != nil {
				h.recoverJob(id, u.Begin, u.Frozen != nil && *u.Frozen)
			}
		}
	}
}

// findJobs returns once all hooks run that find jobs at their startup. By then the jobs that had no
// record have one. On an error a hook does not run, and there may be more jobs.
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
		if there != nil { // its begin is under way
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
	h.goBackground(func() { // hooks set its timers
		if err := h.Refresh(h.ctx, id); err != nil && h.ctx.Err() == nil {
			entry.Errorf("ask hooks about a record made anew: %v", err)
		}
	})
}

// align makes hooks freeze or thaw jobs whose state in the kernel differs from their records. This
// happens after a crash in the middle of a suspension, a resumption or a short freeze. The record
// is right: a postsuspend changes it before hooks are called, and a preresume after them.
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

// unknown answers an event of a job that has no record. Its begin was never seen here: hookhost was
// installed while the job ran, or the records were lost.
//
//   - prologue, launch: an error that sends the job back to the queue, because it would start
//     unconfined. Jobs of pbs_mom are begun first (beginLate).
//   - attach, resize: an error; there is nothing to attach to.
//   - preterm, postsuspend, preresume: accepted without calling a hook. A job that was stopped,
//     resumed or has to be killed before hookhost came must not be held up. A preresume is rejected
//     if a hook could not report its jobs: the job may be frozen, and nobody would thaw it.
//
// Epilogue, end and abort are accepted as well, and hooks are called: tear-down is idempotent, and
// anything that they find has to go (finish).
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
