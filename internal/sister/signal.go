package sister

import (
	"context"
	"sync"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
)

const (
	// signalLimit is how long a host has for a signal. A signal that has not arrived by then is
	// lost: the hook looks again.
	signalLimit = 10 * time.Second
	// signalWidth is how many hosts get signals at the same time.
	signalWidth = 64
)

// signals carries signals to the other hosts of jobs, in the background. Each host of a job gets
// them one after the other, in their order, whatever becomes of the other hosts.
type signals struct {
	send  func(s *signal, host string) reply
	lost  func(s *signal, failed []reply) // is called once for each signal that a host has not got
	start func(func()) bool               // runs a function beside the others, unless it is too late for that

	slots chan struct{}
	mu    sync.Mutex
	lanes map[[2]string][]*signal // by job and host; a key is there while one of its signals is on its way
}

// signal is one signal to the other hosts of a job.
type signal struct {
	ctx  context.Context // ends with the host
	name string
	rec  *jobstate.Record

	mu     sync.Mutex
	left   int // hosts that have not got it yet
	failed []reply
}

// add sends a signal to hosts, and returns at once.
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
		q.lost(s, s.failed)
	}
}

func newSignals(start func(func()) bool, j *Jobs) *signals {
	return &signals{
		start: start, slots: make(chan struct{}, signalWidth),
		send: func(s *signal, host string) reply {
			ctx, cancel := context.WithTimeout(s.ctx, signalLimit)
			defer cancel()
			req := &hostapi.Request{Event: hostapi.EventPreterm, Job: s.rec.Job, Signal: s.name}
			return j.ask(ctx, req, s.rec.Run, []string{host})[0]
		},
		lost: func(s *signal, failed []reply) {
			entry := j.Log.WithField("job", s.rec.Job.ID)
			entry.Errorf("SIG%s has not reached the job's processes: %s", s.name, named(failed))
		},
	}
}

// Signal sends a signal to the processes that a job has on its other hosts, if it has any. A signal
// that has not been sent when ctx ends is not sent.
func (j *Jobs) Signal(ctx context.Context, id, name string) {
	entry := j.Log.WithField("job", id)
	if err := hostapi.CheckSignal(name); err != nil {
		entry.Errorf("signal_sisters: %v", err)
		return
	}
	rec := j.Store.Get(id)
	if rec == nil || rec.Phase == jobstate.PhaseExiting {
		return
	}
	others := j.others(rec)
	if len(others) == 0 {
		return
	}
	entry.Infof("SIG%s goes to the job's processes on %d other hosts", name, len(others))
	j.signals.add(&signal{ctx: ctx, name: name, rec: rec}, others)
}
