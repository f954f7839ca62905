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

// lockFile is the file in the jobs' parent directory that is locked. Any process that can open a
// file can lock it. So Prepare restricts this file to root (0600), and Lock does so if Prepare has
// not run.
//
// The restriction does no harm. Every hierarchy has the file, the directory contains no processes,
// and only root can write to the file anyway. When users move processes inside directories
// delegated to them, the kernel checks files further down.
//
// The mode lasts as long as the directory. A process could open the file after the directory is
// created but before the mode changes, and keep the file open. But at that time there is no job
// yet.
const lockFile = "cgroup.procs"

// openLock opens lockFile and restricts it to root.
func (h *hierarchy) openLock() (kernfs.File, error) {
	f, err := h.jobs.OpenFile(lockFile, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	if err := rootOnly(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("chmod 0600 %s: %w", h.jobs.Path(lockFile), explain(err))
	}
	return f, nil
}

// rootOnly keeps everybody but root from opening f.
func rootOnly(f kernfs.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil || st.Mode&0o077 == 0 {
		return err
	}
	return unix.Fchmod(int(f.Fd()), 0o600)
}

// Lock locks the tree for one caller, in this process or another. It uses flock(2) on a file of the
// jobs' parent directory in the first hierarchy. Only root can open that file, and the lock is
// released when its process ends. Lock fails if ctx ends first.
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
		unix.Flock(int(l.Fd()), unix.LOCK_UN) // a child between fork and exec has a copy of the descriptor
		l.Close()
	}, nil
}

// sleep pauses. It returns ctx's error if ctx ends first.
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
