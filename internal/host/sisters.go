package host

import (
	"context"
	"maps"
	"slices"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/pbs"
)

// Handler carries out an event of a job whose turn the caller has. It completes req.Job by what the
// job's record says.
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
	// Measure asks other hosts what jobs have used there, and notes it in the jobs' records. It
	// needs nobody's turn, and returns in a bounded time.
	Measure(ctx context.Context, ids []string) error
	// Signal sends a signal, without SIG, to the processes of a job on its other hosts. It returns
	// at once.
	Signal(ctx context.Context, id, name string)
}

// Inside is what Sisters get of the Host.
type Inside interface {
	// Record returns the record of a job whose turn the caller has, nil for one that is not known.
	Record(ctx context.Context, id string) (*jobstate.Record, error)
	// Note changes the record of a job, if there is one. fn may be called again.
	Note(ctx context.Context, id string, fn func(*jobstate.Record)) error
	// Beside runs f beside the caller. Close waits for it as for an event; false when it is too
	// late for that.
	Beside(f func()) bool
}

type inside struct{ *Host }

func (h inside) Record(ctx context.Context, id string) (*jobstate.Record, error) {
	return h.record(ctx, id)
}
func (h inside) Beside(f func()) bool { return h.aside(f) }

// Note also wakes those who follow the lines for the job's standard error.
func (h inside) Note(ctx context.Context, id string, fn func(*jobstate.Record)) error {
	defer h.rouse(id)
	return h.change(ctx, id, fn)
}

// alone is a Host without other hosts.
type alone struct{}

func (alone) Around(next Handler) Handler             { return next }
func (alone) Measure(context.Context, []string) error { return nil }
func (alone) Signal(_ context.Context, _, _ string)   {}

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

// rang has the hook called for jobs whose timers have rung and of which the hook wants the other
// hosts asked first. Meanwhile nobody waits: these jobs' turns are free, and calls for others go on.
func (h *Host) rang(hook string, jobs []string) {
	h.mu.Lock()
	jobs = slices.DeleteFunc(slices.Clone(jobs), func(id string) bool {
		key := [2]string{hook, id}
		asks := h.asking[key]
		put(&h.asking, key, true)
		return asks
	})
	h.mu.Unlock()
	if len(jobs) == 0 {
		return
	}
	h.aside(func() {
		if err := h.sisters.Measure(h.ctx, jobs); err != nil && h.ctx.Err() == nil {
			h.log.WithField("hook", hook).Errorf("ask other hosts what jobs have used: %v", err)
		}
		h.mu.Lock()
		for _, id := range jobs {
			delete(h.asking, [2]string{hook, id})
		}
		h.mu.Unlock()
		h.batches.add(hook, jobs)
	})
}

// aside runs f beside the caller. Close waits for it as for an event; false when it is too late for
// that.
func (h *Host) aside(f func()) bool {
	if !h.enter(&h.begun) {
		return false
	}
	go func() { defer h.begun.Done(); f() }()
	return true
}

// asking is an ask under way.
type asking struct {
	done chan struct{}
	err  error // once done is closed
}

// askBeside has a job's other hosts asked while the caller goes on; the function that it returns
// waits for them. Callers that come while the hosts are being asked wait for the same answers: a
// user may have reports of own jobs made at any rate, and a job may have a thousand hosts.
func (h *Host) askBeside(ctx context.Context, id string) (wait func() error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.reports[id]
	if a == nil {
		a = &asking{done: make(chan struct{})}
		put(&h.reports, id, a)
		go func() {
			a.err = h.sisters.Measure(ctx, []string{id})
			h.mu.Lock()
			delete(h.reports, id)
			h.mu.Unlock()
			close(a.done)
		}()
	}
	return func() error { <-a.done; return a.err }
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
