package host

import (
	"math"
	"strconv"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
)

// cpupercent of a job of pbs_mom is how busy the job was since MoM was last told, as MoM's own is
// (openpbs src/resmom/mom_main.c, calc_cpupercent). Hooks give that of the whole run, since they
// may be called in between for other reasons.

// shortest is the least time of which a share says something.
const shortest = time.Second

// cpuPercent replaces cpupercent in what was found out about a job of pbs_mom, if its hook has
// counted cpu time too. Idempotent.
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
		return // the job is that short
	}
	u.ResourcesUsed["cpupercent"] = strconv.Itoa(percent)
}

// reported notes that MoM is being told what periodic found out about the job. The update also gets
// the diagnostics of notices, which MoM does not have yet.
func reported(rec *jobstate.Record, node string, c *chain, now jobstate.Moment) {
	u := c.merged.out.Jobs[rec.Job.ID]
	if u == nil || rec.Phase == jobstate.PhaseExiting || !underPBS(rec) {
		return
	}
	u.Diag = rec.Diag[node]
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
