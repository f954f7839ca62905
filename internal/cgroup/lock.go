package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/disk"
	"github.com/hookhost/hookhost/internal/kernfs"
)

// lockFile is the file of the jobs' parent directory that the lock is on. Any process that can open
// a file can lock it, and all can open a directory of cgroupfs. So Prepare makes this file root's
// alone (0600), and so does Lock if that has not run.
//
// Every hierarchy has the file, no process is in that directory, and writing to the file is root's
// anyway. For moves that users make inside of what was delegated to them the kernel asks further
// down. A mode lasts as long as the directory. A process may have opened the file between the
// directory's making and the change of its mode, and has it open still. No job is there at that
// time.
const lockFile = "cgroup.procs"

// openLock opens lockFile and makes it root's alone.
func (h *hierarchy) openLock() (kernfs.File, error) {
	f, err := h.jobs.OpenFile(lockFile, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	if err := rootOnly(int(f.Fd())); err != nil {
		f.Close()
		return nil, fmt.Errorf("chmod 0600 %s: %w", h.jobs.Path(lockFile), explain(err))
	}
	return f, nil
}

func rootOnly(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&0o077 == 0 {
		return err
	}
	return unix.Fchmod(fd, 0o600)
}

// Lock takes the tree for one caller, in this process or another. The lock is flock(2) on a file of
// the jobs' parent directory in the first hierarchy. Only root can open the file, and the lock ends
// with its process. Lock fails when ctx ends first.
func (t *Tree) Lock(ctx context.Context) (unlock func(), err error) {
	h := t.hierarchies[0]
	l, err := h.openLock()
	if errors.Is(err, fs.ErrNotExist) {
		if err = h.prepare(); err == nil {
			l, err = h.openLock()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("lock cgroups: %w", err)
	}
	if err := disk.Lock(ctx, int(l.Fd())); err != nil {
		l.Close()
		return nil, fmt.Errorf("lock cgroups: flock %s: %w", h.jobs.Path(lockFile), err)
	}
	return func() {
		unix.Flock(int(l.Fd()), unix.LOCK_UN) // a child between fork and exec has the descriptor as well
		l.Close()
	}, nil
}

// sleep pauses, or returns ctx's error when that ends first.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
