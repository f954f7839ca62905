package host

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/usage"
)

// What follows decides, without doing anything, how an event changes a job's record.

// endTimer is the key of Record.Timers that says since when execjob_end is being carried out. MoM sends it once and
// not again to a host that died over it, so whoever finds the record finishes the job. No hook has this name.
const endTimer = ""

// jobOf returns the job of an event as hooks are to see it: as it was at begin, with what events may tell anew.
// Attach is asked for by users, who are believed nothing.
func jobOf(rec *jobstate.Record, req *hostapi.Request) *hostapi.Job {
	job := *rec.Job
	job.ResourcesUsed = maps.Clone(rec.ResourcesUsed)
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

// listed returns the job as it stands in a JobList for the hook.
func listed(rec *jobstate.Record, hook string) *hostapi.Job {
	job := *rec.Job
	job.ResourcesUsed, job.ExitStatus, job.State = rec.ResourcesUsed, rec.ExitStatus, rec.HookState[hook]
	return &job
}

// advance moves the record to the phase that the accepted event leads to.
func advance(rec *jobstate.Record, req *hostapi.Request, now time.Time) {
	switch req.Event {
	case hostapi.EventBegin:
		rec.Begun = now
	case hostapi.EventLaunch, hostapi.EventAttach:
		// A sister host may never see a launch: there the first process taken in is the job's start.
		if rec.Launched.IsZero() {
			rec.Launched = now
		}
		if rec.Phase == jobstate.PhasePrerun {
			rec.Phase = jobstate.PhaseRunning
		}
		if req.Event == hostapi.EventLaunch && rec.Job.SessionID == 0 {
			rec.Job.SessionID = req.PID
		}
	case hostapi.EventPostsuspend:
		if rec.Phase == jobstate.PhaseRunning {
			rec.Phase, rec.SuspendedAt = jobstate.PhaseSuspended, now
		}
	case hostapi.EventPreresume:
		resume(rec, now)
	case hostapi.EventResize:
		rec.Job = req.Job
	}
}

// exiting moves the record to its last phase; last says that no event follows.
func exiting(rec *jobstate.Record, req *hostapi.Request, last bool, now time.Time) {
	resume(rec, now)
	rec.Phase = jobstate.PhaseExiting
	if rec.Ended.IsZero() {
		rec.Ended = now
	}
	if req.Job.ExitStatus != nil {
		rec.ExitStatus = req.Job.ExitStatus
	}
	// What MoM measures itself, as walltime. Hooks overrule it, before and after.
	for name, value := range req.Job.ResourcesUsed {
		if _, told := rec.ResourcesUsed[name]; !told {
			if name == "walltime" {
				value = walltime(rec, value)
			}
			put(&rec.ResourcesUsed, name, value)
		}
	}
	if _, begun := rec.Timers[endTimer]; begun {
		return
	}
	rec.Timers = nil // nobody asked to be called for a job that is over
	if last {
		rec.Timers = map[string]time.Time{endTimer: now}
	}
}

// walltime returns what counts of the walltime that a MoM told. pbs_mom leaves out suspensions itself. A MoM of ours leaves out
// those that it knows of, and other ones may have come as events from elsewhere: what the host has counted is the longest
// that the job can have run. Not more than its suspensions is taken off, whatever the clock has done.
func walltime(rec *jobstate.Record, told string) string {
	d, err := pbs.ParseDuration(told)
	if err != nil || rec.MoM == nil || rec.Suspended <= 0 || rec.Launched.IsZero() {
		return told
	}
	counted := rec.Ended.Sub(rec.Launched) - rec.Suspended
	if counted >= d {
		return told
	}
	return pbs.FormatDuration(max(counted, d-rec.Suspended, 0))
}

func resume(rec *jobstate.Record, now time.Time) {
	if rec.Phase != jobstate.PhaseSuspended {
		return
	}
	rec.Phase = jobstate.PhaseRunning
	rec.Suspended += max(now.Sub(rec.SuspendedAt), 0)
	rec.SuspendedAt = time.Time{}
}

// take notes what the hooks answered to an event of the job.
func take(rec *jobstate.Record, node string, c *chain, now time.Time) {
	for _, a := range c.answers {
		if a.out.State != nil {
			put(&rec.HookState, a.hook, a.out.State)
		}
		if a.out.CallAgain > 0 && rec.Phase != jobstate.PhaseExiting {
			put(&rec.Timers, a.hook, now.Add(a.out.CallAgain))
		}
	}
	o := &c.merged.out
	found(rec, node, &hostapi.JobUpdate{ResourcesUsed: o.ResourcesUsed, Usage: o.Usage, Diag: o.Diag, Notes: o.Notes})
}

// takeUpdates notes what startup or periodic found out about the job. A hook's state is dropped if an event has
// changed it since the hook got it.
func takeUpdates(rec *jobstate.Record, node string, c *chain, now time.Time) {
	if rec.Phase == jobstate.PhaseExiting {
		return // what epilogue has told is newer
	}
	id := rec.Job.ID
	for _, a := range c.answers {
		u := a.out.Jobs[id]
		if u == nil {
			continue
		}
		if u.State != nil && bytes.Equal(rec.HookState[a.hook], a.before[id]) {
			put(&rec.HookState, a.hook, u.State)
		}
		if u.CallAgain > 0 {
			put(&rec.Timers, a.hook, now.Add(u.CallAgain))
		}
	}
	if u := c.merged.out.Jobs[id]; u != nil {
		found(rec, node, u)
		tellJob(rec, u.JobStderr)
	}
}

// found folds measurements and remarks into the record.
func found(rec *jobstate.Record, node string, u *hostapi.JobUpdate) {
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
		addNote(rec, note)
	}
}

func addNote(rec *jobstate.Record, note string) {
	if !slices.Contains(rec.Notes, note) {
		rec.Notes = append(rec.Notes, note)
	}
}

func cloneStates(rec *jobstate.Record) map[string]json.RawMessage {
	if rec == nil {
		return nil
	}
	return maps.Clone(rec.HookState)
}
