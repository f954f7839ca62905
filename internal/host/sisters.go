package host

import (
	"context"
	"maps"
	"slices"

	"golang.org/x/sync/singleflight"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/pbs"
)

// Handler carries out an event of a job whose turn the caller has, and completes req.Job by what
// the job's record says.
type Handler interface {
	Handle(ctx context.Context, req *hostapi.Request) (*Verdict, error)
}

// handler is a function as a Handler.
type handler func(ctx context.Context, req *hostapi.Request) (*Verdict, error)

func (f handler) Handle(ctx context.Context, req *hostapi.Request) (*Verdict, error) {
	return f(ctx, req)
}

// Sisters are the other hosts of jobs. Its methods may be called at the same time.
type Sisters interface {
	// Around returns a Handler that carries out the events of jobs on this host, by next, and on
	// the jobs' other hosts.
	Around(next Handler) Handler
	// Measure asks other hosts what a job has used there, and notes it in the job's record. The
	// call needs nobody's turn, and returns in a bounded time.
	Measure(ctx context.Context, id string)
	// Signal sends a signal, without SIG, to the processes of a job on its other hosts, and returns
	// at once.
	Signal(ctx context.Context, id, name string)
}

// Inside is what Sisters get of the Host.
type Inside interface {
	// Record returns the record of a job whose turn the caller has, nil for one that is not known.
	Record(id string) *jobstate.Record
	// Note changes the record of a job, if there is one.
	Note(id string, fn func(*jobstate.Record))
	// Beside runs f beside the caller. Close waits for it as for an event; false when it is too
	// late for that.
	Beside(f func()) bool
}

type inside struct{ *Host }

func (h inside) Record(id string) *jobstate.Record { return h.opt.Store.Get(id) }

func (h inside) Beside(f func()) bool { return h.goEvent(f) }

// Note also wakes those who follow the lines for the job's standard error.
func (h inside) Note(id string, fn func(*jobstate.Record)) {
	h.change(fn, id)
	h.news.notify(id)
}

// alone is a Host without other hosts.
type alone struct{}

func (alone) Around(next Handler) Handler           { return next }
func (alone) Measure(context.Context, string)       {}
func (alone) Signal(_ context.Context, _, _ string) {}

// passSignals sends the signals that hooks answered with, each job's in the order of its hooks.
func (h *Host) passSignals(c *chain) {
	for _, a := range c.answers {
		for _, id := range slices.Sorted(maps.Keys(a.out.Jobs)) {
			if u := a.out.Jobs[id]; u != nil && u.SignalSisters != "" {
				h.sisters.Signal(h.ctx, id, u.SignalSisters)
			}
		}
	}
}

// timerDue has the hook called for a job whose timer is due. The job's other hosts are asked first
// if the hook wants that. The job's turn is free meanwhile. A timer that is due while the hosts are
// being asked has no call of its own.
func (h *Host) timerDue(id, hook string, ask bool) {
	if !ask {
		h.batches.add(hook, id)
		return
	}
	key := [2]string{"measure for " + hook, id}
	if !h.awaited.begin(key) {
		return
	}
	h.goEvent(func() {
		<-h.measureSisters(h.ctx, id)
		h.awaited.end(key) // before the call, which would not see a timer that is set from now on
		h.batches.add(hook, id)
	})
}

// measureSisters has a job's other hosts asked beside the caller. The channel that it returns gets
// a value at the end. Callers that come meanwhile wait for the same answers. A user may ask for
// reports of own jobs at any rate, and a job may have a thousand hosts.
func (h *Host) measureSisters(ctx context.Context, id string) <-chan singleflight.Result {
	return h.measuring.DoChan(id, func() (any, error) {
		h.sisters.Measure(ctx, id)
		return nil, nil
	})
}

// otherCPUT returns the cpu time that a job of several hosts has used on the others, as far as they
// told; nil when none did.
func otherCPUT(rec *jobstate.Record) *float64 {
	if !rec.Spreads() {
		return nil
	}
	hosts, err := pbs.Hosts(rec.Job.ExecVnode, rec.Job.ExecHost2)
	if err != nil || len(hosts) == 0 {
		return nil
	}
	var sum *float64
	for host, u := range rec.Hosts {
		if pbs.SameHost(host, hosts[0]) || u == nil || u.CPUTSeconds == nil {
			continue
		}
		if sum == nil {
			sum = new(float64)
		}
		*sum += *u.CPUTSeconds
	}
	return sum
}
