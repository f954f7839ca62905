package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Lock takes the tree for one caller, in this process or another: what is chosen from what is free, and made, under the
// lock is chosen once. The lock is flock(2) on the jobs' parent directory in the first hierarchy and ends with its
// process. It fails when ctx ends first.
func (t *Tree) Lock(ctx context.Context) (unlock func(), err error) {
	h := t.hierarchies[0]
	f, err := h.jobs.OpenFile(".", os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		if err = h.prepare(); err == nil {
			f, err = h.jobs.OpenFile(".", os.O_RDONLY)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("lock cgroups: %w", err)
	}
	d, ok := f.(interface{ Fd() uintptr })
	if !ok {
		f.Close()
		return nil, fmt.Errorf("lock cgroups: %s: %w", h.jobs.Path("."), ErrUnsupported)
	}
	// A flock that blocks cannot be called off: neither ctx nor closing the descriptor wakes its thread. So it is tried, with
	// pauses that grow; the lock is held for about a millisecond at a time.
	for pause := 50 * time.Microsecond; ; pause = min(2*pause, 20*time.Millisecond) {
		err := unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() {
				unix.Flock(int(d.Fd()), unix.LOCK_UN) // a child between fork and exec has the descriptor as well
				f.Close()
			}, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			f.Close()
			return nil, fmt.Errorf("lock cgroups: flock %s: %w", h.jobs.Path("."), err)
		}
		if err := sleep(ctx, pause); err != nil {
			f.Close()
			return nil, fmt.Errorf("lock cgroups: %s is held: %w", h.jobs.Path("."), err)
		}
	}
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
