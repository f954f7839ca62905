package host

import (
	"context"
	"maps"
	"slices"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/plugin"
)

// hosted returns the function that makes a hook's JobList. The list has every job with a record on
// this machine, whichever host owns it.
func (h *Host) hosted() func(hook string) map[string]*hostapi.Job {
	recs := h.opt.Store.List()
	return func(hook string) map[string]*hostapi.Job { return listOf(recs, hook, h.clock.Now()) }
}

func listOf(recs []*jobstate.Record, hook string, now jobstate.Moment) map[string]*hostapi.Job {
	list := make(map[string]*hostapi.Job, len(recs))
	for _, rec := range recs {
		list[rec.Job.ID] = jobInList(rec, hook, now)
	}
	return list
}

func (h *Host) askAll(ctx context.Context, links []link, req *hostapi.Request, from caller) *Verdict {
	c := &chain{links: links, req: req, hosted: h.hosted()}
	v := c.run(ctx)
	h.update(c, from)
	return v
}

// update records the findings of startup or periodic about jobs, each in its turn. Jobs whose turn
// is free are changed at once and together, the others after their events. An event of one job does
// not delay MoM's periodic for all.
func (h *Host) update(c *chain, from caller) {
	jobs := make(map[string]bool)
	for _, a := range c.answers {
		for id := range a.out.Jobs {
			jobs[id] = true
		}
	}
	defer h.adopt(h.ctx, c)
	defer h.align(c)
	note := func(c *chain) func(*jobstate.Record) {
		return func(rec *jobstate.Record) {
			recordUpdates(rec, h.opt.Node, c, h.clock.Now())
			if from.outside {
				reported(rec, h.opt.Node, c, h.clock.Now())
			}
		}
	}
	free, busy, release := h.turns.tryAll(slices.Sorted(maps.Keys(jobs)))
	h.change(note(c), free...)
	release()
	if len(busy) == 0 {
		return
	}
	later := c.aside() // c belongs to the caller
	for _, rec := range h.opt.Store.GetAll(busy) {
		note(c)(rec) // called for its effect on the answer
	}
	h.goBackground(func() {
		for _, id := range busy {
			h.updateInTurn(id, note(later))
		}
	})
}

// updateInTurn changes the job's record when its turn comes, unless Close comes first.
func (h *Host) updateInTurn(id string, note func(*jobstate.Record)) {
	release, err := h.turns.acquire(h.ctx, id, course)
	if err != nil {
		return
	}
	defer release()
	h.change(note, id)
}

// pluginHost is the Host as a plugin.Host.
type pluginHost struct{ *Host }

// Startup calls exechost_startup of a program that has started, with the jobs that live here. As in
// PBS, a hook that rejects the event is used anyway.
func (h pluginHost) Startup(ctx context.Context, p *plugin.Plugin, fresh *plugin.Candidate) (complaint string) {
	hook := fresh.Hook()
	if fresh.Gets(hostapi.EventPeriodic) {
		h.periodics.schedule(p)
	}
	if !fresh.Gets(hostapi.EventStartup) {
		return ""
	}
	c := &chain{
		links: []link{fresh}, req: &hostapi.Request{Event: hostapi.EventStartup, Node: h.opt.Node}, hosted: h.hosted(),
	}
	v := c.run(ctx)
	if fresh.Err() != nil {
		return ""
	}
	h.logOutcome(hook.Name, hostapi.EventStartup, v)
	h.recoverJobs(c)
	// Not now: an event that has the job's turn may be waiting for this start.
	h.goBackground(func() { h.update(c, caller{}) })
	return v.Message
}

// logOutcome logs a hook's answer to an event of the host itself.
func (h *Host) logOutcome(hook string, e hostapi.Event, v *Verdict) {
	entry := h.log.WithFields(logrus.Fields{"hook": hook, "event": e})
	if v.Reject {
		entry.Error(v.Message)
	}
	for _, note := range v.Notes {
		entry.Info(note)
	}
}

// tick calls one hook's periodic, and then looks in the background for jobs whose processes died
// unnoticed. A job that does not end, in spite of its hooks' alarms, delays no periodic.
func (h *Host) tick(p *plugin.Plugin) {
	name := p.Hook().Name
	if h.plugins.Find(name) != p {
		return
	}
	defer func() {
		h.periodics.schedule(p)
		h.periodics.follow(h.plugins.List()) // a Reload may have come meanwhile
	}()
	req := &hostapi.Request{Event: hostapi.EventPeriodic, Node: h.opt.Node}
	v := h.askAll(h.ctx, []link{h.plugins.Place(name)}, req, caller{})
	if h.ctx.Err() != nil {
		return
	}
	h.logOutcome(name, hostapi.EventPeriodic, v)
	reconcile := [2]string{"reconcile"} // all jobs
	if h.awaited.begin(reconcile) {
		h.goBackground(func() {
			defer h.awaited.end(reconcile)
			if err := h.Reconcile(h.ctx); err != nil && h.ctx.Err() == nil {
				h.log.Error(hostapi.OneLine(err.Error()))
			}
		})
	}
}
