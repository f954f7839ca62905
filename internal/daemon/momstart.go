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

// starts implements host.Options.PBSStarts. A child of a dead pbs_mom continues with the job's
// prologue and launch, and then runs its program (openpbs src/resmom/start_exec.c, finish_exec).
// Until then that child still runs MoM's program, and is older than the current pbs_mom.
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
			if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ESRCH) { // of the kernel, or gone
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

// programOf returns the path of a process's program, even if the file has been replaced since.
func (m *pbsMoM) programOf(pid int) (string, error) {
	path, err := m.procfs.Readlink(strconv.Itoa(pid) + "/exe")
	return strings.TrimSuffix(path, " (deleted)"), err
}
