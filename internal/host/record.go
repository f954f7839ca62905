package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
)

// record records the changes of the event and the hooks' answers, and adds the host's own messages
// to the verdict.
func (h *Host) record(ctx context.Context, e *event, v *Verdict) {
	switch e.req.Event.Stage() {
	case hostapi.StageBegin:
		h.recordBegin(ctx, e, v)
	case hostapi.StageRun:
		h.recordRun(ctx, e, v)
	case hostapi.StageEpilogue:
		h.recordEpilogue(e, v)
	case hostapi.StageEnd:
		v.fail(h.recordEnd(ctx, e))
	case hostapi.StageHost:
		h.update(e.chain, e.from)
		h.startUpLate(ctx, e, v)
	}
}

// recordBegin completes the record of a job that begins, or undoes the begin.
func (h *Host) recordBegin(ctx context.Context, e *event, v *Verdict) {
	if !v.Reject {
		now := h.clock.Now()
		advance(e.rec, e.req, now)
		recordAnswers(e.rec, h.opt.Node, e.chain, now)
		addLines(e.rec, v.JobStderr)
		noteSisters(e.rec, h.opt.Node, nil)
		err := h.replace(e.rec)
		if err == nil && !e.from.missed(e.req.Event, v) {
			h.watchRunner(e.req.Job.ID, e.req.MoM)
			return
		}
		if err != nil {
			// Without its record the job would belong to nobody, and everything created for it
			// would be orphaned.
			v.Reject, v.OnReject = true, hostapi.JobActionRerun
			v.Kind, v.Message = hostapi.KindNode, hostapi.OneLine(err.Error())
		}
	}
	if err := h.undo(ctx, e.chain, e.rec); err != nil {
		v.Add(err.Error())
	}
}

// undo reverses a begin that was not accepted. The record stays if something is left of the job.
// The next begin of the job, the next periodic or the next start of a host tries again.
func (h *Host) undo(ctx context.Context, c *chain, rec *jobstate.Record) error {
	err := c.undo(ctx)
	var left error
	if err != nil {
		left = h.fallback(ctx, rec.Job.ID, "hooks have not undone the begin")
	}
	err = errors.Join(err, left)
	if left == nil {
		return errors.Join(err, h.forget(rec.Job.ID))
	}
	enterExiting(rec, &hostapi.Request{Job: &hostapi.Job{}}, true, h.clock.Now())
	return errors.Join(err, h.replace(rec))
}

// recordRun records an event between begin and epilogue.
func (h *Host) recordRun(ctx context.Context, e *event, v *Verdict) {
	if e.req.Event.Refusable() && e.req.Event.Undo() != "" {
		e.from.missed(e.req.Event, v) // of a preresume: the job stays suspended, so its clock must not run
	}
	if v.Reject && e.rec.Phase == hostapi.PhaseSuspended && e.req.Event.Undo() != "" {
		if err := e.chain.undo(ctx); err != nil {
			v.Add(err.Error())
		}
	}
	e.late.passOn(v)
	now := h.clock.Now()
	h.change(func(rec *jobstate.Record) {
		if !v.Reject || e.req.Event == hostapi.EventPostsuspend { // postsuspend reports what MoM has already done
			advance(rec, e.req, now)
		}
		if !v.Reject && e.req.Event == hostapi.EventLaunch && rec.LaunchEnv == nil {
			rec.LaunchEnv = launchEnv(e.req, v.Outcome)
		}
		alter(rec, e.request())
		recordAnswers(rec, h.opt.Node, e.chain, now)
		addLines(rec, v.JobStderr)
	}, e.req.Job.ID)
}

// recordEpilogue records the end of the job's leading program. MoM sends one more event.
func (h *Host) recordEpilogue(e *event, v *Verdict) {
	if e.rec == nil {
		return
	}
	used := h.sisterUsage(e.rec)
	h.change(func(rec *jobstate.Record) {
		e.markExiting(rec)
		recordAnswers(rec, h.opt.Node, e.chain, h.clock.Now())
		noteSisters(rec, h.opt.Node, used)
		e.rec = rec // includes updates since it was read
	}, e.req.Job.ID)
	addTold(v.Outcome, e.rec, h.opt.Node)
}

// recordEnd archives the job after its last event, unless its hooks failed or are gone, and the
// host's own removal failed. Then the record of the ending job stays, with everything known so far.
// It also stays if the report cannot be written. Reconcile ends the job again, at each periodic and
// when a host starts. The tear-down continues after failures and joins the errors.
func (h *Host) recordEnd(ctx context.Context, e *event) error {
	var left error
	if e.chain.failures() != nil || h.isOrphan(e) {
		why, note := h.unclean(e)
		left = h.fallback(ctx, e.req.Job.ID, why)
		if left == nil && e.rec != nil {
			e.rec.AddNote(note)
		}
	}
	if e.rec == nil {
		return left
	}
	h.countingKills(e.rec, func(rec *jobstate.Record) {
		e.markExiting(rec)
		recordAnswers(rec, h.opt.Node, e.chain, h.clock.Now())
	})
	if left == nil {
		if left = h.archive(e.rec, e.req.Event); left == nil {
			return nil
		}
	}
	return errors.Join(left, h.replace(e.rec))
}

// unclean returns why the host removes what the job left, for the log and for the job's owner. If
// only site's hooks have failed, those of hookhost have cleaned up. The host still removes what may
// be left, because a site's hook may have been the only one.
func (h *Host) unclean(e *event) (why, note string) {
	var failed []string
	for _, a := range e.chain.answers {
		if a.err != nil {
			failed = append(failed, fmt.Sprintf("hook '%s' failed at %s", a.hook, e.req.Event))
		}
		if a.err != nil && a.link.Hook().BuiltIn {
			failed = nil
			break
		}
	}
	if len(failed) == 0 || h.isOrphan(e) {
		return "no hook has cleaned up", "hookhost removed what the job left, because no hook did"
	}
	why = strings.Join(failed, "; ")
	return why, why
}

// isOrphan reports whether no built-in hook is left to end a job that hooks have measured, so that
// it has a cgroup. This happens when [host] enabled becomes false while the job runs. A site's hook
// does not remove the cgroup.
func (h *Host) isOrphan(e *event) bool {
	ended := slices.ContainsFunc(e.chain.answers, func(a answer) bool { return a.link.Hook().BuiltIn })
	return e.rec != nil && e.rec.Hosts[h.opt.Node] != nil && !ended
}

// request returns the job with its current request, nil if the event does not carry that.
func (e *event) request() *hostapi.Job {
	if !alters(e.req.Event) {
		return nil
	}
	return e.told.Job
}

// isLast reports whether no event of the job follows.
func (e *event) isLast() bool { return e.req.Event.Stage() == hostapi.StageEnd }

// markExiting moves the record to its last phase.
func (e *event) markExiting(rec *jobstate.Record) { enterExiting(rec, &e.told, e.isLast(), e.began) }

// The functions below decide how an event changes a job's record. They have no other effect.

// endTimer is the key of Record.Timers for the time at which execjob_end began. MoM sends end only
// once, even if the host dies during it. So the host that finds the record finishes the job. No
// hook has this name.
const endTimer = ""

// advance moves the record to the phase that follows the accepted event.
func advance(rec *jobstate.Record, req *hostapi.Request, now jobstate.Moment) {
	switch req.Event {
	case hostapi.EventBegin:
		rec.Begun = now.Wall
	case hostapi.EventPrologue:
		rec.Kept = rec.PBS
	case hostapi.EventLaunch, hostapi.EventAttach:
		// A sister may never see a launch: there, the first attached process is the job's start.
		if rec.Launched.IsZero() {
			rec.Launched = now
		}
		if rec.Phase == hostapi.PhasePrerun {
			rec.Phase = hostapi.PhaseRunning
		}
		if req.Event == hostapi.EventLaunch && rec.Job.SessionID == 0 {
			rec.Job.SessionID = cmp.Or(req.Job.SessionID, req.PID)
		}
		if req.Event == hostapi.EventLaunch { // PBS does not send it with begin
			rec.Job.KillDelay = req.Job.KillDelay
		}
	case hostapi.EventPostsuspend:
		if rec.Phase == hostapi.PhasePrerun || rec.Phase == hostapi.PhaseRunning { // a sister may launch nothing
			rec.Phase, rec.SuspendedAt = hostapi.PhaseSuspended, now
		}
	case hostapi.EventPreresume:
		resume(rec, now)
	case hostapi.EventPreterm: // for the SIGTERM that comes next
		resume(rec, now)
		rec.Terminated = true
	case hostapi.EventResize:
		job := *req.Job
		job.Phase, job.Elapsed = "", 0 // the record has both
		rec.Job = &job
	}
}

// enterExiting moves the record to its last phase; last means that no event follows.
func enterExiting(rec *jobstate.Record, req *hostapi.Request, last bool, now jobstate.Moment) {
	resume(rec, now)
	rec.Phase = hostapi.PhaseExiting
	if rec.Suspended > 0 {
		seconds := rec.Suspended.Seconds()
		rec.AddNote(fmt.Sprintf("suspended for %.1f seconds in all, which do not count as walltime", seconds))
	}
	if rec.Ended.IsZero() {
		rec.Ended = now
	}
	if req.Job.ExitStatus != nil {
		rec.ExitStatus = req.Job.ExitStatus
	}
	// Hooks take precedence over MoM's own measurements, such as walltime, before and after. A
	// sister's MoM does not count walltime and reports zero.
	for name, value := range req.Job.ResourcesUsed {
		if _, told := rec.ResourcesUsed[name]; told || name == "walltime" && !req.Job.MotherSuperior {
			continue
		}
		if name == "walltime" {
			value = walltime(rec, value)
		}
		put(&rec.ResourcesUsed, name, value)
	}
	if _, begun := rec.Timers[endTimer]; begun {
		return
	}
	rec.Timers = nil // the job is over, so no hook is called for it
	if last {
		rec.Timers = map[string]jobstate.Timer{endTimer: {At: now}}
	}
}

// resume ends a suspension. Time before the first launch does not count.
func resume(rec *jobstate.Record, now jobstate.Moment) {
	if rec.Phase != hostapi.PhaseSuspended {
		return
	}
	rec.Phase = hostapi.PhasePrerun
	if !rec.Launched.IsZero() {
		rec.Phase = hostapi.PhaseRunning
		since := rec.SuspendedAt
		if since.Sub(rec.Launched) < 0 {
			since = rec.Launched
		}
		rec.Suspended += max(now.Sub(since), 0)
	}
	rec.SuspendedAt = jobstate.Moment{}
}
