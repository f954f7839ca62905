package host

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/usage"
)

// The functions of this file decide how an event changes a job's record. They have no other effect.

// endTimer is the key of Record.Timers for the time at which execjob_end began. MoM sends end only
// once, even if the host dies during it. So whoever finds the record finishes the job. No hook has
// this name.
const endTimer = ""

// jobOf returns the job of an event as hooks get it: as it was at begin, updated with what later
// events may change. Attach comes from users and can change nothing.
func jobOf(rec *jobstate.Record, req *hostapi.Request, now jobstate.Moment) *hostapi.Job {
	job := *rec.Job
	job.ResourcesUsed = maps.Clone(rec.ResourcesUsed)
	job.Phase, job.Elapsed = rec.Phase, rec.Elapsed(now)
	told := req.Job
	if req.Event == hostapi.EventAttach || told == nil {
		return &job
	}
	if told.SessionID != 0 {
		job.SessionID = told.SessionID
	}
	if told.ExitStatus != nil {
		job.ExitStatus = told.ExitStatus
	}
	if told.KillDelay != nil {
		job.KillDelay = told.KillDelay
	}
	if req.Event == hostapi.EventResize {
		for _, s := range []struct{ to, from *string }{
			{&job.ExecVnode, &told.ExecVnode}, {&job.ExecHost2, &told.ExecHost2}, {&job.Schedselect, &told.Schedselect},
		} {
			if *s.from != "" {
				*s.to = *s.from
			}
		}
		if told.ResourceList != nil {
			job.ResourceList = told.ResourceList
		}
	}
	return &job
}

// jobInList returns the job's entry in a JobList for the hook.
func jobInList(rec *jobstate.Record, hook string, now jobstate.Moment) *hostapi.Job {
	job := *rec.Job
	job.ResourcesUsed, job.ExitStatus, job.State = rec.ResourcesUsed, rec.ExitStatus, rec.HookState[hook]
	job.Phase, job.Elapsed = rec.Phase, rec.Elapsed(now)
	return &job
}

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
		if rec.Phase == jobstate.PhasePrerun {
			rec.Phase = jobstate.PhaseRunning
		}
		if req.Event == hostapi.EventLaunch && rec.Job.SessionID == 0 {
			rec.Job.SessionID = cmp.Or(req.Job.SessionID, req.PID)
		}
		if req.Event == hostapi.EventLaunch { // PBS does not send it with begin
			rec.Job.KillDelay = req.Job.KillDelay
		}
	case hostapi.EventPostsuspend:
		if rec.Phase == jobstate.PhasePrerun || rec.Phase == jobstate.PhaseRunning { // a sister may launch nothing
			rec.Phase, rec.SuspendedAt = jobstate.PhaseSuspended, now
		}
	case hostapi.EventPreresume, hostapi.EventPreterm: // preterm: for the SIGTERM that comes next
		resume(rec, now)
	case hostapi.EventResize:
		job := *req.Job
		job.Phase, job.Elapsed = "", 0 // the record has both
		rec.Job = &job
	}
}

// enterExiting moves the record to its last phase; last means that no event follows.
func enterExiting(rec *jobstate.Record, req *hostapi.Request, last bool, now jobstate.Moment) {
	resume(rec, now)
	rec.Phase = jobstate.PhaseExiting
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

// walltime returns the walltime that counts, given the value from a MoM. The value from `hookhost
// run` includes suspensions, which are subtracted here. The job cannot have run longer than the
// host's own count. But no more than its suspensions is subtracted, whatever the clock did.
func walltime(rec *jobstate.Record, told string) string {
	d, err := pbs.ParseDuration(told)
	if err != nil || rec.Launched.IsZero() {
		return told
	}
	counted := rec.Elapsed(rec.Ended)
	switch {
	case rec.PBS:
		return walltimeOfPBS(rec, d, counted)
	case rec.MoM == nil || rec.Suspended <= 0 || counted >= d:
		return told
	}
	return pbs.FormatDuration(max(counted, d-rec.Suspended, 0))
}

// rounding is the allowed difference between the counts of pbs_mom and of the host. pbs_mom counts
// whole seconds, begins after the launch and stops before the epilogue.
const rounding = 3 * time.Second

// walltimeOfPBS returns pbs_mom's count if the host's agrees, else the host's. After a restart,
// pbs_mom's count lacks the time since its last job_save, or includes suspensions (openpbs
// src/resmom/mom_walltime.c, recover_walltime). $wallmult also changes that count. The host's count
// is too short for a job whose record was lost.
func walltimeOfPBS(rec *jobstate.Record, told, counted time.Duration) string {
	if (counted-told).Abs() <= rounding || slices.Contains(rec.Notes, lostRecord) {
		return pbs.FormatDuration(told)
	}
	rec.AddNote(fmt.Sprintf("pbs_mom counted a walltime of %s: so it stands in qstat and accounting",
		pbs.FormatDuration(told)))
	return pbs.FormatDuration(counted)
}

// resume ends a suspension. Time before the first launch does not count.
func resume(rec *jobstate.Record, now jobstate.Moment) {
	if rec.Phase != jobstate.PhaseSuspended {
		return
	}
	rec.Phase = jobstate.PhasePrerun
	if !rec.Launched.IsZero() {
		rec.Phase = jobstate.PhaseRunning
		since := rec.SuspendedAt
		if since.Sub(rec.Launched) < 0 {
			since = rec.Launched
		}
		rec.Suspended += max(now.Sub(since), 0)
	}
	rec.SuspendedAt = jobstate.Moment{}
}

// recordAnswers records the hooks' answers to an event of the job.
func recordAnswers(rec *jobstate.Record, node string, c *chain, now jobstate.Moment) {
	for _, a := range c.answers {
		if a.out.State != nil {
			put(&rec.HookState, a.hook, a.out.State)
		}
		if a.out.AttachEnv != nil && !c.verdict.Reject {
			put(&rec.AttachEnv, a.hook, a.out.AttachEnv)
		}
		if rec.Phase != jobstate.PhaseExiting {
			callAt(rec, a.hook, a.out.CallAgain, a.out.CallAtElapsed, now)
		}
	}
	o := &c.merged.out
	u := &hostapi.JobUpdate{
		ResourcesUsed: o.ResourcesUsed,
		Usage:         o.Usage,
		Diag:          o.Diag,
		Notes:         o.Notes,
		WalltimeLimit: o.WalltimeLimit,
	}
	cpuPercent(rec, u, now)
	fold(rec, node, u)
}

// recordUpdates records the findings of startup or periodic about the job. If an event has changed
// a hook's state since the hook got it, that event also decides about state, timer and limit.
func recordUpdates(rec *jobstate.Record, node string, c *chain, now jobstate.Moment) {
	if rec.Phase == jobstate.PhaseExiting {
		return // what epilogue reported is newer
	}
	id := rec.Job.ID
	limit := rec.WalltimeLimit
	for _, a := range c.answers {
		u := a.out.Jobs[id]
		if u == nil || !bytes.Equal(rec.HookState[a.hook], a.before[id]) {
			continue
		}
		if u.State != nil {
			put(&rec.HookState, a.hook, u.State)
		}
		if _, set := rec.AttachEnv[a.hook]; !set && u.AttachEnv != nil {
			// An existing value comes from begin or a resize, perhaps after the hook was asked.
			put(&rec.AttachEnv, a.hook, u.AttachEnv)
		}
		if u.WalltimeLimit != nil {
			limit = u.WalltimeLimit
		}
		callAt(rec, a.hook, u.CallAgain, u.CallAtElapsed, now)
	}
	if u := c.merged.out.Jobs[id]; u != nil {
		cpuPercent(rec, u, now)
		fold(rec, node, u)
		rec.AddLines(u.JobStderr)
	}
	rec.WalltimeLimit = limitOf(limit)
}

// limitOf returns the limit to record for one that a hook reported: nil if nothing limits the job.
func limitOf(told *time.Duration) *time.Duration {
	if told == nil || *told == 0 {
		return nil
	}
	return told
}

// callAt records when a hook asked to be called for the job, if it did. This replaces an earlier
// request of the hook.
func callAt(rec *jobstate.Record, hook string, again, elapsed time.Duration, now jobstate.Moment) {
	switch {
	case again > 0:
		put(&rec.Timers, hook, jobstate.Timer{At: now.Add(again)})
	case elapsed > 0:
		put(&rec.Timers, hook, jobstate.Timer{Elapsed: elapsed})
	}
}

// fold folds measurements and remarks into the record.
func fold(rec *jobstate.Record, node string, u *hostapi.JobUpdate) {
	for name, value := range u.ResourcesUsed {
		put(&rec.ResourcesUsed, name, value)
	}
	if u.Usage != nil {
		put(&rec.Hosts, node, usage.Fold(rec.Hosts[node], u.Usage))
	}
	if u.Diag != "" && !strings.Contains(rec.Diag[node], u.Diag) {
		put(&rec.Diag, node, joinLines(rec.Diag[node], u.Diag))
	}
	for _, note := range u.Notes {
		rec.AddNote(note)
	}
	if u.WalltimeLimit != nil {
		rec.WalltimeLimit = limitOf(u.WalltimeLimit)
	}
}

func cloneStates(rec *jobstate.Record) map[string]json.RawMessage {
	if rec == nil {
		return nil
	}
	return maps.Clone(rec.HookState)
}
