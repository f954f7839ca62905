package host

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/time/rate"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/plugin"
)

// Verdict is the merged answer of all hooks to an event, with the hook to name in the log.
type Verdict struct {
	*hostapi.Outcome

	// Hook is the first hook that rejected the event or failed. Kind is the kind of its error, or
	// "" for a plain reject.
	Hook string
	Kind hostapi.Kind

	// Faults are the errors of hooks for which the vnodes of this host go offline. A fault without
	// an error is over: see plugin.FailClearVnodes.
	Faults []Fault

	// States are the states of vnodes that hooks set without a comment, by hook and vnode.
	States map[string]map[string]string
}

// Fault is an error of a hook that counts against the node.
type Fault struct {
	Hook string
	Err  error
}

// Unavailable reports whether the hook was not available, so that the fault is over once its
// program runs. Of another error, only an administrator knows whether it comes again.
func (f Fault) Unavailable() bool {
	_, is := errors.AsType[plugin.Unanswered](f.Err)
	return is
}

// outcomeOf returns the outcome for the caller of Handle.
func outcomeOf(v *Verdict) *hostapi.Outcome {
	if v == nil {
		return nil
	}
	return v.Outcome
}

// heldText ends the message of a verdict that holds the job. It is the text of pbs_cgroups (main's
// except clauses), which people search for in mom_logs.
const heldText = " (system hold set)"

// Add appends to the message of the verdict, up to the maximum length of a line. A hook may pass on
// text that a user has chosen, and that text reaches the log, MoM and the job.
func (v *Verdict) Add(text string) {
	text = strings.TrimSuffix(hostapi.OneLine(joinLines(strings.TrimSuffix(v.Message, heldText), text)), heldText)
	v.Message = hostapi.Clip(text, hostapi.MaxLine)
	if v.Reject && v.OnReject == hostapi.JobActionHold {
		v.Message += heldText
	}
}

// passOn adds the usage that a late begin reported to the verdict of the event that caused it.
func (v *Verdict) passOn(to *Verdict) {
	if v == nil {
		return
	}
	for name, value := range v.ResourcesUsed {
		if _, told := to.ResourcesUsed[name]; !told {
			put(&to.ResourcesUsed, name, value)
		}
	}
}

// addTold adds the lines in the record to the outcome of epilogue, each once: pbs_mom has no other
// way to get them. It also adds the diagnostics of earlier events, and what they measured.
func addTold(out *hostapi.Outcome, rec *jobstate.Record, node string) {
	lines := slices.Clone(rec.Told)
	for _, text := range out.JobStderr {
		if !slices.Contains(rec.Told, text) {
			lines = append(lines, text)
		}
	}
	out.JobStderr = lines
	if told := rec.Diag[node]; told != "" { // has the epilogue's, too
		out.Diag = told
	}
	if used := rec.Hosts[node]; used != nil {
		out.Usage = used
	}
}

// refuse rejects an event. The verdict has no action for the job.
func refuse(req *hostapi.Request, kind hostapi.Kind, why string) *Verdict {
	return &Verdict{Kind: kind, Outcome: &hostapi.Outcome{
		Reject: true, Message: fmt.Sprintf("%s request rejected: %s", req.Event, why),
	}}
}

// refuseStart rejects an event that would start a program. If MoM still has the job, it goes back
// to the queue.
func refuseStart(req *hostapi.Request, kind hostapi.Kind, why string) *Verdict {
	v := refuse(req, kind, why)
	v.OnReject = hostapi.JobActionRerun
	return v
}

// fail adds an error of the host itself to the verdict. An event that hooks accepted becomes a
// reject of KindNode.
func (v *Verdict) fail(err error) {
	if err == nil {
		return
	}
	if !v.Reject {
		v.Reject, v.Kind = true, hostapi.KindNode
	}
	v.Message = hostapi.OneLine(joinLines(v.Message, err.Error()))
}

// eventOver records an event that is over.
func (h *Host) eventOver(req *hostapi.Request, v *Verdict, err error, took time.Duration) {
	h.logEvent(req, v, err, took)
	kind := hostapi.KindOf(err)
	if err == nil {
		kind = v.Kind
	}
	h.opt.Observer.Event(req.Event, resultOf(v != nil && v.Reject, kind), took)
}

// logEvent logs the event in one line. For attaches, attachLog limits the lines.
func (h *Host) logEvent(req *hostapi.Request, v *Verdict, err error, took time.Duration) {
	entry := h.log.WithFields(logrus.Fields{"event": req.Event, "took": took.Round(time.Microsecond).String()})
	if req.Event == hostapi.EventAttach {
		var say bool
		if entry, say = h.attaches.next(entry); !say {
			return
		}
	}
	if req.Job != nil {
		entry = entry.WithField("job", req.Job.ID)
	}
	if v != nil {
		if v.Hook != "" {
			entry = entry.WithField("hook", v.Hook)
		}
		if v.Kind != "" {
			entry = entry.WithField("kind", v.Kind)
		}
		if len(v.FailAction) > 0 {
			entry = entry.WithField("fail_action", strings.Join(v.FailAction, ","))
		}
	}
	switch {
	case err != nil:
		entry = entry.WithFields(logrus.Fields{"verdict": "error", "kind": hostapi.KindOf(err)})
		entry.Error(hostapi.OneLine(err.Error()))
	case v.Reject && v.Kind != "":
		entry.WithField("verdict", "reject").Error(v.Message)
	case v.Reject:
		entry.WithField("verdict", "reject").Info(v.Message)
	case v.Kind != "":
		entry.WithField("verdict", "accept").Error(v.Message)
	default:
		entry.WithField("verdict", "accept").Info("event carried out")
	}
}

// Bounds on log lines about attaches and adoptions: a burst of twenty, then twenty a minute. Users
// cause these lines and must not be able to fill the disk with them. The job's report counts all of
// its attaches.
const (
	attachBurst = 20
	attachEvery = 3 * time.Second
)

// attachLog counts the lines that were not logged.
type attachLog struct {
	mu     sync.Mutex
	pace   *rate.Limiter
	unsaid int
}

func newAttachLog() *attachLog {
	return &attachLog{pace: rate.NewLimiter(rate.Every(attachEvery), attachBurst)}
}

// next reports whether to log one more line. The entry says how many lines before it were dropped.
func (l *attachLog) next(entry *logrus.Entry) (*logrus.Entry, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.pace.Allow() {
		l.unsaid++
		return nil, false
	}
	if l.unsaid > 0 {
		entry = entry.WithField("not_logged", l.unsaid)
	}
	l.unsaid = 0
	return entry, true
}
