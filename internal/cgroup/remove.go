package cgroup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Remove removes the job's directories and everything below them, in every hierarchy. It does not
// kill anything: if processes are left, it fails with ErrBusy. A directory without processes may be
// busy because the kernel is still releasing it. Remove retries such a directory until ctx ends.
// After an error it continues with the other directories and returns all errors, but keeps the
// directory with the job's marks. Remove is idempotent: a missing directory is not an error.
func (j *Job) Remove(ctx context.Context) error {
	var errs []error
	remove := func(d directory) {
		if err := j.removeDir(ctx, d); err != nil {
			errs = append(errs, fmt.Errorf("remove cgroup of job %s: %w", j.id, err))
		}
	}
	if err := j.removeMain(ctx); err != nil {
		errs = append(errs, fmt.Errorf("remove cgroup of job %s: %w", j.id, err))
	}
	for _, d := range j.dirs[1:] {
		remove(d)
	}
	if len(errs) == 0 { // else the marks stay, to show whose remains must be removed
		remove(j.home())
	}
	if j.tree.protected.Load() {
		errs = append(errs, j.tree.protect())
	}
	return errors.Join(errs...)
}

func (j *Job) removeDir(ctx context.Context, d directory) error {
	for pause := 200 * time.Microsecond; ; pause = min(2*pause, 50*time.Millisecond) {
		err := d.Rmdir(".")
		if errors.Is(err, unix.EBUSY) { // also for a directory with children
			err = d.walk(func(sub directory) error { return sub.Rmdir(".") })
		}
		if err == nil || gone(err) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) {
			return err
		}
		if pids, listErr := j.Processes(); listErr == nil && len(pids) > 0 {
			return fmt.Errorf("%w: processes %s: %w", ErrBusy, j.tree.list(pids), err)
		}
		if d.h.v2 { // a process that ends leaves the list before it leaves the cgroup
			if waited := d.await(ctx, "populated", 0); waited != nil && ctx.Err() == nil && !gone(waited) {
				return errors.Join(err, waited)
			}
		}
		if sleep(ctx, pause) != nil {
			return fmt.Errorf("%w: %w", ErrBusy, err)
		}
	}
}
