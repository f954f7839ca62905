package main

import (
	"context"
	"errors"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/inventory"
)

// ExecjobEpilogue reports how the job used its devices, provided NVML answers in time. Hook cgroup
// has already ended the job's processes. The filter stays until the cgroup is removed.
func (h *hook) ExecjobEpilogue(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	j, err := h.job(req)
	if err != nil {
		return nil, err
	}
	g, err := inventory.GrantOf(j)
	if errors.Is(err, cgroup.ErrNotFound) {
		return &hostapi.Outcome{}, nil
	}
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "epilogue of job %s: %w", j.ID(), err)
	}
	if used := h.measure(ctx, j, g); len(used) > 0 {
		return &hostapi.Outcome{Usage: &hostapi.HostUsage{Devices: used}}, nil
	}
	return &hostapi.Outcome{}, nil
}

// ExecjobEnd removes the job's files. The filter disappears with the cgroup.
func (h *hook) ExecjobEnd(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	j, err := h.job(req)
	if err != nil {
		return nil, err
	}
	h.erase(j.ID())
	if err := h.unpublish(ctx, j.ID()); err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "end job %s: %w", j.ID(), err)
	}
	return &hostapi.Outcome{}, nil
}

// ExecjobAbort undoes begin.
func (h *hook) ExecjobAbort(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	return h.ExecjobEnd(ctx, req)
}
