package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/disk"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/mountns"
	"github.com/hookhost/hookhost/internal/pbs"
)

// namespaces are the mount namespaces of jobs with private directories. Each is pinned under the
// job's id.
type namespaces struct {
	pins   string // a directory of root's
	dirs   []config.PrivateDir
	prefix string // names the directory below a base: see disk.go

	emptying *sync.Map // uids of the users whose files on disk are being removed
	patience *patience
	log      *logrus.Entry
}

func (n namespaces) pin(id string) string { return filepath.Join(n.pins, id) }

// create makes and pins the job's namespace. A shm of more than 0 is the size of its /dev/shm. What
// an earlier run of the job left is removed. If create fails, it leaves nothing. If users hold up
// the mounts or have filled the disk of a base, the error is KindBusy.
func (n namespaces) create(ctx context.Context, job *hostapi.Job, shm pbs.Size) error {
	if err := n.remove(ctx, job.ID); err != nil {
		return err
	}
	if len(n.dirs) == 0 {
		return nil
	}
	err := disk.MakeDir(n.pins, 0o700)
	if err == nil {
		err = n.make(job, shm)
	}
	if err != nil {
		return errors.Join(err, n.remove(ctx, job.ID))
	}
	return nil
}

func (n namespaces) make(job *hostapi.Job, shm pbs.Size) error {
	var dirs []mountns.Directory
	var paths []string
	for _, d := range n.dirs {
		paths = append(paths, d.Path)
		m := mountns.Directory{Path: d.Path, Size: int64(d.Size), Options: d.Options}
		if d.Base != "" {
			var err error
			if m.From, err = n.makeDir(d, job); err != nil {
				return err
			}
		} else if d.Path == config.SharedMemory && shm > 0 {
			m.Size = int64(shm)
		}
		dirs = append(dirs, m)
	}
	err := mountns.Create(n.pin(job.ID), func() error {
		for _, d := range dirs {
			if err := d.Mount(); err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, mountns.ErrHeld) {
		return hostapi.Errorf(hostapi.KindBusy, "%w: see fuser -v %s", err, strings.Join(paths, " "))
	}
	return err
}

// join moves the process of a launch or a login into the job's namespace. A job that began without
// private directories has none.
func (n namespaces) join(procfs *kernfs.FS, req *hostapi.Request) (there bool, err error) {
	pin := n.pin(req.Job.ID)
	if _, err := os.Lstat(pin); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return true, mountns.Join(procfs, req.PID, req.StartTime, pin)
}

// hides returns the private directory that the directory dir is in or below, or "".
func (n namespaces) hides(dir string) string {
	for _, d := range n.dirs {
		if d.Contains(dir) {
			return d.Path
		}
	}
	return ""
}

// remove removes the namespace and private directories of a job. A process that is in the
// namespace all the same, or has it open, loses the directories. Files on disk go in the
// background. Idempotent.
func (n namespaces) remove(ctx context.Context, id string) error {
	if err := hostapi.CheckJobID(id); err != nil {
		return err
	}
	err := mountns.Enter(n.pin(id), func() error {
		var errs []error
		for _, d := range n.dirs {
			errs = append(errs, mountns.Detach(d.Path))
		}
		return errors.Join(errs...)
	})
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EINVAL) { // it is not pinned
		err = nil
	}
	return errors.Join(err, mountns.Unpin(n.pin(id)), n.removeFiles(ctx, id))
}

// list returns the jobs that have a namespace or a private directory.
func (n namespaces) list() ([]string, error) {
	ids, err := jobsIn(n.pins)
	errs := []error{err}
	for _, dir := range n.jobDirs() {
		more, err := jobsIn(dir)
		ids, errs = append(ids, more...), append(errs, err)
	}
	slices.Sort(ids)
	return slices.Compact(ids), errors.Join(errs...)
}
