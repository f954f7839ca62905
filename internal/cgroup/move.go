package cgroup

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/proc"
)

// The kernel moves a process by its number (cgroup.procs). The number may be another process's by
// the time of the write, since the parent of a process decides when it is reaped. Two rules hold
// all the same:
//
//   - Nothing here moves a process out of a job: neither to no job nor to another one. A process
//     that is in a job by halves counts as that job's.
//   - Each process is held, and asked right before each write whether it has its number still. It
//     is asked again after the last one.
//
// A process that was moved by mistake stays where it is. Its place of before is lost, and a way
// back would be a way out for the job's own. The parent of an orphan is init, and a child that MoM
// has just started in the job has root's uids. Nothing is built on the kernel's refusal to move
// another user's process: v2 has none.

// Process is a hold on a process, such as proc.Held. Signal 0 fails once the number may be
// another's.
type Process interface {
	PID() int
	Signal(syscall.Signal) error
}

// ErrEnded says that the process ended while it was moved. Another one that got its number
// meanwhile may have been moved in its stead.
var ErrEnded = errors.New("process has ended")

// OtherJobError is the job that a process is part of, in one hierarchy at least, and stays in.
type OtherJobError string

// Error is to follow the name of the process.
func (e OtherJobError) Error() string { return "it is part of job " + string(e) }

// Attach moves a process into the job's cgroup, all its threads. taken is whether the process was
// in no part of the job before. A hierarchy in which the process is in the job, or below it, is
// left alone. So Attach is idempotent, and completes one that failed half way. Attach fails with
// OtherJobError for a process of another job, with ErrEnded and with ErrNotFound. After other
// errors it goes on and returns all of them. Children that the process forks meanwhile may stay
// outside.
func (j *Job) Attach(p Process) (taken bool, err error) {
	op := func(err error) error { return fmt.Errorf("attach process %d to job %s: %w", p.PID(), j.id, err) }
	at, err := j.tree.whereabouts(p.PID())
	if err != nil {
		return false, op(err)
	}
	taken = true
	for _, h := range j.tree.hierarchies {
		switch id, in := h.jobAt(at[h]); {
		case in && id != j.id:
			return false, op(OtherJobError(id))
		case in:
			taken = false
		}
	}
	var errs []error
	for i, d := range j.dirs {
		if j.left(i) || j.holds(i, at) {
			continue
		}
		switch err := enter(j.entrance(i), p); {
		case errors.Is(err, ErrEnded):
			return false, op(err)
		case gone(err):
			return false, op(fmt.Errorf("%s: %w", d.Path("."), ErrNotFound))
		case err != nil:
			errs = append(errs, op(err))
		}
	}
	if err := asked(p); errors.Is(err, ErrEnded) {
		return false, op(err)
	} else if err != nil {
		errs = append(errs, op(err))
	}
	return taken, errors.Join(errs...)
}

// AttachSubgroup moves a process of the job into a subgroup, all its threads. In a hierarchy where
// the process is not in the job it stays where it is. AttachSubgroup is idempotent and fails as
// Attach does. Children that the process forks meanwhile may stay where they are: they are in
// Ungrouped.
func (j *Job) AttachSubgroup(name string, p Process) error {
	op := func(err error) error {
		return fmt.Errorf("attach process %d to subgroup %s of job %s: %w", p.PID(), name, j.id, err)
	}
	at, err := j.tree.whereabouts(p.PID())
	if err != nil {
		return op(err)
	}
	var errs []error
	for _, d := range j.subgroupDirs() {
		if id, in := d.h.jobAt(at[d.h]); !in || id != j.id {
			continue
		}
		sub, err := d.Sub(name)
		if err == nil {
			err = enter(sub, p)
		}
		switch {
		case errors.Is(err, ErrEnded):
			return op(err)
		case gone(err):
			return op(ErrNotFound)
		case err != nil:
			errs = append(errs, op(err))
		}
	}
	if err := asked(p); errors.Is(err, ErrEnded) {
		return op(err)
	} else if err != nil {
		errs = append(errs, op(err))
	}
	return errors.Join(errs...)
}

// whereabouts is cgroupsOf of a process that is to be moved.
func (t *Tree) whereabouts(pid int) (map[*hierarchy]string, error) {
	if pid <= 0 { // 0 would be this process
		return nil, errors.New("not a process id")
	}
	return t.cgroupsOf(pid)
}

// holds reports whether something is where the job's processes are in hierarchy i, by what
// cgroupsOf says of it.
func (j *Job) holds(i int, at map[*hierarchy]string) bool {
	h := j.dirs[i].h
	if id, in := h.jobAt(at[h]); in {
		return id == j.id
	}
	return j.mayLack(i) && at[h] == h.jobsPath() && !j.dirs[i].Exists(".")
}

// nobody is a number that no process has: it is above the kernel's greatest pid_max.
var nobody = strconv.Itoa(math.MaxInt32)

// asked fails with ErrEnded once the number of a process may be another's.
func asked(p Process) error {
	err := p.Signal(0)
	if errors.Is(err, proc.ErrGone) {
		return ErrEnded
	}
	return err
}

// enter writes the number of a process to cgroup.procs of dir. The first move after a quiet while
// waits for a grace period of the kernel (cgroup_threadgroup_rwsem): milliseconds, in which a
// number may be given away. So a number that nobody has is written first. Between the question and
// the move there are microseconds then.
func enter(dir *kernfs.FS, p Process) error {
	procs := dir.Writer("cgroup.procs")
	defer procs.Close()
	if err := procs.Write(nobody); gone(err) {
		return err
	}
	if err := asked(p); err != nil {
		return err
	}
	err := procs.Write(strconv.Itoa(p.PID()))
	if errors.Is(err, unix.ESRCH) {
		return ErrEnded
	}
	return err
}
