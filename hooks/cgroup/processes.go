package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/proc"
)

// ExecjobLaunch moves the session that MoM created for a program into the job's cgroup, and sets
// its resource limits. Only then does the program start. Variables show it the job's share.
func (h *hook) ExecjobLaunch(_ context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	j, err := h.job(req)
	if err != nil {
		return nil, err
	}
	s, exists, err := stateOf(req.Job, req.Node, j)
	if !exists {
		return nil, hostapi.Errorf(hostapi.KindNode, "job %s has no cgroup on this host: %w",
			j.ID(), cgroup.ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	a, limits, err := h.launchLimits(req)
	if err != nil {
		r, _ := j.JobMark()
		return holdBeyond(r.Begin, err)
	}
	again := s.scheduleLook()
	if s.Grouped() {
		j = j.WithSubgroups()
	}
	if !isFirst(s.JobMark) {
		j = j.ApartFromOwner()
	}
	if delay := req.Job.KillDelay; delay != nil { // PBS does not send it with begin
		h.with(j.ID(), func(e *job) { e.known, e.killDelay = true, delay })
	}
	out := &hostapi.Outcome{State: s.encode(), CallAgain: again}
	setVariables(out, req, h.policy.variables(s.JobMark, a))
	if req.PID == 0 {
		return out, nil
	}
	leader, alive, err := h.named(req.PID)
	if err != nil {
		return nil, err
	}
	if !alive {
		h.logOf(j.ID()).Infof("launch pid %d: the process has already ended", req.PID)
		return out, nil
	}
	// A process that does not lead its session is still in MoM's session.
	_, err = h.moveSession(j, leader, func(proc.Process) bool { return leader.Session == leader.PID }, limits)
	if err != nil {
		return nil, fmt.Errorf("launch pid %d: %w", req.PID, err)
	}
	if h.snapshot(j.ID()).asStays {
		out.JobStderr = []string{asStays}
	}
	if err := markLaunch(j, s.JobMark, req); err != nil {
		if s.Delegated { // the next program would count as the first
			return nil, hostapi.Errorf(kindOf(err), "launch pid %d: %w", req.PID, err)
		}
		h.logOf(j.ID()).Warn(err) // it matters only if the host's record is lost
	}
	return out, nil
}

// isFirst reports whether the job's first program is launched. pbs_mom waits for every other one,
// and answers nobody meanwhile (openpbs src/resmom/start_exec.c, start_process).
func isFirst(m cgroup.JobMark) bool {
	return m.Begin != nil && m.Begin.Job.MotherSuperior && m.Begin.Job.SessionID == 0
}

// markLaunch adds to the job's mark what PBS does not send with begin: its session and kill_delay.
// Only the first launch changes the mark.
func markLaunch(j *cgroup.Job, m cgroup.JobMark, req *hostapi.Request) error {
	if m.Begin == nil || m.Begin.Job.SessionID != 0 {
		return nil
	}
	begin, job := *m.Begin, *m.Begin.Job
	job.SessionID = cmp.Or(req.Job.SessionID, req.PID)
	if req.Job.KillDelay != nil {
		job.KillDelay = req.Job.KillDelay
	}
	begin.Job, m.Begin = &job, &begin
	return j.SetJobMark(m)
}

// ExecjobAttach adds a process that MoM did not start to the job and applies the job's resource
// limits to it. It also adds the processes of the same session that belong to the job's owner. As
// in PBS, it is not an error if the process is gone. It is one if the process belongs to another
// user. Only that of a login may be root's.
func (h *hook) ExecjobAttach(_ context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	j, err := h.job(req)
	if err != nil {
		return nil, err
	}
	reject := func(format string, args ...any) (*hostapi.Outcome, error) {
		why := fmt.Sprintf(format, args...)
		return &hostapi.Outcome{
			Reject:  true,
			Message: fmt.Sprintf("attach pid %d to job %s: %s", req.PID, j.ID(), why),
		}, nil
	}
	s, exists, err := stateOf(req.Job, req.Node, j)
	if !exists {
		return reject("the job has no cgroup on this host")
	}
	if err != nil {
		return nil, err
	}
	owner := req.Job.Owner.UID
	p, alive, err := h.named(req.PID)
	if err != nil {
		return nil, err
	}
	if !alive {
		return &hostapi.Outcome{}, nil // not logged, since users could flood the log
	}
	defer p.hold.Close()
	switch {
	case req.StartTime != 0 && p.StartTime != req.StartTime:
		return reject("another process has its pid now")
	case !p.BelongsTo(owner) && !(req.Login && p.BelongsTo(0)):
		return reject("the process does not belong to the job's owner")
	case p.Session == 1:
		return reject("session 1 belongs to the system")
	case p.Kernel:
		return reject("it is a kernel thread")
	case h.isOurs(p.PID):
		return reject("it is hookhost itself")
	}
	// pbs_cgroups leaves such processes alone. But usually they are MPI ranks whose launcher calls
	// pbs_attach, and a job's limits are meant for all its ranks. A rank that came by ssh has the
	// limits of sshd (RLIMIT_MEMLOCK), which have nothing to do with the job.
	_, limits, err := h.launchLimits(req)
	if err != nil {
		return nil, err
	}
	if limits["as"].Hard == proc.RlimitInfinity { // it would only undo what MoM sets for its own programs
		delete(limits, "as")
	}
	again := s.scheduleLook()
	if s.Grouped() {
		j = j.WithSubgroups()
	}
	if p.BelongsTo(0) { // sshd's, of a login
		j = j.ApartFromOwner()
	}
	p.free = true
	taken, err := h.moveSession(j, p, func(m proc.Process) bool { return m.BelongsTo(owner) }, limits)
	if other := cgroup.OtherJobError(""); errors.As(err, &other) {
		return reject("%v", other)
	}
	if err != nil {
		return nil, fmt.Errorf("attach pid %d: %w", req.PID, err)
	}
	if taken > 0 {
		attached, err := j.Attached()
		if err = errors.Join(err, j.SetAttached(attached+taken)); err != nil {
			h.logOf(j.ID()).Warn(err)
		}
	}
	out := &hostapi.Outcome{CallAgain: again}
	if s.PerTask {
		out.State = s.encode()
	} // else there is no state to store: what matters is on the cgroup, and the next measurement reports
	return out, nil
}

// isOurs reports whether pid is this hook or its host, neither of which may be moved into a job.
func (h *hook) isOurs(pid int) bool { return slices.Contains(h.self, pid) }
