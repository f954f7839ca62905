package daemon

import (
	"strings"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/plugin"
	"github.com/hookhost/hookhost/internal/proc"
)

// appendStderr appends lines to the standard error of a job of pbs_mom, on its mother superior. A
// hook cannot pass them to MoM, which copies the file to its destination after epilogue.
func (m *pbsMoM) appendStderr(job *hostapi.Job, lines []string) error {
	path := job.StderrFile
	if job.JoinPath == "oe" {
		path = job.StdoutFile
	}
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
