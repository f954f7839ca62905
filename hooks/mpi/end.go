package main

import (
	"context"

	"github.com/hookhost/hookhost/hostapi"
)

// ExecjobEnd removes the job's host file, even if host files have been disabled since.
func (h *hook) ExecjobEnd(_ context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	if spans(req.Job) {
		if err := removeHostfile(h.aux, req.Job.ID); err != nil {
			return nil, hostapi.Errorf(hostapi.KindNode, "end job %s: %w", req.Job.ID, err)
		}
	}
	return &hostapi.Outcome{}, nil
}

// ExecjobAbort does the same.
func (h *hook) ExecjobAbort(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	return h.ExecjobEnd(ctx, req)
}
