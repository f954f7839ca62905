package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/passwd"
	"github.com/hookhost/hookhost/internal/plugin"
)

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

// rule is one rule of admission. It may answer the event with a verdict or an error, so that no
// hook is called. Or it prepares the event: it finds or creates the job's record and changes it.
type rule func(ctx context.Context, e *event) (*Verdict, error)

// rules returns the rules for events of a stage, in order. They handle the irregularities of PBS:
// events that come late, twice or not at all.
func (h *Host) rules(s hostapi.Stage) []rule {
	switch s {
	case hostapi.StageBegin:
		return []rule{
			h.checkOwner, // may refuse it
			h.register,   // creates the record; first ends an earlier run that was never ended
		}
	case hostapi.StageRun:
		return []rule{
			h.findRecord,    // a hook that is starting may know the job
			h.startsThisRun, // may refuse it; no record of another run is used
			h.beginLate,     // a prologue or launch without a record begins the job
			h.isKnown,       // may answer it without a hook
			h.useRecord,     // may refuse it
			h.suspend,       // records a suspension, whatever hooks answer
		}
	case hostapi.StageEpilogue, hostapi.StageEnd:
		return []rule{
			h.findRecord,  // a hook that is starting may know the job
			h.isOfThisRun, // may accept it without a hook
			h.startExit,   // the record enters its last phase
		}
	}
	return []rule{
		h.dropJobs,     // they are no longer in MoM's list or files
		h.alterAll,     // records a qalter, which has no event
		h.followStates, // suspends or resumes jobs whose event no daemon answered
	}
}

// admit applies the rules of the event's stage. It returns the answer of the first rule that gives
// one, or nil if the hooks must be called.
func (h *Host) admit(ctx context.Context, e *event) (*Verdict, error) {
	for _, r := range h.rules(e.req.Event.Stage()) {
		if v, err := r(ctx, e); v != nil || err != nil {
			return v, err
		}
	}
	return nil, nil
}

// checkOwner refuses the begin of a job whose owner cannot be found, or whose `hookhost run` died
// while the event waited. In the latter case, a begin would only leave another run to end and
// report.
func (h *Host) checkOwner(_ context.Context, e *event) (*Verdict, error) {
	switch err := plugin.ResolveOwner(&e.req.Job.Owner); {
	case errors.Is(err, passwd.ErrServices):
		return nil, hostapi.Errorf(hostapi.KindNode, "%w", err)
	case err != nil:
		return nil, hostapi.Errorf(hostapi.KindJob, "%w", err)
	}
	if h.runnerGone(e.req.MoM) {
		return nil, hostapi.Errorf(hostapi.KindBusy, runnerDied)
	}
	return nil, nil
}

// findRecord gives the event the job's record, if there is one. A hook that has not started yet may
// find the job at its startup, so the event waits for that, at most StartTimeout.
func (h *Host) findRecord(ctx context.Context, e *event) (*Verdict, error) {
	e.rec = h.opt.Store.Get(e.req.Job.ID)
	if e.rec == nil {
		ctx, cancel := context.WithTimeout(ctx, h.opt.StartTimeout)
		defer cancel()
		e.unsure = h.startFinders(ctx)
		e.rec = h.opt.Store.Get(e.req.Job.ID)
	}
	return nil, nil
}

// startFinders returns once all hooks run that find jobs at their startup. By then, all jobs that
// had no record have one. On an error, a hook does not run, and there may be more jobs.
func (h *Host) startFinders(ctx context.Context) error {
	var errs []error
	for _, p := range h.plugins.List() {
		if p.Gets(hostapi.EventStartup) {
			errs = append(errs, p.Start(ctx))
		}
	}
	return errors.Join(errs...)
}

// isKnown answers an event of a job without a record. Its begin was never seen here, because
// hookhost was installed while the job ran, or the records were lost. pbs_mom does not send
// execjob_begin again (openpbs src/resmom/start_exec.c, start_exec).
//
//   - prologue, launch: an error that sends the job back to the queue, because it would start
//     unconfined. Jobs of pbs_mom are begun first (beginLate).
//   - attach, resize: an error; there is nothing to attach to.
//   - preterm, postsuspend, preresume: accepted without calling a hook. hookhost must not delay the
//     suspension, resumption or end of a job that it has not begun. A preresume is rejected if a
//     hook could not report its jobs: the job may be frozen, and nobody would thaw it.
//
// If none of hookhost's own hooks is on, prologue, launch, attach and resize of pbs_mom's jobs are
// accepted, too. Such a job goes on as it began, for example confined by pbs_cgroups.
//
// Epilogue, end and abort are also accepted, and hooks are called: tear-down is idempotent, and
// must remove whatever the hooks find (startExit).
func (h *Host) isKnown(_ context.Context, e *event) (*Verdict, error) {
	req := e.req
	if e.rec != nil {
		return nil, nil
	}
	if e.unsure != nil && req.Event == hostapi.EventPreresume {
		text := fmt.Sprintf("%s request rejected: the job may be frozen: %v", req.Event, e.unsure)
		return &Verdict{Kind: hostapi.KindNode, Outcome: &hostapi.Outcome{
			Reject: true, Message: hostapi.OneLine(text),
		}}, nil
	}
	switch {
	case e.from.pbs && !h.confines():
	case req.Event.Starts():
		return refuseStart(req, hostapi.KindNode, "the job had no execjob_begin on this host"), nil
	case req.Event.Refusable() && req.Event.Undo() == "":
		return nil, hostapi.Errorf(hostapi.KindJob, "no such job on this host")
	}
	return &Verdict{Outcome: &hostapi.Outcome{}}, nil
}

// confines reports whether any of hookhost's own hooks is on. [host] enabled = false turns all off.
func (h *Host) confines() bool {
	return slices.ContainsFunc(h.plugins.List(), func(p *plugin.Plugin) bool { return p.Hook().BuiltIn })
}

// useRecord refuses an event of an ending job, except execjob_preterm, and the launch of a task in
// a suspended job. MoM's only thread waits for the task's session without a limit (openpbs
// src/resmom/start_exec.c, start_process). A frozen task would never answer, so MoM could not
// resume the job. An attached process may freeze, because MoM does not wait for it. A refused task
// has no action for the job, which goes on or has ended. With rerun, PBS would run it again at its
// end.
//
// For a live job, hooks get the job in the record, with the time limits that a qalter has set.
func (h *Host) useRecord(_ context.Context, e *event) (*Verdict, error) {
	switch {
	case e.rec.Phase == hostapi.PhaseExiting && e.req.Event == hostapi.EventLaunch:
		return refuse(e.req, hostapi.KindJob, "the job is ending"), nil
	case e.rec.Phase == hostapi.PhaseExiting && e.req.Event != hostapi.EventPreterm:
		return nil, hostapi.Errorf(hostapi.KindJob, "the job is ending")
	case e.rec.Phase == hostapi.PhaseSuspended && e.req.Event == hostapi.EventLaunch:
		return refuse(e.req, hostapi.KindBusy, "the job is suspended"), nil
	}
	alter(e.rec, e.request())
	e.req.Job = jobOf(e.rec, e.req, h.clock.Now())
	return nil, nil
}

// suspend records a suspension before hooks are called. MoM has already suspended the job, and only
// logs a reject (openpbs src/resmom/requests.c, post_suspend).
func (h *Host) suspend(_ context.Context, e *event) (*Verdict, error) {
	if e.req.Event == hostapi.EventPostsuspend {
		now := h.clock.Now()
		h.change(func(rec *jobstate.Record) { advance(rec, e.req, now) }, e.req.Job.ID)
	}
	return nil, nil
}

// isOfThisRun accepts an event that pbs_mom sent before it began the job again, without calling a
// hook. The event was only read now, for example because the daemon was stopped. Events of
// different connections arrive in any order, and pbs_mom does not wait for an end (openpbs
// src/resmom/mom_hook_func.c, mom_process_hooks). Begin has already ended that run (standing).
func (h *Host) isOfThisRun(_ context.Context, e *event) (*Verdict, error) {
	if e.rec == nil || !e.rec.PBS || !isCounted(e.req.Job) || compareRuns(e.req.Job, e.rec.Job) >= 0 {
		return nil, nil
	}
	h.log.WithField("job", e.req.Job.ID).Warnf("%s of an earlier run comes late: the job has begun again since",
		e.req.Event)
	return &Verdict{Outcome: &hostapi.Outcome{}}, nil
}

// startExit moves the job's record to its last phase. pbs_mom sends end only once and does not wait
// for the answer (openpbs src/resmom/mom_hook_func.c, run_hook). If the host dies during end, the
// next one must notice. So the phase is stored before hooks are called. It is stored at epilogue,
// too: a periodic that is answered meanwhile must not report older usage (reported). `hookhost run`
// sends end again. Everything else is stored with the hooks' answers.
func (h *Host) startExit(_ context.Context, e *event) (*Verdict, error) {
	id := e.req.Job.ID
	h.timers.drop(id)
	if e.rec == nil {
		if err := plugin.ResolveOwner(&e.req.Job.Owner); err != nil {
			h.log.WithField("job", id).Debug(err) // hooks can tear down without the record
		}
		return nil, nil
	}
	e.markExiting(e.rec)
	if e.rec.Runner == nil {
		h.change(func(rec *jobstate.Record) {
			e.markExiting(rec)
			e.rec = rec // includes updates since it was read
		}, id)
	}
	e.req.Job = jobOf(e.rec, e.req, e.began)
	return nil, nil
}

// dropJobs ends jobs that pbs_mom no longer has, at its exechost_periodic and after its
// exechost_startup: see dropper.go.
func (h *Host) dropJobs(ctx context.Context, e *event) (*Verdict, error) {
	switch {
	case !e.from.pbs:
	case e.req.Event == hostapi.EventPeriodic:
		h.dropUnlisted(ctx, e.req.JobList, e.from.home)
	default:
		time.AfterFunc(dropAge, func() {
			h.goBackground(func() { h.dropForgotten(h.ctx, e.from.home) })
		})
	}
	return nil, nil
}
