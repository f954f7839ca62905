package main

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
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

// member is a process that is to be moved. What is known of it was read while it was held.
type member struct {
	proc.Process
	held
	free bool // it must not be in another job; else one that is stays there
}

// otherJob is the job of a member that was to be free.
type otherJob string

func (e otherJob) Error() string { return "it is part of job " + string(e) }

// member takes hold of the process pid; alive is false when it is gone or waits to be reaped.
func (h *hook) member(pid int) (m member, alive bool, err error) {
	hold, p, err := h.hold(h.roots.Proc, pid)
	switch {
	case errors.Is(err, proc.ErrGone):
		return m, false, nil
	case err != nil:
		return m, false, err
	case p.Dead():
		hold.Close()
		return m, false, nil
	}
	return member{Process: p, held: hold}, true, nil
}

// named is member of a process that somebody has named, perhaps by the number of one of its threads, as some debuggers and launchers do.
func (h *hook) named(pid int) (m member, alive bool, err error) {
	m, alive, err = h.member(pid)
	if err != nil || alive {
		return m, alive, err
	}
	p, err := proc.Read(h.roots.Proc, pid)
	switch {
	case errors.Is(err, proc.ErrGone):
		return m, false, nil
	case err != nil:
		return m, false, err
	case p.Leader == pid || p.Leader == 0:
		return m, false, nil
	}
	return h.member(p.Leader)
}

// takeIn moves first and the other members of its session that want admits and that are in no other job, and gives them
// limits. It returns how many it moved that were not in the job already, and fails with otherJob when first was to be free and is not. It
// lets go of first. What the processes do to escape being moved is KindBusy: no user's doing makes a node bad.
func (h *hook) takeIn(j *cgroup.Job, first member, want func(proc.Process) bool, limits map[string]hostapi.Rlimit) (taken int, err error) {
	defer first.Close()
	// The end of the job kills what is in it: never the system's first process, nor us.
	if first.PID <= 1 || first.Kernel || h.isOurs(first.PID) {
		return 0, hostapi.Errorf(hostapi.KindJob, "process %d (%s) is not a job's", first.PID, first.Comm)
	}
	members := []member{first} // even if it leaves its session meanwhile
	done := map[int]bool{first.PID: true}
	for range rounds {
		before := forks(h.stat)
		pids, err := h.sessionOf(first.Process)
		if err != nil {
			return taken, err
		}
		pids = slices.DeleteFunc(pids, func(pid int) bool { return done[pid] || pid <= 1 || h.isOurs(pid) })
		found := false
		for len(members)+len(pids) > 0 {
			some := pids[:min(len(pids), maxHeld)]
			pids = pids[len(some):]
			members, err = h.join(members, some, first.Session, want)
			if err != nil {
				return taken, err
			}
			for _, m := range members {
				done[m.PID], found = true, true
			}
			n, err := h.move(j, members, limits)
			if taken += n; err != nil {
				return taken, err
			}
			members = nil
		}
		// Where no process has begun since before the list, none is missing in it.
		if !found || before != "" && forks(h.stat) == before {
			return taken, nil
		}
	}
	return taken, hostapi.Errorf(hostapi.KindBusy, "session %d forks faster than its processes can be moved", first.Session)
}

// join adds to members those of pids that are still of the session sid and that want admits, and holds them.
func (h *hook) join(members []member, pids []int, sid int, want func(proc.Process) bool) ([]member, error) {
	for _, pid := range pids {
		m, alive, err := h.member(pid)
		if err != nil {
			release(members)
			return nil, fmt.Errorf("list session %d: %w", sid, err)
		}
		if !alive {
			continue
		}
		if m.Session != sid || !want(m.Process) {
			m.Close()
			continue
		}
		members = append(members, m)
	}
	return members, nil
}

func release(members []member) {
	for _, m := range members {
		m.Close()
	}
}

// sessionOf lists the session of first. Session 0 is no session: all processes whose sessions began outside the pid
// namespace of this /proc (a container's) have that number.
func (h *hook) sessionOf(first proc.Process) ([]int, error) {
	if first.Session == 0 {
		return nil, nil
	}
	return h.sessions.PIDs(first.Session)
}

// forks is how many processes the kernel has made so far (proc_stat(5)); "" where it does not say. It counts a process
// when that can be seen in /proc, and a move waits for forks of the process that it moves (cgroup_threadgroup_rwsem): a
// count that stands still from before a list to after the moves has missed none.
func forks(stat *kernfs.Kept) string {
	b, err := stat.ReadFile()
	if err != nil {
		return ""
	}
	_, text, _ := bytes.Cut(b, []byte("\nprocesses "))
	count, _, _ := bytes.Cut(text, []byte("\n"))
	return string(count)
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

func holdByPidfd(procfs *kernfs.FS, pid int) (held, proc.Process, error) {
	p, read, err := proc.Hold(procfs, pid)
	if errors.Is(err, errors.ErrUnsupported) {
		return holdByStartTime(procfs, pid)
	}
	if err != nil {
		return nil, read, err
	}
	return p, read, nil
}

func holdByStartTime(procfs *kernfs.FS, pid int) (held, proc.Process, error) {
	p, err := proc.Read(procfs, pid)
	if err != nil {
		return nil, p, err
	}
	return byStartTime{procfs, p.ID()}, p, nil
}

// move moves processes, back to back: only the first pays the kernel's grace period. A move goes by number, so each
// process is held meanwhile: what has not been reaped after the move had its number all the time, since it was read. It lets go of them.
func (h *hook) move(j *cgroup.Job, members []member, limits map[string]hostapi.Rlimit) (taken int, err error) {
	defer release(members)
	var mine []member
	var pids []int
	for _, m := range members {
		in, found, err := h.tree.JobOf(m.PID)
		if err != nil {
			return 0, err
		}
		if found && in != j.ID() {
			if m.free {
				return 0, otherJob(in)
			}
			continue
		}
		mine, pids = append(mine, m), append(pids, m.PID)
		if !found { // else an attach that failed half way is made whole
			taken++
		}
	}
	err = j.Attach(pids)
	var errs []error
	for _, m := range mine {
		if m.Signal(0) != nil {
			errs = append(errs, h.putBack(j, m.PID))
		}
	}
	for _, m := range mine {
		// One that is born before this has the limits it was born with, and is in the next round's list.
		if err == nil {
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
