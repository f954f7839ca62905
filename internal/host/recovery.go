package host

import (
	"maps"

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

func (h *Host) recoverJob(id string, begin *hostapi.Request, frozen bool) {
	now := h.clock.Now()
	made := &jobstate.Record{
		Job: begin.Job, Phase: hostapi.PhaseRunning, Kept: true,
		Runner: begin.MoM, PBS: begin.PBS, MoMHome: begin.MoMHome,
		Host: h.opt.Self, Begun: now.Wall, Launched: now, Notes: []string{lostRecord},
	}
	noteSisters(made, h.opt.Node, nil)
	if frozen {
		made.Phase, made.SuspendedAt = hostapi.PhaseSuspended, now
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
	h.watchRunner(id, made.Runner)
	h.goBackground(func() { // hooks set its timers
		if err := h.Refresh(h.ctx, id); err != nil && h.ctx.Err() == nil {
			entry.Errorf("ask hooks about a record made anew: %v", err)
		}
	})
}

// align makes hooks freeze or thaw jobs whose state in the kernel differs from their record. This
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
	release, err := h.turns.acquire(h.ctx, id, course)
	if err != nil {
		return
	}
	defer release()
	rec := h.opt.Store.Get(id)
	if rec == nil || rec.Phase == hostapi.PhaseExiting || frozen == (rec.Phase == hostapi.PhaseSuspended) {
		return
	}
	req := &hostapi.Request{Event: hostapi.EventPostsuspend, Node: h.opt.Node}
	if frozen {
		req.Event = hostapi.EventPreresume
	}
	h.log.WithField("job", id).Warnf("frozen: %t, and the job is %s: %s once more", frozen, rec.Phase, req.Event)
	req.Job = jobOf(rec, req, h.clock.Now())
	c := &chain{links: []link{h.plugins.Place(hook)}, req: req, states: maps.Clone(rec.HookState)}
	if v := c.run(h.ctx); v.Reject {
		h.log.WithField("job", id).Error(v.Message)
	}
	h.change(func(rec *jobstate.Record) { recordAnswers(rec, h.opt.Node, c, h.clock.Now()) }, id)
}
