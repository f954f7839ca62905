package host

import (
	"fmt"
	"slices"
	"time"

	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/pbs"
)

// walltime returns the valid walltime, given the value from a MoM. The value from `hookhost run`
// includes suspensions, which are subtracted here. The job cannot have run longer than the host has
// counted. Even if the clock was set, no more than the suspensions is subtracted.
func walltime(rec *jobstate.Record, told string) string {
	d, err := pbs.ParseDuration(told)
	if err != nil || rec.Launched.IsZero() {
		return told
	}
	counted := rec.Elapsed(rec.Ended)
	switch {
	case rec.PBS:
		return walltimeOfPBS(rec, d, counted)
	case rec.Runner == nil || rec.Suspended <= 0 || counted >= d:
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
