package main

import (
	"cmp"
	"context"

	"github.com/hookhost/hookhost/hostapi"
)

// ExecjobBegin looks at what the job asks for and has the host call when the first of it is due.
// The job's cgroup need not be there.
func (h *hook) ExecjobBegin(_ context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	s := stateFor(req)
	told, err := s.follow(h.policy, req.Job, h.cpusFor(req.Job, nil))
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindJob, "job %s: %w", req.Job.ID, err)
	}
	return s.outcome(told), nil
}

// outcome is the answer to an event that says what the job asks for.
func (s *state) outcome(told []string) *hostapi.Outcome {
	return &hostapi.Outcome{State: s.encode(), CallAtElapsed: s.Next, WalltimeLimit: s.walltimeLimit(), JobStderr: told}
}

// ExecjobResize takes over the new limits. A job that is over them is not touched here, for it may
// be suspended: the host calls at once if it runs.
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
