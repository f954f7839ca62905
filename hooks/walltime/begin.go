package main

import (
	"cmp"
	"context"

	"github.com/hookhost/hookhost/hostapi"
)

// ExecjobBegin reads the job's request and asks the host to call when the first action is due. The
// job's cgroup may not exist yet.
func (h *hook) ExecjobBegin(_ context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	s := stateFor(req)
	told, err := s.follow(h.policy, req.Job, h.cpusFor(req.Job, nil))
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindJob, "job %s: %w", req.Job.ID, err)
	}
	return s.outcome(told), nil
}

// outcome returns the answer to an event with the job's request.
func (s *state) outcome(told []string) *hostapi.Outcome {
	return &hostapi.Outcome{State: s.encode(), CallAtElapsed: s.Next, WalltimeLimit: s.walltimeLimit(), JobStderr: told}
}

// ExecjobResize applies the new limits. It does not act on a job that exceeds them, since the job
// may be suspended. If the job is running, the host calls immediately.
func (h *hook) ExecjobResize(_ context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	s, err := decodeState(req.Job.State)
	if err != nil {
		h.logOf(req.Job.ID).Warn(err)
	}
	j, err := h.tree.Job(req.Job.ID)
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindJob, "%w", err)
	}
	if s == nil {
		s = cmp.Or(h.found(j), stateFor(req))
	}
	told, err := s.follow(h.policy, req.Job, h.cpusFor(req.Job, j))
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindJob, "job %s: %w", req.Job.ID, err)
	}
	return s.outcome(told), nil
}
