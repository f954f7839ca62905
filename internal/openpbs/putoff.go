package openpbs

import (
	"strconv"
	"strings"
	"time"
)

// A job that finds its place occupied by another is sent again immediately a few times, because the
// other job is usually about to end. After that it waits between two attempts.
const (
	sentAtOnce = 10
	putOffFor  = 30 * time.Second
)

// PutOff extends the changes of a begin that was rejected because other jobs occupy the place. The
// server counts each run when it sends the job, and holds the job at the 21st
// (src/server/req_runjob.c, svr_strtjob2, check_failed_attempts). This run is not counted. From the
// 11th run on, the job also waits for half a minute, in state W, as after a failed stage-in.
//
// A subjob cannot wait: if all remaining subjobs wait, the server considers the array finished. So
// its runs are counted from the 11th on. A PBS without run_version lets nobody lower run_count
// (src/resmom/mom_hook_func.c, get_hook_results).
func (e *Event) PutOff(c *Changes, now time.Time) {
	job := e.Request.Job
	waits, isSubjob := job.RunVersion > sentAtOnce, strings.Contains(job.ID, "[")
	if job.RunVersion < 1 || job.RunCount < 1 || waits && isSubjob {
		return
	}
	c.Log(setLevel+"run_count", strconv.Itoa(job.RunCount-1))
	if waits {
		c.Log(setLevel+"Execution_Time", strconv.FormatInt(now.Add(putOffFor).Unix(), 10))
	}
}
