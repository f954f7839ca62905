package host

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
)

const (
	// retryCall is the delay before a failed call that a hook had asked for is made again.
	retryCall = 30 * time.Second
	// together is how long a job that is due waits for other jobs.
	together = time.Millisecond
)

// batches groups the jobs for which a hook is due at the same time into one call of that hook. No
// call waits for another.
type batches struct {
	call  func(hook string, jobs []string) // returns when the call is over
	start func(func())                     // runs a function in the background, unless the host is closing

	mu  sync.Mutex
	due map[string][]string // jobs by hook
}

// add schedules a call of the hook for the job.
func (b *batches) add(hook, job string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	first := len(b.due[hook]) == 0
	put(&b.due, hook, append(b.due[hook], job))
	if first {
		b.start(func() {
			time.Sleep(together)
			b.call(hook, b.collect(hook))
		})
	}
}

// collect returns the jobs for which the hook is due, without duplicates.
func (b *batches) collect(hook string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	jobs := b.due[hook]
	delete(b.due, hook)
	slices.Sort(jobs)
	return slices.Compact(jobs)
}

// callDue calls a hook for the jobs for which it asked to be called. If a job's turn is taken, the
// job gets a separate call when its turn comes. No turn is held while another one is awaited.
func (h *Host) callDue(hook string, jobs []string) {
	end, ok := h.beginEvent()
	if !ok {
		return
	}
	defer end()
	free, busy, release := h.turns.tryAll(jobs)
	defer release()
	for _, id := range busy {
		h.inTurn(hook, id, func(context.Context) { h.callForAll(hook, []string{id}) })
	}
	if len(free) > 0 {
		h.callForAll(hook, free)
	}
}

// inTurn waits in the background for the job's turn and then runs f, unless Close comes first. A
// job waits only once for each purpose, such as a hook or a reason: further calls do nothing.
func (h *Host) inTurn(purpose, id string, f func(ctx context.Context)) {
	key := [2]string{purpose, id}
	if !h.awaited.begin(key) {
		return
	}
	h.goBackground(func() {
		release, err := h.turns.acquire(h.ctx, id, course)
		h.awaited.end(key)
		if err != nil {
			return
		}
		defer release()
		end, ok := h.beginEvent()
		if !ok {
			return
		}
		defer end()
		f(h.ctx)
	})
}

// callForAll calls the hook for the jobs whose timers are due. The caller holds their turns.
func (h *Host) callForAll(hook string, ids []string) {
	entry := h.log.WithField("hook", hook).WithField("jobs", len(ids))
	if len(ids) == 1 {
		entry = h.log.WithFields(logrus.Fields{"hook": hook, "job": ids[0]})
	}
	p := h.plugins.Find(hook)
	if p == nil || !p.Gets(hostapi.EventPeriodic) {
		return // Reload sets the timers again when the hook returns
	}
	now := h.clock.Now()
	due := make(map[string]jobstate.Timer, len(ids))
	var early []string // an event has cancelled or postponed the call meanwhile
	recs := slices.DeleteFunc(h.opt.Store.GetAll(ids), func(rec *jobstate.Record) bool {
		t, asked := rec.Timers[hook]
		at, runs := rec.Due(t, now)
		if !asked || !runs || at.Sub(now) > 0 || rec.Phase == hostapi.PhaseExiting {
			early = append(early, rec.Job.ID)
			return true
		}
		due[rec.Job.ID] = t
		return false
	})
	h.change(func(*jobstate.Record) {}, early...) // sets their timers
	for _, part := range inMessages(recs, hook) {
		h.callFor(hook, part, due, entry)
	}
}

// callFor makes one call of the hook, for jobs whose timers are due. The caller holds their turns.
func (h *Host) callFor(hook string, recs []*jobstate.Record, due map[string]jobstate.Timer, entry *logrus.Entry) {
	c := h.about(recs, h.plugins.Place(hook))
	v := c.run(h.ctx)
	if v.Reject {
		entry.Error(v.Message)
	}
	called := make([]string, len(recs))
	for i, rec := range recs {
		called[i] = rec.Job.ID
	}
	now := h.clock.Now()
	h.change(func(rec *jobstate.Record) {
		t := due[rec.Job.ID]
		delete(rec.Timers, hook)
		if v.Kind != "" {
			put(&rec.Timers, hook, after(rec, t, retryCall, now))
		}
		recordUpdates(rec, h.opt.Node, c, now)
		// Such a timer would ring immediately, again and again.
		if again := rec.Timers[hook]; again.Elapsed > 0 && again.Elapsed <= t.Elapsed {
			put(&rec.Timers, hook, after(rec, t, retryCall, now))
		}
	}, called...)
	h.adopt(h.ctx, c)
}

// inMessages splits the records into parts, each small enough for one message to the hook. There is
// nearly always one part.
func inMessages(recs []*jobstate.Record, hook string) [][]*jobstate.Record {
	var parts [][]*jobstate.Record
	size := 0
	for i, rec := range recs {
		j := rec.Job
		of := 16<<10 + len(rec.HookState[hook]) + len(j.ExecVnode) + len(j.ExecHost2) + len(j.Schedselect)
		size += of
		if i == 0 || size > hostapi.MaxMessage/2 {
			parts, size = append(parts, nil), of
		}
		parts[len(parts)-1] = append(parts[len(parts)-1], rec)
	}
	return parts
}

// after returns a timer that rings d from now, on the same clock as t.
func after(rec *jobstate.Record, t jobstate.Timer, d time.Duration, now jobstate.Moment) jobstate.Timer {
	if t.Elapsed > 0 {
		return jobstate.Timer{Elapsed: rec.Elapsed(now) + d}
	}
	return jobstate.Timer{At: now.Add(d)}
}

// rearm sets the timers of all jobs: some may have rung while no hook could be called.
func (h *Host) rearm() {
	var ids []string
	for _, rec := range h.opt.Store.List() {
		if len(rec.Timers) > 0 {
			ids = append(ids, rec.Job.ID)
		}
	}
	h.change(func(*jobstate.Record) {}, ids...)
}

// about returns a chain for a periodic about these jobs only.
func (h *Host) about(recs []*jobstate.Record, links ...link) *chain {
	return &chain{
		links:  links,
		req:    &hostapi.Request{Event: hostapi.EventPeriodic, Node: h.opt.Node, Partial: true},
		hosted: func(hook string) map[string]*hostapi.Job { return listOf(recs, hook, h.clock.Now()) },
	}
}
