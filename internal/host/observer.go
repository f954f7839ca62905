package host

import (
	"sync/atomic"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/plugin"
)

// Observer receives each event and call with its result and duration, for metrics. Several
// goroutines may call its methods at the same time. They must not wait.
type Observer interface {
	// Event is called when an event is over.
	Event(event hostapi.Event, result Result, took time.Duration)
	// Call is called for each answer of a hook to an event, no matter who sent the event.
	Call(hook string, result Result, took time.Duration)
}

// Result is the result of an event, or of a call of a hook.
type Result string

// The results. An event fails when the host or a hook does: by a crash, an alarm or an error of the
// node. Everything else that was not accepted is a reject, including errors of the job and of a
// busy node.
const (
	Accepted Result = "accept"
	Rejected Result = "reject"
	Failed   Result = "error"
)

// Results lists all results.
var Results = []Result{Accepted, Rejected, Failed}

// resultOf returns the result for a reject or an acceptance and the kind of its error, "" for none.
func resultOf(reject bool, kind hostapi.Kind) Result {
	switch {
	case kind != "" && failure(kind):
		return Failed
	case reject || kind != "":
		return Rejected
	}
	return Accepted
}

// Called passes each call of a hook to the observer.
func (h pluginHost) Called(hook string, out *hostapi.Outcome, err error, took time.Duration) {
	h.opt.Observer.Call(hook, resultOf(out != nil && out.Reject, hostapi.KindOf(err)), took)
}

// Counts holds the counters of a Host since Open.
type Counts struct {
	OOMKills int64 // in jobs of this host, by the kernel
	Adopted  int64 // processes outside of every job that were attached to one
}

type counters struct{ oomKills, adopted atomic.Int64 }

// Counts returns the current counters.
func (h *Host) Counts() Counts {
	return Counts{OOMKills: h.counters.oomKills.Load(), Adopted: h.counters.adopted.Load()}
}

// countingKills changes a record, and counts the OOM kills that the change adds.
func (h *Host) countingKills(rec *jobstate.Record, change func(*jobstate.Record)) {
	kills := func() int64 {
		if u := rec.Hosts[h.opt.Node]; u != nil && u.OOMKills != nil {
			return *u.OOMKills
		}
		return 0
	}
	before := kills()
	change(rec)
	h.counters.oomKills.Add(kills() - before)
}

// Programs returns the hooks in force with the state of their programs. It reads no file.
func (h *Host) Programs() []plugin.Status { return h.plugins.Programs() }
