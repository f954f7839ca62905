package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/proc"
)

// ExecjobLaunch puts the program that MoM is about to start into the job's cgroup: the session that MoM made for it, or,
// where the caller starts it itself, by telling where it has to be born.
func (h *hook) ExecjobLaunch(_ context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	j, s, err := h.live(req)
	if err != nil {
		return nil, err
	}
	if s.LaunchedMicros == 0 {
		s.LaunchedMicros = sinceBoot()
	}
	out := &hostapi.Outcome{State: s.encode()}
	if req.PID == 0 {
		join := j.Join()
		out.Join = &hostapi.Join{CgroupDir: join.CgroupDir, Tasks: join.Tasks}
		return out, nil
	}
	leader, err := proc.Read(h.roots.Proc, req.PID)
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindInternal, "launch job %s: %w", j.ID(), err)
	}
	if _, err := h.takeIn(j, leader, func(proc.Process) bool { return true }); err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "launch job %s: %w", j.ID(), err)
	}
	return out, nil
}

// ExecjobAttach takes in a process that MoM did not start, with the processes of its session that belong to the job's
// owner. A process that is gone is no error, as in PBS; one of another user is.
func (h *hook) ExecjobAttach(_ context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	j, s, err := h.live(req)
	if err != nil {
		return nil, err
	}
	owner := req.Job.Owner.UID
	p, err := proc.Read(h.roots.Proc, req.PID)
	if errors.Is(err, proc.ErrGone) {
		h.log.WithFields(logFields(j)).Infof("attach pid %d: no such process any more", req.PID)
		return &hostapi.Outcome{}, nil
	}
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindInternal, "attach pid %d to job %s: %w", req.PID, j.ID(), err)
	}
	if !p.BelongsTo(owner) {
		return &hostapi.Outcome{Reject: true, Message: fmt.Sprintf("attach pid %d to job %s: the process belongs to uid %d, the job to uid %d",
			req.PID, j.ID(), p.UID, owner)}, nil
	}
	if p.Session <= 1 {
		return &hostapi.Outcome{Reject: true, Message: fmt.Sprintf("attach pid %d to job %s: session %d is the system's own", req.PID, j.ID(), p.Session)}, nil
	}
	taken, err := h.takeIn(j, p, func(m proc.Process) bool { return m.BelongsTo(owner) })
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "attach pid %d to job %s: %w", req.PID, j.ID(), err)
	}
	s.Attached += taken
	return &hostapi.Outcome{State: s.encode(), Usage: &hostapi.HostUsage{NCPUs: s.NCPUs, ProcessesAttached: s.Attached}}, nil
}

// live returns the job's cgroup, which begin must have made, and this hook's state.
func (h *hook) live(req *hostapi.Request) (*cgroup.Job, state, error) {
	j, err := h.job(req)
	if err != nil {
		return nil, state{}, err
	}
	if !j.Exists() {
		return nil, state{}, hostapi.Errorf(hostapi.KindInternal, "%s job %s: it has no cgroup on this host: execjob_begin did not run or the job has ended", req.Event, j.ID())
	}
	s, err := stateOf(req.Job)
	return j, s, err
}

// rounds bounds the chase after a session that forks while it is being moved: each round moves what the one before
// could not see, and children of a moved process are born inside.
const rounds = 16

// takeIn moves first and the other members of its session that want admits. It returns how many it moved. All
// moves are made back to back: only the first pays the kernel's grace period.
func (h *hook) takeIn(j *cgroup.Job, first proc.Process, want func(proc.Process) bool) (int, error) {
	handle, err := proc.Open(h.roots.Proc, first.ID())
	if errors.Is(err, proc.ErrGone) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer handle.Close()
	moved := map[int]bool{}
	for range rounds {
		members, err := proc.SessionMembers(h.roots.Proc, first.Session)
		if err != nil {
			return len(moved), err
		}
		inside, err := j.Processes()
		if err != nil {
			return len(moved), err
		}
		var pids []int
		for _, m := range members {
			if !slices.Contains(inside, m.PID) && m.PID > 1 && want(m) {
				pids = append(pids, m.PID)
			}
		}
		if len(pids) == 0 {
			break
		}
		if err := j.Attach(pids); err != nil {
			return len(moved), err
		}
		for _, pid := range pids {
			moved[pid] = true
		}
	}
	// The pid was written by number. If the process still lives, the number was its own all the time; if it does
	// not, it ended meanwhile, and a stranger can hold its number only after the pid space has wrapped around.
	if moved[first.PID] && !proc.Alive(h.roots.Proc, first.ID()) {
		if now, err := proc.Read(h.roots.Proc, first.PID); err == nil && now.StartTime != first.StartTime {
			return len(moved), fmt.Errorf("pid %d ended and its number was given to %q meanwhile", first.PID, now.Comm)
		}
	}
	return len(moved), nil
}
