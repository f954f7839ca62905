package host

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
)

// Handle carries out one event and returns the merged outcome of the hooks. A hook's reject or
// failure is in the outcome. An error means that the host could not carry out the event. KindJob is
// for a request that makes no sense, KindBusy for a busy job or a closing host. KindNode is for the
// node's own files.
//
// ctx bounds only the wait for the job's turn. Once an event has begun, it runs to its end, within
// the alarms of its hooks. Half an event is worse than one whose caller has gone.
func (h *Host) Handle(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	v, err := h.Judge(ctx, req)
	return outcomeOf(v), err
}

// HandleUser is Handle for a user's request. The request waits behind everything that root, MoM and
// the host itself want from the job. KindBusy means that too many requests wait, or that this one
// has waited too long. If ctx ends before the request begins, it does not begin.
func (h *Host) HandleUser(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	v, err := h.judge(ctx, req, caller{outside: true, user: true})
	return outcomeOf(v), err
}

// Judge is Handle, and also returns the hook at which the event failed.
func (h *Host) Judge(ctx context.Context, req *hostapi.Request) (*Verdict, error) {
	return h.judge(ctx, req, caller{outside: true})
}

func (h *Host) judge(ctx context.Context, req *hostapi.Request, from caller) (*Verdict, error) {
	req, err := h.check(req)
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindJob, "%w", err)
	}
	end, ok := h.beginEvent()
	if !ok {
		return nil, hostapi.Errorf(hostapi.KindBusy, "%s: %w", req.Event, ErrClosed)
	}
	defer end()
	if !req.Event.ForJob() {
		return h.judgeHost(context.WithoutCancel(ctx), req, from), nil
	}
	release, err := h.jobs.acquire(ctx, req.Job.ID, from.class(req.Event))
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindBusy, "%s of job %s: wait for its turn: %w", req.Event, req.Job.ID, err)
	}
	defer release()
	return h.judgeJob(context.WithoutCancel(ctx), req, from)
}

// judgeJob carries out an event of a job. The caller holds its turn. Its errors name event and job;
// those of the functions below do not.
func (h *Host) judgeJob(ctx context.Context, req *hostapi.Request, from caller) (*Verdict, error) {
	v, err := h.carryOut(ctx, req, from)
	if err != nil {
		err = fmt.Errorf("%s of job %s: %w", req.Event, req.Job.ID, err)
	}
	return v, err
}

func (h *Host) carryOut(ctx context.Context, req *hostapi.Request, from caller) (*Verdict, error) {
	began := time.Now()
	v, err := h.dispatch(ctx, req, from)
	h.eventOver(req, v, err, time.Since(began))
	return v, err
}

func (h *Host) dispatch(ctx context.Context, req *hostapi.Request, from caller) (*Verdict, error) {
	switch req.Event {
	case hostapi.EventBegin:
		return h.beginWithRoom(ctx, req, from)
	case hostapi.EventAbort, hostapi.EventEpilogue, hostapi.EventEnd:
		return h.finish(ctx, req)
	}
	return h.during(ctx, req, from)
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
	default:
		entry.WithField("verdict", "accept").Info("event carried out")
	}
}

// check returns a copy of the request that the host may change, or an error about the request.
func (h *Host) check(req *hostapi.Request) (*hostapi.Request, error) {
	if _, err := hostapi.ParseEvent(string(req.Event)); err != nil {
		return nil, err
	}
	own := *req
	own.Partial, own.PBS, own.MoMHome = false, false, ""
	if own.Node == "" {
		own.Node = h.opt.Node
	}
	if !own.Event.ForJob() {
		own.Job = nil
		return &own, nil
	}
	if own.Job == nil {
		return nil, fmt.Errorf("%s: job: missing", own.Event)
	}
	if err := hostapi.CheckJobID(own.Job.ID); err != nil {
		return nil, fmt.Errorf("%s: %w", own.Event, err)
	}
	if own.Event == hostapi.EventAttach && own.PID <= 1 {
		return nil, fmt.Errorf("%s: pid %d: not a process that a job can have", own.Event, own.PID)
	}
	job := *own.Job
	job.State, job.Phase, job.Elapsed = nil, "", 0
	own.Job = &job
	return &own, nil
}

// newChain returns the chain for an event of a job; rec may be nil.
func (h *Host) newChain(req *hostapi.Request, rec *jobstate.Record) *chain {
	c := &chain{links: h.links(), req: req, states: cloneStates(rec)}
	if req.Event == hostapi.EventAttach && rec != nil {
		c.links = attachLinks(c.links, rec)
	}
	return c
}

// during carries out the events between begin and epilogue.
func (h *Host) during(ctx context.Context, req *hostapi.Request, from caller) (*Verdict, error) {
	rec := h.opt.Store.Get(req.Job.ID)
	var late *Verdict
	var err, unsure error
	if rec == nil { // hooks may not have found the job yet
		unsure = h.findJobs(ctx)
		rec = h.opt.Store.Get(req.Job.ID)
	}
	if rec == nil && h.beginsLate(req, from) {
		if h.hasEnded(ctx, req) {
			return refuseStart(req, hostapi.KindJob, "this run of the job has ended here"), nil
		}
		late, rec, err = h.beginLate(ctx, req, from)
		if err != nil || late.Reject {
			return late, err
		}
	}
	if rec == nil {
		return unknown(req, unsure)
	}
	if rec.Phase == jobstate.PhaseExiting && req.Event != hostapi.EventPreterm {
		return nil, hostapi.Errorf(hostapi.KindJob, "the job is ending")
	}
	told := req.Job
	if !alters(req.Event) {
		told = nil
	}
	alter(rec, told)
	req.Job = jobOf(rec, req, h.clock.Now())
	if req.Event == hostapi.EventPostsuspend { // MoM has suspended the job, whatever happens here
		now := h.clock.Now()
		h.change(func(rec *jobstate.Record) { advance(rec, req, now) }, req.Job.ID)
	}
	c := h.newChain(req, rec)
	v := c.run(ctx)
	if req.Event == hostapi.EventPreresume {
		from.missed(req.Event, v) // MoM leaves the job suspended, so its clock must not run
	}
	if v.Reject && rec.Phase == jobstate.PhaseSuspended && req.Event.Undo() != "" {
		if err := c.undo(ctx); err != nil {
			v.Add(err.Error())
		}
	}
	late.passOn(v)
	now := h.clock.Now()
	change := func(rec *jobstate.Record) {
		if !v.Reject || req.Event == hostapi.EventPostsuspend { // postsuspend reports what MoM has already done
			advance(rec, req, now)
		}
		alter(rec, told)
		recordAnswers(rec, h.opt.Node, c, now)
		addLines(rec, v.JobStderr)
	}
	h.change(change, req.Job.ID)
	return v, nil
}

// change applies fn to the records of these jobs, where there are any, and sets their timers
// accordingly. A record that cannot be encoded as JSON stays unchanged, which is logged.
func (h *Host) change(fn func(*jobstate.Record), ids ...string) {
	err := h.opt.Store.Change(ids, func(rec *jobstate.Record) {
		h.countingKills(rec, fn)
		h.arm(rec)
	})
	if err != nil {
		h.log.Error(hostapi.OneLine(err.Error()))
	}
}

// arm sets the timers of the job according to its record. The caller is updating the record, so the
// later of two changes counts.
func (h *Host) arm(rec *jobstate.Record) {
	h.dropper.arm(rec)
	set, now := map[string]alarm{}, h.clock.Now()
	for hook, t := range rec.Timers {
		if hook == endTimer || rec.Phase == jobstate.PhaseExiting {
			continue
		}
		if due, runs := rec.Due(t, now); runs {
			set[hook] = alarm{at: h.clock.Time(due)}
		}
	}
	h.timers.replace(rec.Job.ID, set)
}
