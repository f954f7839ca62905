package host

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
)

const (
	// signalLimit is how long a host has for a signal. What it has not got by then it does not get: the hook looks again.
	signalLimit = 10 * time.Second
	// signalWidth is how many hosts get signals at the same time.
	signalWidth = 64
)

// signals carries signals to the other hosts of jobs, behind everybody's back. Each host of a job gets them one after the other, in the
// order in which they were told, whatever becomes of the other hosts.
type signals struct {
	send  func(s *signal, host string) reply
	told  func(s *signal, failed []reply)
	start func(func()) bool // runs a function beside the others, unless it is too late for that

	slots chan struct{}
	mu    sync.Mutex
	lanes map[[2]string][]*signal // by job and host; a key is there while one of its signals is on its way
}

// signal is one signal to the other hosts of a job.
type signal struct {
	name string
	rec  *jobstate.Record

	mu     sync.Mutex
	left   int // hosts that have not got it yet
	failed []reply
}

// add sends a signal to hosts. It returns at once.
func (q *signals) add(s *signal, hosts []string) {
	s.left = len(hosts)
	q.mu.Lock() // over all of them: two signals come in one order everywhere
	defer q.mu.Unlock()
	for _, host := range hosts {
		key := [2]string{s.rec.Job.ID, host}
		lane, busy := q.lanes[key]
		if !busy && !q.start(func() { q.work(key) }) {
			return
		}
		put(&q.lanes, key, append(lane, s))
	}
}

// work sends what is in one lane.
func (q *signals) work(key [2]string) {
	for {
		q.mu.Lock()
		lane := q.lanes[key]
		if len(lane) == 0 {
			delete(q.lanes, key)
			q.mu.Unlock()
			return
		}
		s := lane[0]
		q.lanes[key] = lane[1:]
		q.mu.Unlock()

		q.slots <- struct{}{}
		r := q.send(s, key[1])
		<-q.slots
		q.done(s, r)
	}
}

// done notes a host's answer, and tells of those that failed once all have answered.
func (q *signals) done(s *signal, r reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !r.accepted() {
		s.failed = append(s.failed, r)
	}
	if s.left--; s.left == 0 && len(s.failed) > 0 {
		q.told(s, s.failed)
	}
}

func (h *Host) newSignals() *signals {
	return &signals{
		start: h.aside, slots: make(chan struct{}, signalWidth),
		send: func(s *signal, host string) reply {
			ctx, cancel := context.WithTimeout(h.ctx, signalLimit)
			defer cancel()
			req := &hostapi.Request{Event: hostapi.EventPreterm, Job: s.rec.Job, Signal: s.name}
			return h.send(ctx, req, s.rec, []string{host})[0]
		},
		told: func(s *signal, failed []reply) {
			h.log.WithField("job", s.rec.Job.ID).Errorf("SIG%s has not reached the job's processes: %s", s.name, named(failed))
		},
	}
}

// signalOthers sends a signal to the processes that a job has on its other hosts, if it has any.
func (h *Host) signalOthers(ctx context.Context, id, name string) {
	entry := h.log.WithField("job", id)
	if err := hostapi.CheckSignal(name); err != nil {
		entry.Errorf("signal_sisters: %v", err)
		return
	}
	rec, err := h.opt.Store.Get(ctx, id)
	if err != nil {
		entry.Errorf("SIG%s has not reached the job's other hosts: %v", name, err)
		return
	}
	others := h.others(rec)
	if len(others) == 0 || rec.Phase == jobstate.PhaseExiting {
		return
	}
	entry.Infof("SIG%s goes to the job's processes on %d other hosts", name, len(others))
	h.signals.add(&signal{name: name, rec: rec}, others)
}

// passSignals sends the signals that hooks answered with, each job's in the order of its hooks.
func (h *Host) passSignals(ctx context.Context, c *chain) {
	for _, a := range c.answers {
		for _, id := range slices.Sorted(maps.Keys(a.out.Jobs)) {
			if u := a.out.Jobs[id]; u != nil && u.SignalSisters != "" {
				h.signalOthers(ctx, id, u.SignalSisters)
			}
		}
	}
}
