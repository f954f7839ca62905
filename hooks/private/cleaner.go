package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/proc"
)

// errInUse means that a user still has processes, which may use what their jobs left.
var errInUse = errors.New("the user has processes")

// cleaner removes what a user's jobs have left on the node.
type cleaner struct {
	dirs   []string
	ipc    bool // System V
	procfs *kernfs.FS
	log    *logrus.Entry
}

// window is the time in which leftovers were made, from the begin of the user's first job until the
// end of the last one. What is newer belongs to a login that came meanwhile. The kernel sets the
// times of files, and no user can.
type window struct{ since, until time.Time }

// contains takes when something was made and last changed. Some file systems do not know when a
// file was made: the zero time. The last change counts then, and the end of the window does not,
// because the removal of another name of the file changes it, too.
func (w window) contains(made, changed time.Time) bool {
	if !made.IsZero() {
		return !w.startsAfter(made) && !made.After(w.until)
	}
	return !w.startsAfter(changed)
}

// startsAfter reports whether t is before the window. It compares whole seconds if no more is
// known, as with message queues and System V IPC.
func (w window) startsAfter(t time.Time) bool {
	if t.Nanosecond() == 0 {
		return t.Before(w.since.Truncate(time.Second))
	}
	return t.Before(w.since)
}

// clean removes what the user's jobs have left in that time, until ctx ends. It fails with
// errInUse if any process belongs to the user, in a job or not. An error in one place does not keep
// it from the others.
func (c *cleaner) clean(ctx context.Context, uid int, w window) error {
	if err := c.unused(ctx, uid); err != nil {
		return err
	}
	var errs []error
	removed := 0
	for _, dir := range c.dirs {
		l := &leftovers{ctx: ctx, uid: uint32(uid), window: w}
		if err := l.removeFrom(dir); err != nil {
			errs = append(errs, err)
		}
		removed += l.removed
	}
	if c.ipc && ctx.Err() == nil {
		n, err := removeIPC(c.procfs, uid, w)
		errs = append(errs, err)
		removed += n
	}
	c.log.Debugf("jobs of uid %d left %d files and IPC objects, which are removed", uid, removed)
	return errors.Join(errs...)
}

// unused fails if a process belongs to the user, by its real or its effective uid. Zombies do not
// count.
func (c *cleaner) unused(ctx context.Context, uid int) error {
	pids, err := c.procfs.Numbers(".")
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		p, err := proc.Read(c.procfs, pid)
		if errors.Is(err, proc.ErrGone) {
			continue
		}
		if err != nil {
			return err
		}
		if (p.UID == uid || p.EUID == uid) && !p.Dead() {
			return fmt.Errorf("%w: process %d (%s)", errInUse, pid, p.Comm)
		}
	}
	return nil
}
