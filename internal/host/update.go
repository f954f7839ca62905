package host

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/usage"
)

// The functions of this file decide what hooks' answers change in a job's record. They have no
// other effect.

// recordAnswers records the hooks' answers to an event of the job.
func recordAnswers(rec *jobstate.Record, node string, c *chain, now jobstate.Moment) {
	for _, a := range c.answers {
		if a.out.State != nil {
			put(&rec.HookState, a.hook, a.out.State)
		}
		if a.out.AttachEnv != nil && !c.verdict.Reject {
			put(&rec.AttachEnv, a.hook, a.out.AttachEnv)
		}
		if rec.Phase != hostapi.PhaseExiting {
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
	if rec.Phase == hostapi.PhaseExiting {
		return // epilogue's report is newer
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

// limitOf returns the limit to record for a limit that a hook reported. It is nil if nothing limits
// the job.
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

// maxDiag bounds the diagnostics of a job in bytes. Each hook may add to them at any event.
const maxDiag = 16 << 10

// fold folds measurements and remarks into the record.
func fold(rec *jobstate.Record, node string, u *hostapi.JobUpdate) {
	for name, value := range u.ResourcesUsed {
		put(&rec.ResourcesUsed, name, value)
	}
	if u.Usage != nil {
		put(&rec.Hosts, node, usage.Fold(rec.Hosts[node], u.Usage))
	}
	if u.Diag != "" && !strings.Contains(rec.Diag[node], u.Diag) {
		put(&rec.Diag, node, hostapi.Clip(joinLines(rec.Diag[node], u.Diag), maxDiag))
	}
	rec.AddNotes(u.Notes)
	if u.WalltimeLimit != nil {
		rec.WalltimeLimit = limitOf(u.WalltimeLimit)
	}
}

// For a job of pbs_mom, cpupercent is how busy the job was since the last report to MoM, as in MoM
// itself (openpbs src/resmom/mom_main.c, calc_cpupercent). Hooks report the value of the whole run,
// because they may be called in between for other reasons.

// shortest is the shortest time for which a cpu share is meaningful.
const shortest = time.Second

// cpuPercent replaces cpupercent in the findings about a job of pbs_mom, if its hook has also
// counted cpu time. Idempotent.
func cpuPercent(rec *jobstate.Record, u *hostapi.JobUpdate, now jobstate.Moment) {
	_, has := u.ResourcesUsed["cpupercent"]
	if !has || !underPBS(rec) || u.Usage == nil || u.Usage.CPUTSeconds == nil {
		return
	}
	last := rec.Reported
	ran, used := rec.Elapsed(now)-last.Elapsed, *u.Usage.CPUTSeconds-last.CPUTSeconds
	percent := last.Percent
	switch {
	case ran >= shortest:
		percent = int(math.Round(100 * max(used, 0) / ran.Seconds()))
	case last.Elapsed == 0:
		return // the job is too short
	}
	u.ResourcesUsed["cpupercent"] = strconv.Itoa(percent)
}

// reported notes that the findings of periodic about the job are being reported to MoM. The update
// also gets the diagnostics of earlier events, which MoM may not have yet, and the usage that they
// measured. If the epilogue came first, the update has no usage, because MoM would replace the
// epilogue's with it.
func reported(rec *jobstate.Record, node string, c *chain, now jobstate.Moment) {
	u := c.merged.out.Jobs[rec.Job.ID]
	if u == nil || !underPBS(rec) {
		return
	}
	u.Diag = rec.Diag[node]
	if rec.Phase == hostapi.PhaseExiting {
		u.ResourcesUsed = nil
		return
	}
	sample := u.Usage
	if all := rec.Hosts[node]; all != nil {
		u.Usage = all
	}
	percent, err := strconv.Atoi(u.ResourcesUsed["cpupercent"])
	if err != nil || sample == nil || sample.CPUTSeconds == nil {
		return
	}
	last := rec.Reported
	if ran := rec.Elapsed(now); ran-last.Elapsed >= shortest {
		used := max(*sample.CPUTSeconds, last.CPUTSeconds)
		rec.Reported = jobstate.Reported{CPUTSeconds: used, Elapsed: ran, Percent: percent}
	}
}

// addLines adds lines for the job's standard error to the record of a job of pbs_mom. MoM accepts
// no such lines at the event that produced them. MoM gets them with epilogue (addTold).
func addLines(rec *jobstate.Record, lines []string) {
	if rec.PBS {
		rec.AddLines(lines)
	}
}

// underPBS reports whether pbs_mom, or another MoM that sends its own events to this host, is
// responsible for the job.
func underPBS(rec *jobstate.Record) bool { return rec.Runner == nil }
