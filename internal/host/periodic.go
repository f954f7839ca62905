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
func (h *Host) hosted(ctx context.Context) (func(hook string) map[string]*hostapi.Job, error) {
	recs, err := h.opt.Store.List(ctx)
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "%w", err)
	}
	return func(hook string) map[string]*hostapi.Job { return listOf(recs, hook, h.clock.Now()) }, nil
}

func listOf(recs []*jobstate.Record, hook string, now jobstate.Moment) map[string]*hostapi.Job {
	list := make(map[string]*hostapi.Job, len(recs))
	for _, rec := range recs {
		list[rec.Job.ID] = listed(rec, hook, now)
	}
	return list
}

// judgeHost carries out an exechost_* event that came from outside, with every hook.
func (h *Host) judgeHost(ctx context.Context, req *hostapi.Request, from caller) (*Verdict, error) {
	began := time.Now()
	switch {
	case from.pbs && req.Event == hostapi.EventPeriodic:
		h.dropUnlisted(ctx, req.JobList, from.home)
	case from.pbs:
		time.AfterFunc(dropAge, func() { h.behindIt(func() { h.dropForgotten(from.home) }) })
	}
	if err := h.alterAll(ctx, req.JobList); err != nil {
		h.log.Errorf("limits that were altered: %v", err) // the next event tells them again
	}
	v, err := h.askAll(ctx, h.links(), req, from)
	h.tell(req, v, err, time.Since(began))
	switch {
	case err != nil || !from.pbs:
	case req.Event == hostapi.EventPeriodic:
		h.startUpLate(ctx, req, from, v)
	case !v.Reject:
		h.setStarted(from.home)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", req.Event, err)
	}
	return v, err
}

func (h *Host) askAll(ctx context.Context, links []link, req *hostapi.Request, from caller) (*Verdict, error) {
	hosted, err := h.hosted(ctx)
	if err != nil {
		return nil, err
	}
	c := &chain{links: links, req: req, hosted: hosted}
	v := c.run(ctx)
	h.passSignals(c)
	if err := h.update(ctx, c, from); err != nil {
		h.log.Error(line(err.Error()))
	}
	return v, nil
}

// update notes what startup or periodic found out about jobs, each in its turn: at once of those whose turn nobody has, together, and behind the
// event of the others. An event of one job does not keep MoM from its periodic of all.
func (h *Host) update(ctx context.Context, c *chain, from caller) error {
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
	err := h.changeAll(ctx, free, note(c))
	for _, id := range free {
		h.rouse(id)
	}
	release()
	if len(busy) == 0 {
		return err
	}
	later := c.aside() // the caller gets c
	recs, readErr := h.opt.Store.GetAll(ctx, busy)
	for _, rec := range recs {
		note(c)(rec) // for what it does to the answer
	}
	h.behindIt(func() {
		for _, id := range busy {
			if err := h.updateInTurn(id, note(later)); err != nil && h.ctx.Err() == nil {
				h.log.WithField("job", id).Error(line(err.Error()))
			}
		}
	})
	return errors.Join(err, readErr)
}

// updateInTurn changes the job's record when its turn has come.
func (h *Host) updateInTurn(id string, note func(*jobstate.Record)) error {
	release, err := h.jobs.take(h.ctx, id, course)
	if err != nil {
		return err
	}
	defer release()
	defer h.rouse(id)
	return h.change(h.ctx, id, note)
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
	hosted, err := h.hosted(ctx)
	if err != nil {
		return err
	}
	l := &startupLink{plugin: p, inst: inst, hook: hook}
	c := &chain{links: []link{l}, req: &hostapi.Request{Event: hostapi.EventStartup, Node: h.opt.Node}, hosted: hosted}
	v := c.run(ctx)
	if l.dead != nil {
		return hostapi.Errorf(hostapi.KindNode, "start hook %s: %w", hook.Name, l.dead)
	}
	p.started(v)
	// Not now: an event that has the job's turn may be waiting for this start.
	h.behindIt(func() {
		h.passSignals(c)
		if err := h.update(h.ctx, c, caller{}); err != nil && h.ctx.Err() == nil {
			p.log.Error(line(err.Error()))
		}
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
	v, err := h.askAll(h.ctx, []link{place{h, p.spec().Name}}, &hostapi.Request{Event: hostapi.EventPeriodic, Node: h.opt.Node}, caller{})
	switch {
	case h.ctx.Err() != nil:
		return
	case err != nil:
		p.log.WithField("event", hostapi.EventPeriodic).Error(line(err.Error()))
	case v.Reject:
		p.log.WithField("event", hostapi.EventPeriodic).Error(v.Message)
	default:
		for _, note := range v.Notes {
			p.log.WithField("event", hostapi.EventPeriodic).Info(note)
		}
	}
	if err := h.Reconcile(h.ctx); err != nil && h.ctx.Err() == nil {
		h.log.Error(line(err.Error()))
	}
}
