package main

import (
	"bytes"
	"errors"
	"fmt"
	"syscall"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/proc"
)

// rounds bounds the chase after a session that forks while it is being moved. Each round moves what
// the one before could not see, and children of a moved process are born inside.
const rounds = 16

// member is a process that is to be moved. Its fields were read while it was held.
type member struct {
	proc.Process
	hold held
	free bool // it must not be in another job; else one that is stays there
}

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
	return member{Process: p, hold: hold}, true, nil
}

// named is member of a process that somebody has named. Some debuggers and launchers name it by the
// number of one of its threads.
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

// moveSession moves first and the other members of its session that want admits and that are in no
// other job, and gives them limits. The result is how many were moved that were in no part of the
// job already. The error is a cgroup.OtherJobError when first was to be free and is not. In any
// case moveSession lets go of first. Processes that escape being moved are KindBusy: no user's
// doing makes a node bad.
//
// Each process is held, judged and moved before the next one is looked at. A walk over all of them
// between the judgement and the move would be time to give their numbers away.
func (h *hook) moveSession(
	j *cgroup.Job,
	first member,
	want func(proc.Process) bool,
	limits map[string]proc.Rlimit,
) (taken int, err error) {
	// The end of the job kills what is in it: never the system's first process, nor us.
	if first.PID <= 1 || first.Kernel || h.isOurs(first.PID) {
		first.hold.Close()
		return 0, hostapi.Errorf(hostapi.KindJob, "process %d (%s) is not a job's", first.PID, first.Comm)
	}
	if taken, err = h.move(j, first, limits); err != nil { // even if it leaves its session meanwhile
		return taken, err
	}
	done := map[int]bool{first.PID: true}
	for range rounds {
		before := forks(h.stat)
		pids, err := h.sessionOf(first.Process)
		if err != nil {
			return taken, err
		}
		found := false
		for _, pid := range pids {
			if done[pid] || pid <= 1 || h.isOurs(pid) {
				continue
			}
			m, alive, err := h.member(pid)
			if err != nil {
				return taken, fmt.Errorf("list session %d: %w", first.Session, err)
			}
			if !alive {
				continue
			}
			if m.Session != first.Session || !want(m.Process) {
				m.hold.Close()
				continue
			}
			done[pid], found = true, true
			n, err := h.move(j, m, limits)
			if taken += n; err != nil {
				return taken, err
			}
		}
		// No process is missing in the list if none has begun since before it.
		if !found || before != "" && forks(h.stat) == before {
			return taken, nil
		}
	}
	return taken, hostapi.Errorf(hostapi.KindBusy, "session %d forks faster than its processes can be moved",
		first.Session)
}

// sessionOf lists the session of first. Session 0 is no session: all processes whose sessions began
// outside the pid namespace of this /proc (a container's) have that number.
func (h *hook) sessionOf(first proc.Process) ([]int, error) {
	if first.Session == 0 {
		return nil, nil
	}
	return h.sessions.PIDs(first.Session)
}

// forks is how many processes the kernel has made so far (proc_stat(5)); "" if it does not say. The
// kernel counts a process when that can be seen in /proc. A move waits for forks of the process
// that it moves (cgroup_threadgroup_rwsem). So a count that stands still from before a list to
// after the moves has missed none.
func forks(stat *kernfs.Reader) string {
	b, err := stat.ReadFile()
	if err != nil {
		return ""
	}
	_, text, _ := bytes.Cut(b, []byte("\nprocesses "))
	count, _, _ := bytes.Cut(text, []byte("\n"))
	return string(count)
}

// held is a hold on a process.
type held interface {
	cgroup.Process
	Close() error
}

// byStartTime is the hold where the kernel has no pidfds.
type byStartTime struct {
	procfs *kernfs.FS
	id     hostapi.ProcessID
}

func (p byStartTime) PID() int { return p.id.PID }

func (p byStartTime) Close() error { return nil }

func (p byStartTime) Signal(syscall.Signal) error { return proc.Check(p.procfs, p.id) }

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

// move moves one process into the job, gives it limits and lets go of it. The result is 1 if the
// process was in no part of the job, else 0.
func (h *hook) move(j *cgroup.Job, m member, limits map[string]proc.Rlimit) (taken int, err error) {
	defer m.hold.Close()
	in, err := j.Attach(m.hold)
	if other := cgroup.OtherJobError(""); errors.As(err, &other) {
		if m.free {
			return 0, other
		}
		return 0, nil
	}
	if errors.Is(err, cgroup.ErrEnded) {
		return 0, h.afterEnd(j, m.Process)
	}
	if in {
		taken = 1
	}
	if err != nil {
		return taken, moveError(err)
	}
	// A child that is born before this has the limits it was born with, and is in the next round's
	// list.
	return taken, h.limit(j, m.ID(), limits)
}

// afterEnd deals with the process that has the number of one that ended while it was moved. A
// process that is in the job stays there: it may be the job's own. A process of the same user that
// is there by halves is taken in as a whole, since one is no stray any more.
func (h *hook) afterEnd(j *cgroup.Job, was proc.Process) error {
	for range rounds {
		m, alive, err := h.member(was.PID)
		if err != nil || !alive {
			return err
		}
		defer m.hold.Close()
		if in, found, err := h.tree.JobOf(m.PID); err != nil || !found || in != j.ID() {
			return err
		}
		if m.UID != was.UID {
			h.logOf(j.ID()).Warnf("pid %d ended while it was moved, and its number is %q's of uid %d, "+
				"which is in the job", m.PID, m.Comm, m.UID)
			return nil
		}
		_, err = j.Attach(m.hold)
		if other := cgroup.OtherJobError(""); errors.As(err, &other) {
			return nil
		}
		if !errors.Is(err, cgroup.ErrEnded) {
			return err
		}
	}
	return nil
}

func moveError(err error) error {
	kind := hostapi.KindNode
	if errors.Is(err, cgroup.ErrNotFound) { // the job ends at this moment
		kind = hostapi.KindBusy
	}
	return hostapi.Errorf(kind, "%w", err)
}
