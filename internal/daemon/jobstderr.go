package daemon

import (
	"os"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/plugin"
	"github.com/hookhost/hookhost/internal/proc"
	"github.com/hookhost/hookhost/internal/report"
)

// summary returns the lines about a job's usage that [reports] asks for, at its epilogue. A job
// whose standard error is a terminal, which is gone by then, or /dev/null has none.
func (m *pbsMoM) summary(job *hostapi.Job) []string {
	path := stderrOf(job)
	if m.conf.file.Load().Reports.JobStderr != "summary" || !job.MotherSuperior || path == os.DevNull ||
		strings.HasPrefix(path, "/dev/pts/") {
		return nil
	}
	rec := m.store.Get(job.ID)
	if rec == nil {
		return nil
	}
	return report.FromRecord(rec, rec.Ended.Wall, rec.Elapsed(rec.Ended)).Summary()
}

// stderrOf returns the file to which the job's standard error goes.
func stderrOf(job *hostapi.Job) string {
	if job.JoinPath == "oe" {
		return job.StdoutFile
	}
	return job.StderrFile
}

// appendStderr appends lines to the standard error of a job of pbs_mom, on its mother superior. A
// hook cannot pass them to MoM, which copies the file to its destination after epilogue.
func (m *pbsMoM) appendStderr(job *hostapi.Job, lines []string) error {
	path := stderrOf(job)
	if len(lines) == 0 || !job.MotherSuperior || path == "" {
		return nil
	}
	owner := job.Owner
	if rec := m.store.Get(job.ID); rec != nil {
		owner = rec.Job.Owner
	}
	if err := plugin.ResolveOwner(&owner); err != nil {
		return err
	}
	return proc.AppendAs(owner.UID, owner.GID, path, strings.Join(lines, "\n")+"\n")
}
