package pbs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// workdir is the directory below its home in which pbs_mom runs its hooks (openpbs
// src/resmom/mom_hook_func.c, run_hook).
const workdir = "/mom_priv/hooks/tmp"

// Links are the links of /proc.
type Links interface {
	Readlink(name string) (string, error)
	Path(name string) string
}

// HomeOfHook returns the home of the pbs_mom that runs a process as its hook: a host may have
// several. The working directory of the process tells it. configured returns the home that is
// configured, which counts where the process runs elsewhere, or where that home is the same
// directory by another name. A home that this process cannot look into, as that of a MoM in a
// container, is no absolute path.
func HomeOfHook(proc Links, pid int, configured func() string) string {
	link := strconv.Itoa(pid) + "/cwd"
	cwd, err := proc.Readlink(link)
	told, isHook := strings.CutSuffix(cwd, workdir)
	if err != nil || !isHook {
		return configured()
	}
	told = filepath.Clean(told + "/")
	at, err := os.Stat(proc.Path(link))
	isAt := func(home string) bool {
		info, statErr := os.Stat(home + workdir)
		return err == nil && statErr == nil && os.SameFile(at, info)
	}
	if isAt(told) {
		return told
	}
	if home := configured(); isAt(home) {
		return home
	}
	return "not in reach: " + told
}

// HooksOfHook returns the folder of hooks of the pbs_mom that runs a process as its hook, "" when
// it is not known. The kernel resolves the path in a container, too.
func HooksOfHook(proc Links, pid int) string {
	link := strconv.Itoa(pid) + "/cwd"
	if cwd, err := proc.Readlink(link); err != nil || !strings.HasSuffix(cwd, workdir) {
		return ""
	}
	return proc.Path(link) + "/.."
}

// jobFiles are the suffixes of MoM's files of a job. They are its record, the next version of that,
// and the record while MoM starts and reads it. The name begins with hashname, which is the job's
// id (openpbs src/resmom/job_recov_fs.c). The first suffix stands twice, as MoM may have given a
// record its name back meanwhile.
var jobFiles = []string{".JB", ".JC", ".BD", ".JB"}

// MoMHasTask reports whether the pbs_mom of a home has started a program of a job, by its file of
// each task (openpbs src/resmom/mom_comm.c, task_save). The mother superior has one from the start
// of the job's script on, for as long as it has the job.
func MoMHasTask(home, id string) (bool, error) {
	if !filepath.IsAbs(home) {
		return false, fmt.Errorf("home of pbs_mom: %s", home)
	}
	tasks, err := os.ReadDir(filepath.Join(home, "mom_priv", "jobs", id+".TK"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return len(tasks) > 0, err
}

// MoMHasJob reports whether the pbs_mom of a home has a job, by the files that it keeps of each.
// MoMHasJob fails where there is no folder for them. The id is that of a job of PBS's, without a
// slash.
func MoMHasJob(home, id string) (bool, error) {
	if !filepath.IsAbs(home) {
		return false, fmt.Errorf("home of pbs_mom: %s", home)
	}
	jobs := filepath.Join(home, "mom_priv", "jobs")
	if info, err := os.Stat(jobs); err != nil {
		return false, err
	} else if !info.IsDir() {
		return false, fmt.Errorf("%s: not a directory", jobs)
	}
	for _, suffix := range jobFiles {
		_, err := os.Lstat(filepath.Join(jobs, id+suffix))
		if err == nil {
			return true, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
	}
	return false, nil
}
