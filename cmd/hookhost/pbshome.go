package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
)

// workdir is the directory under a home in which pbs_mom runs its hooks (openpbs src/resmom/mom_hook_func.c, run_hook).
const workdir = "/mom_priv/hooks/tmp"

// homeOf returns the home of the pbs_mom that runs the process caller as its hook: a host may have several. The caller's working directory
// tells it; what is configured counts where that is another one. "" is none known. A home that this process cannot look into, as that
// of a MoM in a container, is no absolute path.
func (b *backend) homeOf(caller int) string {
	link := strconv.Itoa(caller) + "/cwd"
	cwd, err := b.procfs.Readlink(link)
	told, isHook := strings.CutSuffix(cwd, workdir)
	if err != nil || !isHook {
		b.log.Debugf("process %d does not tell the home of its pbs_mom: working directory %q, %v", caller, cwd, err)
		return b.configuredHome()
	}
	told = filepath.Clean(told + "/")
	at, err := os.Stat(b.procfs.Path(link))
	isAt := func(home string) bool {
		info, statErr := os.Stat(home + workdir)
		return err == nil && statErr == nil && os.SameFile(at, info)
	}
	if isAt(told) {
		if b.log.Logger.IsLevelEnabled(logrus.DebugLevel) {
			if other := b.configuredHome(); other != "" && other != told {
				b.log.Debugf("the home of pbs_mom is %s, as its hook tells, not %s, as is configured", told, other)
			}
		}
		return told
	}
	if home := b.configuredHome(); isAt(home) {
		return home
	}
	b.log.Debugf("the home of pbs_mom, %s, cannot be looked into from here", told)
	return "not in reach: " + told
}

// configuredHome is the configured home as the kernel would name it, "" for none.
func (b *backend) configuredHome() string {
	home, err := b.openPBS.Load().MoMHome()
	if err != nil {
		return ""
	}
	if own, err := filepath.EvalSymlinks(home); err == nil {
		return own
	}
	return home
}

// momFiles are how the names of the files of a job end that MoM has: its record, the next version of that, and the name that the record
// has while MoM starts and reads it (openpbs src/resmom/job_recov_fs.c; hashname, which the name begins with, is the job's id).
// The first is looked for once more: MoM may have given a record its name back meanwhile.
var momFiles = []string{".JB", ".JC", ".BD", ".JB"}

// populated tells whether there are processes in a job's cgroup, whoever has made that.
func (b *backend) populated(id string) (bool, error) {
	job, err := b.tree.Job(id)
	if err != nil {
		return false, err
	}
	return job.Populated()
}

// pbsHas tells whether the pbs_mom of a home has a job, by the files that it keeps of each; "" is the configured home. It fails where there is
// no folder for them.
func (b *backend) pbsHas(job *hostapi.Job, home string) (bool, error) {
	if home == "" {
		var err error
		if home, err = b.openPBS.Load().MoMHome(); err != nil {
			return false, err
		}
	}
	if !filepath.IsAbs(home) {
		return false, fmt.Errorf("home of pbs_mom: %s", home)
	}
	jobs := filepath.Join(home, "mom_priv", "jobs")
	if info, err := os.Stat(jobs); err != nil {
		return false, err
	} else if !info.IsDir() {
		return false, fmt.Errorf("%s: not a directory", jobs)
	}
	if err := hostapi.CheckJobID(job.ID); err != nil {
		return false, err
	}
	for _, suffix := range momFiles {
		_, err := os.Lstat(filepath.Join(jobs, job.ID+suffix))
		if err == nil {
			return true, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
	}
	return false, nil
}
