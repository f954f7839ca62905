package host

import (
	"sync/atomic"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/plugin"
)

// Observer is told what was done and how long it took, for metrics. Its methods may be called at
// the same time, and must not wait.
type Observer interface {
	// Event is told of an event that is over.
	Event(event hostapi.Event, result Result, took time.Duration)
	// Call is told of a hook's answer to an event, whoever has sent the event.
	Call(hook string, result Result, took time.Duration)
}

// Result is what became of an event, or of a call of a hook.
type Result string

// The results. An event fails when the host or a hook does: by a crash, an alarm, an error of the
// node. All else that was not accepted is a reject, errors of the job and of a busy node included.
const (
	Accepted Result = "accept"
	Rejected Result = "reject"
	Failed   Result = "error"
)

// Results are all there are.
var Results = []Result{Accepted, Rejected, Failed}

// resultOf returns the result of what was rejected or not, with an error's kind, "" for none.
func resultOf(reject bool, kind hostapi.Kind) Result {
	switch {
	case kind != "" && failure(kind):
		return Failed
	case reject || kind != "":
		return Rejected
	}
	return Accepted
}

// eventOver notes an event that is over.
func (h *Host) eventOver(req *hostapi.Request, v *Verdict, err error, took time.Duration) {
	h.logEvent(req, v, err, took)
	if h.opt.Observer == nil {
		return
	}
	kind := hostapi.KindOf(err)
	if err == nil {
		kind = v.Kind
	}
	h.opt.Observer.Event(req.Event, resultOf(v != nil && v.Reject, kind), took)
}

// Called is told of each call of a hook.
func (h pluginHost) Called(hook string, out *hostapi.Outcome, err error, took time.Duration) {
	if h.opt.Observer != nil {
		h.opt.Observer.Call(hook, resultOf(out != nil && out.Reject, hostapi.KindOf(err)), took)
	}
}

// Counts is what a Host has counted since Open.
type Counts struct {
	OOMKills int64 // in jobs of this host, by the kernel
	Adopted  int64 // processes outside of every job that were taken in
}

type counters struct{ oomKills, adopted atomic.Int64 }

// Counts returns what was counted.
func (h *Host) Counts() Counts {
	return Counts{OOMKills: h.counters.oomKills.Load(), Adopted: h.counters.adopted.Load()}
}

// countingKills changes a record, and counts the OOM kills that it has more of then.
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

// Programs returns the hooks in force and how their programs do. Programs reads no file.
func (h *Host) Programs() []plugin.Status { return h.plugins.Programs() }
