package cgroup

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/proc"
)

// The kernel moves a process by its pid (cgroup.procs). By the time of the write the pid may have
// been reused, since the parent of a process decides when it is reaped. Two rules protect against
// that:
//
//   - Nothing here moves a process out of a job, neither to another job nor out of all jobs.
//     A process that is partly in a job belongs to that job.
//   - Each process is held. Right before each write, and after the last one, it is checked
//     that the process still has its pid.
//
// A process that was moved by mistake stays where it is. Its previous place is unknown, and moving
// it back would give the job's processes a way out. The parent of an orphan is init, and a child
// that MoM has just started in the job has root's uids. Nothing relies on the kernel refusing to
// move another user's process, because v2 does not refuse.

// Process is a process that is held, such as proc.Handle. Signal 0 fails once the pid may have been
// reused.
type Process interface {
	PID() int
	Signal(syscall.Signal) error
}

// ErrEnded means that the process ended while it was being moved. Another process that got its pid
// may have been moved instead.
var ErrEnded = errors.New("process has ended")

// OtherJobError names the job that a process already belongs to, in at least one hierarchy, and in
// which it stays.
type OtherJobError string

// Error returns text that follows the name of the process.
func (e OtherJobError) Error() string { return "it is part of job " + string(e) }

// Attach moves a process with all its threads into the job's cgroup. taken reports whether no part
// of the job contained the process before. Attach skips hierarchies in which the process is already
// in the job or below it. So it is idempotent, and completes an attempt that failed halfway. It
// stops with OtherJobError if the process is in another job, with ErrEnded, or with ErrNotFound.
// After other errors it continues and returns all of them. Children that the process forks
// meanwhile may stay outside.
//
// When a process enters a cpuset, the kernel can wait for its memory map (cpuset_attach), and
// meanwhile no process of the node starts or ends. So check is called right before that, unless it
// is nil, and also before the process enters any cgroup. If it fails with proc.ErrHangs, Attach
// stops. Usually nothing has been moved then. The cpuset does not come first: a child that is
// forked meanwhile would be in it alone, without a limit on memory.
func (j *Job) Attach(p Process, check func() error) (taken bool, err error) {
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
	var missing []int // of j.dirs
	for i := range j.dirs {
		if !j.left(i) && !j.holds(i, at) {
			missing = append(missing, i)
		}
	}
	inCpuset := func(i int) bool { return j.dirs[i].h.has("cpuset") }
	if check != nil && slices.IndexFunc(missing, inCpuset) > 0 {
		if err := check(); err != nil {
			return false, op(err)
		}
	}
	var errs []error
	for _, i := range missing {
		d, before := j.dirs[i], check
		if !inCpuset(i) {
			before = nil
		}
		switch err := j.admit(i, p, before); {
		case errors.Is(err, proc.ErrHangs):
			return taken, op(err)
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

// AttachSubgroup moves a process of the job with all its threads into a subgroup. In hierarchies
// where the process is not in the job, it stays where it is. AttachSubgroup is idempotent and fails
// in the same cases as Attach. Children that the process forks meanwhile may stay where they are.
// Ungrouped returns them.
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
			err = enter(sub, p, nil)
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

// whereabouts is like cgroupsOf, for a process that is about to be moved.
func (t *Tree) whereabouts(pid int) (map[*hierarchy]string, error) {
	if pid <= 0 { // 0 would mean this process
		return nil, errors.New("not a process id")
	}
	return t.cgroupsOf(pid)
}

// holds reports whether a process is where the job's processes are in hierarchy i, given the result
// of cgroupsOf.
func (j *Job) holds(i int, at map[*hierarchy]string) bool {
	h := j.dirs[i].h
	if id, in := h.jobAt(at[h]); in {
		return id == j.id
	}
	return j.mayLack(i) && at[h] == h.jobsPath() && !j.dirs[i].Exists(".")
}

// nobody is a pid that no process has, because it exceeds the kernel's maximum for pid_max.
var nobody = strconv.Itoa(math.MaxInt32)

// asked fails with ErrEnded if the pid of a process may have been reused.
func asked(p Process) error {
	err := p.Signal(0)
	if errors.Is(err, proc.ErrGone) {
		return ErrEnded
	}
	return err
}

// enter writes the pid of a process to cgroup.procs of dir. The first move after a pause waits for
// a grace period of the kernel (cgroup_threadgroup_rwsem). That takes milliseconds, in which the
// pid could be reused. So enter first writes a pid that no process has. After that, only
// microseconds pass between the checks and the move. check may be nil.
//
// Before Linux 6.1, the kernel refuses with EINVAL to move a process that has just created a thread
// which has not run yet (cpu_cgroup_can_attach, TASK_NEW). So enter tries again for a while.
func enter(dir *kernfs.FS, p Process, check func() error) error {
	procs := dir.Writer("cgroup.procs")
	defer procs.Close()
	if err := procs.Write(nobody); gone(err) {
		return err
	}
	for pause := time.Millisecond; ; pause *= 2 {
		if check != nil {
			if err := check(); err != nil {
				return err
			}
		}
		if err := asked(p); err != nil {
			return err
		}
		err := procs.Write(strconv.Itoa(p.PID()))
		switch {
		case errors.Is(err, unix.ESRCH):
			return ErrEnded
		case errors.Is(err, unix.EINVAL) && pause <= longestPause:
			time.Sleep(pause)
		default:
			return err
		}
	}
}

// longestPause is the last pause of enter before it gives up. All pauses together take a quarter of
// a second.
const longestPause = 128 * time.Millisecond
