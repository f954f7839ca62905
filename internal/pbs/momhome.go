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

// workdir is the directory below pbs_mom's home in which it runs its hooks (openpbs
// src/resmom/mom_hook_func.c, run_hook).
const workdir = "/mom_priv/hooks/tmp"

// Links reads links in /proc.
type Links interface {
	Readlink(name string) (string, error)
	Path(name string) string
}

// HomeOfHook returns the home of the pbs_mom that runs a process as its hook, since a host may have
// several. It is derived from the working directory of the process. configured returns the
// configured home. That is the result if the process runs elsewhere, or if it is the same directory
// under another name. A home that this process cannot read, such as that of a MoM in a container,
// is not an absolute path.
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

// HooksOfHook returns the directory of hooks of the pbs_mom that runs a process as its hook, or ""
// if it is not known. The kernel resolves the path even in a container.
func HooksOfHook(proc Links, pid int) string {
	link := strconv.Itoa(pid) + "/cwd"
	if cwd, err := proc.Readlink(link); err != nil || !strings.HasSuffix(cwd, workdir) {
		return ""
	}
	return proc.Path(link) + "/.."
}

// jobFiles are the suffixes of MoM's files of a job: its record, the record's next version, and the
// record while a starting MoM reads it. The name begins with hashname, which is the job's id
// (openpbs src/resmom/job_recov_fs.c). The first suffix occurs twice, because MoM may have renamed
// the record back meanwhile.
var jobFiles = []string{".JB", ".JC", ".BD", ".JB"}

// MoMHasTask reports whether the pbs_mom of a home has started a program of a job. It checks for
// MoM's file of each task (openpbs src/resmom/mom_comm.c, task_save). The mother superior has one
// from the start of the job's script for as long as it has the job.
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

// MoMHasJob reports whether the pbs_mom of a home has files of a job. It fails if the directory for
// them does not exist. The id is PBS's, without a slash.
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
