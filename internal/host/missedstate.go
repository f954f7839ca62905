package host

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
)

// pbs_mom suspends a job whether a daemon answers its execjob_postsuspend or not, and sends it
// once. Where [shim] has unconfined = true, it resumes a job likewise. If no daemon answered, the
// record is wrong from then on: a suspended job would run out of walltime, or a resumed one stay
// frozen. MoM's list in exechost_periodic has the state of each job (openpbs src/resmom/requests.c,
// post_suspend and post_resume; they serve sisters, too).

// followStates carries out a suspension or resumption that only MoM's list shows. Events may
// overtake a list, so that two lists in a row must show it.
func (h *Host) followStates(_ context.Context, e *event) (*Verdict, error) {
	if !e.from.pbs || e.req.Event != hostapi.EventPeriodic {
		return nil, nil
	}
	missed := make(map[string]hostapi.Event)
	for _, rec := range h.opt.Store.GetAll(slices.Sorted(maps.Keys(e.req.JobList))) {
		if event := missedEvent(rec, e.req.JobList[rec.Job.ID].Phase); event != "" {
			missed[rec.Job.ID] = event
		}
	}
	before := h.missed.replace(e.from.home, missed)
	for id, event := range missed {
		if before[id] == event {
			h.goBackground(func() { h.catchUp(id, event, e.req.JobList[id].Phase) })
		}
	}
	return nil, nil
}

// missedEvent returns the event that leads from the record to the phase in MoM's list, or "". A job
// that is being killed has none: preterm has thawed it.
func missedEvent(rec *jobstate.Record, told hostapi.Phase) hostapi.Event {
	if rec == nil || !rec.PBS || rec.Phase == hostapi.PhaseExiting || rec.Terminated {
		return ""
	}
	suspended := rec.Phase == hostapi.PhaseSuspended
	switch {
	case told == hostapi.PhaseSuspended && !suspended:
		return hostapi.EventPostsuspend
	case told == hostapi.PhaseRunning && suspended:
		return hostapi.EventPreresume
	}
	return ""
}

// catchUp carries out the event if it is still missing. If the job has another event, the next list
// decides.
func (h *Host) catchUp(id string, event hostapi.Event, told hostapi.Phase) {
	release := h.turns.try(id)
	if release == nil {
		return
	}
	defer release()
	end, ok := h.beginEvent()
	if !ok {
		return
	}
	defer end()
	rec := h.opt.Store.Get(id)
	if missedEvent(rec, told) != event {
		return
	}
	h.log.WithField("job", id).Warnf("no %s has come, and pbs_mom lists the job as %s: it is carried out now",
		event, told)
	job := *rec.Job
	job.ResourceList = nil // a qalter may change the record's meanwhile
	req := &hostapi.Request{Event: event, Node: h.opt.Node, Job: &job}
	if _, err := h.carryOut(context.WithoutCancel(h.ctx), req, caller{}); err != nil {
		h.log.WithField("job", id).Error(hostapi.OneLine(err.Error()))
	}
}

// missedEvents holds the events that the last list of each pbs_mom, by its home, showed to be
// missing. The zero value is empty.
type missedEvents struct {
	mu     sync.Mutex
	byHome map[string]map[string]hostapi.Event // by job
}

// replace stores the events that the newest list shows to be missing, and returns those before.
func (m *missedEvents) replace(home string, events map[string]hostapi.Event) (before map[string]hostapi.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before = m.byHome[home]
	put(&m.byHome, home, events)
	return before
}
