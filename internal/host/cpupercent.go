package host

import (
	"math"
	"strconv"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
)

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
// also gets the diagnostics of earlier events, which MoM may not have yet. If the epilogue came
// first, the update has no usage, because MoM would replace the epilogue's with it.
func reported(rec *jobstate.Record, node string, c *chain, now jobstate.Moment) {
	u := c.merged.out.Jobs[rec.Job.ID]
	if u == nil || !underPBS(rec) {
		return
	}
	u.Diag = rec.Diag[node]
	if rec.Phase == jobstate.PhaseExiting {
		u.ResourcesUsed = nil
		return
	}
	percent, err := strconv.Atoi(u.ResourcesUsed["cpupercent"])
	if err != nil || u.Usage == nil || u.Usage.CPUTSeconds == nil {
		return
	}
	last := rec.Reported
	if ran := rec.Elapsed(now); ran-last.Elapsed >= shortest {
		used := max(*u.Usage.CPUTSeconds, last.CPUTSeconds)
		rec.Reported = jobstate.Reported{CPUTSeconds: used, Elapsed: ran, Percent: percent}
	}
}
