package main

import (
	"errors"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/pbs"
)

// sharedMemory returns the size that the job requests for its /dev/shm, or 0. An error of KindJob
// refuses the request.
func (h *hook) sharedMemory(job *hostapi.Job) (pbs.Size, error) {
	const resource = config.SharedMemorySize
	text, found := job.ResourceList[resource]
	if !found {
		return 0, nil
	}
	size, err := pbs.ParseSize(text)
	if err != nil {
		return 0, hostapi.Errorf(hostapi.KindJob, "job %s: %s: %w", job.ID, resource, err)
	}
	if size == 0 { // PBS writes 0 for a size that was not requested
		return 0, nil
	}
	if !h.policy.HasSharedMemory() {
		return 0, hostapi.Errorf(hostapi.KindJob, "job %s: %s=%s: dirs in [private] of this host has no tmpfs on %s",
			job.ID, resource, pbs.Shown(text), config.SharedMemory)
	}
	cg, err := h.tree.Job(job.ID)
	if err != nil {
		return 0, hostapi.Errorf(hostapi.KindNode, "%w", err)
	}
	limits, err := cg.Limits("memory")
	if errors.Is(err, cgroup.ErrNotFound) { // hook cgroup has not limited it
		return size, nil
	}
	if err != nil {
		return 0, hostapi.Errorf(hostapi.KindNode, "job %s: %w", job.ID, err)
	}
	if limits.Mem != nil && int64(size) > *limits.Mem {
		return 0, hostapi.Errorf(hostapi.KindJob, "job %s: %s=%s: more than the job's memory on this host, %s",
			job.ID, resource, pbs.Shown(text), pbs.Size(*limits.Mem))
	}
	return size, nil
}
