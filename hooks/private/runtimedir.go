package main

import (
	"context"
	"errors"
	"strconv"
	"sync"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/kernfs"
)

// runtimeDirs are the directories that XDG_RUNTIME_DIR names: a tmpfs for each user with jobs here,
// named by the uid. Container runtimes have the state of what runs in it, which is gone with the
// user's last job.
//
// They are not those of systemd-logind (/run/user/UID). With those come the user's systemd and its
// bus, and what that starts is outside of all jobs.
type runtimeDirs struct {
	dirs tmpfsDirs
	live *liveJobs
	tree *cgroup.Tree

	// mu is held while directories are made and removed. A job is live before its user's directory
	// is made, so the directory is not removed from then on.
	mu sync.Mutex
}

// runtimeSize and runtimeFiles bound each. They are small, since programs have only sockets and
// state there. An empty file takes 1 KB of memory, and after the end of the job that made it no
// job's limit counts that.
const (
	runtimeSize  = 256 << 20
	runtimeFiles = 1 << 16
)

// create mounts the user's directory unless there is one.
func (r *runtimeDirs) create(ctx context.Context, owner hostapi.Owner) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if there, err := r.check(owner, nil, 0); there && err == nil {
		return nil
	}
	return r.dirs.create(ctx, strconv.Itoa(owner.UID), owner)
}

// check is tmpfsDirs.check of the user's directory.
func (r *runtimeDirs) check(owner hostapi.Owner, procfs *kernfs.FS, pid int) (there bool, err error) {
	return r.dirs.check(strconv.Itoa(owner.UID), procfs, pid)
}

// variables returns the environment that names the user's directory, nil if there is none.
func (r *runtimeDirs) variables(owner hostapi.Owner) map[string]string {
	if there, err := r.check(owner, nil, 0); !there || err != nil {
		return nil
	}
	return map[string]string{"XDG_RUNTIME_DIR": r.dirs.path(strconv.Itoa(owner.UID))}
}

// removeUnused removes the directories of users without jobs. Idempotent.
func (r *runtimeDirs) removeUnused(ctx context.Context) error {
	held, err := r.detachUnused()
	free(ctx, held)
	return err
}

func (r *runtimeDirs) detachUnused() (held []int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	names, err := jobsIn(r.dirs.base)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	used, err := r.owners()
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, name := range names {
		if uid, err := strconv.Atoi(name); err == nil && !used[uid] {
			fds, err := r.dirs.detach(name)
			held, errs = append(held, fds...), append(errs, err)
		}
	}
	return held, errors.Join(errs...)
}

// owners returns the uids of the users with live jobs, or with a job's cgroup, here. The host may
// have lost a job's record.
func (r *runtimeDirs) owners() (map[int]bool, error) {
	ids, err := r.tree.JobIDs()
	if err != nil {
		return nil, err
	}
	uids := r.live.uids()
	for _, id := range ids {
		j, err := r.tree.Job(id)
		if err != nil {
			return nil, err
		}
		mark, found, err := j.FindJobMark()
		if err != nil {
			return nil, err
		}
		if found {
			uids[mark.Begin.Job.Owner.UID] = true
		}
	}
	return uids, nil
}
