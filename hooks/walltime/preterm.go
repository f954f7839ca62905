package main

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
)

// ExecjobPreterm sends the job's processes on this host the signal that the job's first host has
// sent to its own. The signal is a warning, or SIGTERM at the end of its time. A request that names
// no signal does nothing: the job is killed at somebody's request then, and MoM sends its signals
// itself.
//
// The signals of a suspended job are kept until it goes on: it is not thawed by them.
func (h *hook) ExecjobPreterm(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	if req.Signal == "" {
		return &hostapi.Outcome{}, nil
	}
	id := req.Job.ID
	sig, err := config.ParseSignal(req.Signal)
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindJob, "job %s: signal: %w", id, err)
	}
	j, err := h.tree.Job(id)
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindJob, "%w", err)
	}
	frozen, _ := j.Frozen() // hook cgroup has thawed the job, if it could
	switch {
	case sig != unix.SIGTERM:
		err = j.SignalEach(sig)
	case frozen:
		err = j.SignalEach(sig, unix.SIGCONT)
	default:
		err = j.SignalAll(ctx, sig, unix.SIGCONT)
	}
	if err != nil && !errors.Is(err, cgroup.ErrNotFound) {
		return nil, hostapi.Errorf(hostapi.KindNode, "%w", err)
	}
	h.logOf(id).Infof("%s, as the job's first host has said", config.SignalName(sig))
	return &hostapi.Outcome{}, nil
}
