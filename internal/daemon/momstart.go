package daemon

import (
	"errors"
	"io/fs"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/proc"
)

// starts is host.Options.PBSStarts. A child of a dead pbs_mom goes on with the job's prologue and
// launch, and then runs its program (openpbs src/resmom/start_exec.c, finish_exec). Up to then that
// child is a process of MoM's own program, and older than the pbs_mom of now.
func (m *pbsMoM) starts(job *hostapi.Job, home string, mom hostapi.ProcessID) (bool, error) {
	if err := hostapi.CheckJobID(job.ID); err != nil {
		return false, err
	}
	if has, err := pbs.MoMHasTask(home, job.ID); err != nil || has {
		return has, err
	}
	program, err := m.programOf(mom.PID)
	if err != nil {
		return false, err
	}
	names, err := m.procfs.Dirs(".")
	if err != nil {
		return false, err
	}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if other, err := m.programOf(pid); err != nil || other != program {
			if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ESRCH) { // the kernel's, or gone
				return false, err
			}
			continue
		}
		p, err := proc.Read(m.procfs, pid)
		if err == nil && p.StartTime < mom.StartTime {
			return true, nil
		}
	}
	return false, nil
}

// programOf is the path of a process's program, also where another has taken its place since.
func (m *pbsMoM) programOf(pid int) (string, error) {
	path, err := m.procfs.Readlink(strconv.Itoa(pid) + "/exe")
	return strings.TrimSuffix(path, " (deleted)"), err
}
