package main

import (
	"bytes"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/proc"
)

// rounds limits how often a session is listed again if it forks while it is being moved. Each round
// moves the processes that the previous one could not see. Children of a moved process start
// inside.
const rounds = 16

// member is a process to be moved. Its fields were read while it was held.
type member struct {
	proc.Process
	hold held
	free bool // if true, a process in another job is an error; otherwise it stays there
}

// member holds the process pid. alive is false if the process is gone or is a zombie.
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

// named is like member for a pid that came from elsewhere. Some debuggers and launchers give the
// number of a thread.
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

// moveSession moves first and sets its limits. It does the same with the other members of its
// session that want accepts and that are in no other job. It returns how many processes were new to
// the job. If first must be free but is in another job, the error is a cgroup.OtherJobError.
// moveSession always releases first. If processes keep escaping, the error is KindBusy: users must
// not be able to make a node look bad.
//
// Each process is held, checked and moved before the next. If all were checked first, their pids
// could be reused meanwhile.
func (h *hook) moveSession(
	j *cgroup.Job,
	first member,
	want func(proc.Process) bool,
	limits map[string]proc.Rlimit,
) (taken int, err error) {
	// The job's end kills every process in it, so neither the system's first process nor this
	// program may be in it.
	if first.PID <= 1 || first.Kernel || h.isOurs(first.PID) {
		first.hold.Close()
		return 0, hostapi.Errorf(hostapi.KindJob, "process %d (%s) cannot be in a job", first.PID, first.Comm)
	}
	var waited time.Duration
	if taken, err = h.move(j, first, limits, &waited); err != nil { // even if it leaves its session meanwhile
		return taken, err
	}
	done := map[int]bool{first.PID: true}
	for range rounds {
		before := forks(h.roots.Proc)
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
			n, err := h.move(j, m, limits, &waited)
			if taken += n; err != nil {
				return taken, err
			}
		}
		// The list was complete if no process was created since before it was made.
		if !found || before != "" && forks(h.roots.Proc) == before {
			return taken, nil
		}
	}
	return taken, hostapi.Errorf(hostapi.KindBusy, "session %d forks faster than its processes can be moved",
		first.Session)
}

// sessionOf lists the session of first. Session 0 does not identify a session: it stands for all
// sessions that began outside the pid namespace of this /proc, as in a container.
func (h *hook) sessionOf(first proc.Process) ([]int, error) {
	if first.Session == 0 {
		return nil, nil
	}
	return h.sessions.PIDs(first.Session)
}

// forks returns how many processes the kernel has created so far (proc_stat(5)), or "" if unknown.
// The kernel counts a process when it becomes visible in /proc. A move waits for forks of the
// process that it moves (cgroup_threadgroup_rwsem). So if the count is the same before a list and
// after the moves, no process was missed.
func forks(procfs *kernfs.FS) string {
	b, err := procfs.ReadValue("stat")
	if err != nil {
		return ""
	}
	_, text, _ := bytes.Cut(b, []byte("\nprocesses "))
	count, _, _ := bytes.Cut(text, []byte("\n"))
	return string(count)
}

// held is a process that is held, so that it cannot be confused with a later one of the same pid.
type held interface {
	cgroup.Process
	Close() error
}

// byStartTime replaces a pidfd if the kernel does not have pidfds.
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

// move moves one process into the job, sets its limits and releases it. It returns 1 if no part of
// the job contained the process before, else 0. It adds to waited how long it waited for the
// process's memory map. If that is held, the error is KindBusy.
func (h *hook) move(j *cgroup.Job, m member, limits map[string]proc.Rlimit,
	waited *time.Duration) (taken int, err error) {
	defer m.hold.Close()
	in, err := j.Attach(m.hold, func() error { return h.checkMap(m.UID, m.PID, waited) })
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
		return taken, hostapi.Errorf(kindOf(err), "%w", err)
	}
	// A child that is created before this call inherits the old limits, but the next round lists
	// it.
	return taken, h.limit(j, m.ID(), limits)
}

// longestCheck limits how long the memory maps of several processes delay an event. The check of a
// map that is only in use takes milliseconds, and on a busy node up to half a second.
const longestCheck = 10 * time.Second

// checkMap fails with proc.ErrHangs if the memory map of a process is held, or if such checks took
// longestCheck so far, which is waited. It adds to waited how long the check took. uid is as for
// proc.Environs.Read.
func (h *hook) checkMap(uid, pid int, waited *time.Duration) error {
	if *waited > longestCheck {
		return fmt.Errorf("process %d: %w", pid, proc.ErrHangs)
	}
	began := time.Now()
	defer func() { *waited += time.Since(began) }()
	return h.environs.CheckMap(uid, pid)
}

// afterEnd handles a process whose pid was reused while its predecessor was being moved. If the
// process is in the job, it stays there, since it may belong to the job. A process of the same user
// that is only partly in the job is moved completely. It can no longer be a stray.
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
			h.logOf(j.ID()).Warnf("pid %d ended while it was being moved, and now is %q of uid %d, "+
				"which is in the job", m.PID, m.Comm, m.UID)
			return nil
		}
		_, err = j.Attach(m.hold, func() error { return h.checkMap(m.UID, m.PID, new(time.Duration)) })
		if other := cgroup.OtherJobError(""); errors.As(err, &other) {
			return nil
		}
		if err == nil {
			return nil
		}
		if !errors.Is(err, cgroup.ErrEnded) {
			return hostapi.Errorf(kindOf(err), "%w", err)
		}
	}
	return nil
}
