package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/proc"
)

// rounds bounds the chase after a session that forks while it is being moved: each round moves what the one before
// could not see, and children of a moved process are born inside.
const rounds = 16

// maxHeld bounds the descriptors that moving takes.
const maxHeld = 256

// takeIn moves first and the other members of its session that want admits and that are in no other job, and gives them
// limits. It returns how many it moved that were not in the job already. What the processes do to escape being moved is KindBusy: no user's
// doing makes a node bad.
func (h *hook) takeIn(j *cgroup.Job, first proc.Process, want func(proc.Process) bool, limits map[string]hostapi.Rlimit) (taken int, err error) {
	// The end of the job kills what is in it: never the system's first process, nor us.
	if first.PID <= 1 || first.Kernel || h.isOurs(first.PID) {
		return 0, hostapi.Errorf(hostapi.KindJob, "process %d (%s) is not a job's", first.PID, first.Comm)
	}
	done := map[int]bool{}
	for round := range rounds {
		before := forks(h.roots.Proc)
		members, err := h.sessionOf(first)
		if err != nil {
			return taken, err
		}
		members = slices.DeleteFunc(members, func(m proc.Process) bool {
			return m.PID == first.PID || m.PID <= 1 || h.isOurs(m.PID) || !want(m)
		})
		if round == 0 { // even if it leaves its session meanwhile
			members = slices.Insert(members, 0, first)
		}
		members = slices.DeleteFunc(members, func(m proc.Process) bool { return done[m.PID] })
		if len(members) == 0 {
			return taken, nil
		}
		for some := range slices.Chunk(members, maxHeld) {
			n, err := h.move(j, some, done, limits)
			if taken += n; err != nil {
				return taken, err
			}
		}
		// Where no process has begun since before the list, none is missing in it.
		if before != "" && forks(h.roots.Proc) == before {
			return taken, nil
		}
	}
	return taken, hostapi.Errorf(hostapi.KindBusy, "session %d forks faster than its processes can be moved", first.Session)
}

// sessionOf lists the session of first. Session 0 is no session: all processes whose sessions began outside the pid
// namespace of this /proc (a container's) have that number.
func (h *hook) sessionOf(first proc.Process) ([]proc.Process, error) {
	if first.Session == 0 {
		return nil, nil
	}
	return proc.SessionMembers(h.roots.Proc, first.Session)
}

// forks is how many processes the kernel has made so far (proc_stat(5)); "" where it does not say. It counts a process
// when that can be seen in /proc, and a move waits for forks of the process that it moves (cgroup_threadgroup_rwsem): a
// count that stands still from before a list to after the moves has missed none.
func forks(procfs *kernfs.FS) string {
	b, err := procfs.ReadFile("stat")
	if err != nil {
		return ""
	}
	_, text, _ := strings.Cut(string(b), "\nprocesses ")
	count, _, _ := strings.Cut(text, "\n")
	return count
}

// held is a hold on a process: signal 0 fails once its number may be another's.
type held interface {
	Signal(syscall.Signal) error
	Close() error
}

// byStartTime is the hold where the kernel has no pidfds.
type byStartTime struct {
	procfs *kernfs.FS
	id     hostapi.ProcessID
}

func (p byStartTime) Close() error { return nil }

func (p byStartTime) Signal(syscall.Signal) error {
	if !proc.Alive(p.procfs, p.id) {
		return proc.ErrGone
	}
	return nil
}

func openProcess(procfs *kernfs.FS, id hostapi.ProcessID) (held, error) {
	p, err := proc.Open(procfs, id)
	if errors.Is(err, errors.ErrUnsupported) {
		return byStartTime{procfs, id}, nil
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// move moves processes, back to back: only the first pays the kernel's grace period. A move goes by number, so each
// process is held meanwhile: what has not been reaped after the move had its number all the time.
func (h *hook) move(j *cgroup.Job, members []proc.Process, done map[int]bool, limits map[string]hostapi.Rlimit) (taken int, err error) {
	holds := map[int]held{}
	defer func() {
		for _, p := range holds {
			p.Close()
		}
	}()
	var pids []int
	for _, m := range members {
		done[m.PID] = true
		in, found, err := h.tree.JobOf(m.PID)
		if err != nil {
			return 0, err
		}
		if found && in != j.ID() {
			continue
		}
		p, err := h.openProcess(h.roots.Proc, m.ID())
		if errors.Is(err, proc.ErrGone) {
			continue
		}
		if err != nil {
			return 0, err
		}
		holds[m.PID] = p
		pids = append(pids, m.PID)
		if !found { // else an attach that failed half way is made whole
			taken++
		}
	}
	err = j.Attach(pids)
	var errs []error
	for pid, p := range holds {
		if p.Signal(0) != nil {
			errs = append(errs, h.putBack(j, pid))
		}
	}
	for _, m := range members {
		// One that is born before this has the limits it was born with, and is in the next round's list.
		if holds[m.PID] != nil && err == nil {
			errs = append(errs, h.limit(j, m.ID(), limits))
		}
	}
	if err != nil {
		err = moveError(err)
	}
	return taken, errors.Join(append(errs, err)...)
}

// putBack takes a stranger out of the job that got the number of a process that ended while it was moved. Where the
// stranger was before is lost; a process so young is where its parent is.
func (h *hook) putBack(j *cgroup.Job, pid int) error {
	now, alive, err := h.process(pid)
	if err != nil || !alive {
		return err
	}
	if in, found, err := h.tree.JobOf(pid); err != nil || !found || in != j.ID() {
		return err
	}
	if in, found, _ := h.tree.JobOf(now.PPID); found && in == j.ID() { // the job's own child
		return nil
	}
	err = h.tree.MoveBeside(pid, now.PPID)
	text := fmt.Sprintf("pid %d ended and its number was given to %q meanwhile", pid, now.Comm)
	if err != nil {
		return hostapi.Errorf(hostapi.KindBusy, "%s: %w", text, err)
	}
	return hostapi.Errorf(hostapi.KindBusy, "%s, which was put back", text)
}

func moveError(err error) error {
	kind := hostapi.KindNode
	if errors.Is(err, cgroup.ErrNotFound) { // the job ends at this moment
		kind = hostapi.KindBusy
	}
	return hostapi.Errorf(kind, "%w", err)
}
