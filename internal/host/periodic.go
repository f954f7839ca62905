package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
)

// hosted returns the function that makes a hook's JobList: every job that has a record on this machine, whichever host
// carries it.
func (h *Host) hosted() func(hook string) map[string]*hostapi.Job {
	recs := h.opt.Store.List()
	return func(hook string) map[string]*hostapi.Job { return listOf(recs, hook, h.clock.Now()) }
}

func listOf(recs []*jobstate.Record, hook string, now jobstate.Moment) map[string]*hostapi.Job {
	list := make(map[string]*hostapi.Job, len(recs))
	for _, rec := range recs {
		list[rec.Job.ID] = listed(rec, hook, now)
	}
	return list
}

// judgeHost carries out an exechost_* event that came from outside, with every hook.
func (h *Host) judgeHost(ctx context.Context, req *hostapi.Request, from caller) *Verdict {
	began := time.Now()
	switch {
	case from.pbs && req.Event == hostapi.EventPeriodic:
		h.dropUnlisted(ctx, req.JobList, from.home)
	case from.pbs:
		time.AfterFunc(dropAge, func() { h.behindIt(func() { h.dropForgotten(from.home) }) })
	}
	h.alterAll(req.JobList)
	v := h.askAll(ctx, h.links(), req, from)
	h.tell(req, v, nil, time.Since(began))
	switch {
	case !from.pbs:
	case req.Event == hostapi.EventPeriodic:
		h.startUpLate(ctx, req, from, v)
	case !v.Reject:
		h.setStarted(from.home)
	}
	return v
}

func (h *Host) askAll(ctx context.Context, links []link, req *hostapi.Request, from caller) *Verdict {
	c := &chain{links: links, req: req, hosted: h.hosted()}
	v := c.run(ctx)
	h.passSignals(c)
	h.update(c, from)
	return v
}

// update notes what startup or periodic found out about jobs, each in its turn: at once of those whose turn nobody has, together, and behind the
// event of the others. An event of one job does not keep MoM from its periodic of all.
func (h *Host) update(c *chain, from caller) {
	jobs := make(map[string]bool)
	for _, a := range c.answers {
		for id := range a.out.Jobs {
			jobs[id] = true
		}
	}
	defer h.adopt(c)
	note := func(c *chain) func(*jobstate.Record) {
		return func(rec *jobstate.Record) {
			takeUpdates(rec, h.opt.Node, c, h.clock.Now())
			if from.outside {
				reported(rec, h.opt.Node, c, h.clock.Now())
			}
		}
	}
	free, busy, release := h.jobs.tryAll(slices.Sorted(maps.Keys(jobs)))
	h.change(note(c), free...)
	for _, id := range free {
		h.rouse(id)
	}
	release()
	if len(busy) == 0 {
		return
	}
	later := c.aside() // the caller gets c
	for _, rec := range h.opt.Store.GetAll(busy) {
		note(c)(rec) // for what it does to the answer
	}
	h.behindIt(func() {
		for _, id := range busy {
			h.updateInTurn(id, note(later))
		}
	})
}

// updateInTurn changes the job's record when its turn has come, unless Close comes first.
func (h *Host) updateInTurn(id string, note func(*jobstate.Record)) {
	release, err := h.jobs.take(h.ctx, id, course)
	if err != nil {
		return
	}
	defer release()
	defer h.rouse(id)
	h.change(note, id)
}

// startup is what a plugin calls with each new instance, before any event reaches it: exechost_startup with the jobs that
// live here. That the hook rejects it is told and no more, as in PBS; that it crashes or hangs fails the start.
func (h *Host) startup(ctx context.Context, p *plugin, inst *instance) error {
	hook := p.spec()
	if slices.Contains(inst.info.Events, hostapi.EventPeriodic) && hook.Gets(hostapi.EventPeriodic) {
		h.schedule(p, time.Duration(hook.Freq)*time.Second)
	}
	if !slices.Contains(inst.info.Events, hostapi.EventStartup) || !hook.Gets(hostapi.EventStartup) {
		return nil
	}
	l := &startupLink{plugin: p, inst: inst, hook: hook}
	c := &chain{links: []link{l}, req: &hostapi.Request{Event: hostapi.EventStartup, Node: h.opt.Node}, hosted: h.hosted()}
	v := c.run(ctx)
	if l.dead != nil {
		return hostapi.Errorf(hostapi.KindNode, "start hook %s: %w", hook.Name, l.dead)
	}
	p.started(v)
	// Not now: an event that has the job's turn may be waiting for this start.
	h.behindIt(func() {
		h.passSignals(c)
		h.update(c, caller{})
	})
	return nil
}

// startupLink calls an instance that is not yet in service.
type startupLink struct {
	plugin *plugin
	inst   *instance
	hook   Hook
	dead   error // why the instance is of no use
}

func (l *startupLink) spec() Hook              { return l.hook }
func (l *startupLink) gets(hostapi.Event) bool { return true }

func (l *startupLink) call(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, time.Duration(l.hook.Alarm)*time.Second)
	defer cancel()
	out, err := l.inst.client.Handle(ctx, req)
	switch {
	case late(ctx, err):
		l.dead = fmt.Errorf("no answer to %s within its alarm of %ds", req.Event, l.hook.Alarm)
	case errors.Is(err, hostapi.ErrGone):
		l.inst.kill()
		l.dead = fmt.Errorf("crashed in %s: %s", req.Event, l.inst.proc.cause())
	}
	l.plugin.trace(l.hook, req, out, err, time.Since(began))
	return out, err
}

// schedule has the hook's next periodic called after a while. A plugin has at most one timer.
func (h *Host) schedule(p *plugin, after time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	if t := h.period[p]; t != nil {
		t.Stop()
	}
	h.period[p] = time.AfterFunc(after, func() { h.behindIt(func() { h.tick(p) }) })
}

// rhythm is when a plugin's periodics are due.
type rhythm struct {
	freq time.Duration
	ok   bool
}

func rhythmsOf(plugins []*plugin) map[*plugin]rhythm {
	all := make(map[*plugin]rhythm, len(plugins))
	for _, p := range plugins {
		freq, ok := p.ticks()
		all[p] = rhythm{freq, ok}
	}
	return all
}

// reschedule counts from now to a plugin's next periodic, after its attributes have changed.
func (h *Host) reschedule(p *plugin) {
	if freq, ok := p.ticks(); ok {
		h.schedule(p, freq)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.period[p]; t != nil {
		t.Stop()
		delete(h.period, p)
	}
}

// tick calls one hook's periodic, and then looks for jobs whose processes died without a word.
func (h *Host) tick(p *plugin) {
	defer func() {
		hook := p.spec()
		if h.plugin(hook.Name) == p && p.gets(hostapi.EventPeriodic) {
			h.schedule(p, time.Duration(hook.Freq)*time.Second)
			return
		}
		h.mu.Lock()
		delete(h.period, p)
		h.mu.Unlock()
	}()
	v := h.askAll(h.ctx, []link{place{h, p.spec().Name}}, &hostapi.Request{Event: hostapi.EventPeriodic, Node: h.opt.Node}, caller{})
	switch {
	case h.ctx.Err() != nil:
		return
	case v.Reject:
		p.log.WithField("event", hostapi.EventPeriodic).Error(v.Message)
	default:
		for _, note := range v.Notes {
			p.log.WithField("event", hostapi.EventPeriodic).Info(note)
		}
	}
	if err := h.Reconcile(h.ctx); err != nil && h.ctx.Err() == nil {
		h.log.Error(OneLine(err.Error()))
	}
}
