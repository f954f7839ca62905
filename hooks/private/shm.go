package main

import (
	"errors"
	"fmt"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/pbs"
)

// sharedMemory returns the size that the job requests for its /dev/shm, or 0.
func (h *hook) sharedMemory(job *hostapi.Job) (pbs.Size, error) {
	const resource = "shm_size"
	text, found := job.ResourceList[resource]
	if !found {
		return 0, nil
	}
	size, err := pbs.ParseSize(text)
	if err != nil || size == 0 { // PBS writes 0 for a size that was not requested
		return 0, err
	}
	if !h.policy.Private.HasSharedMemory() {
		return 0, fmt.Errorf("%s=%s: dirs in [private] of this host has no tmpfs on %s", resource, pbs.Shown(text),
			config.SharedMemory)
	}
	cg, err := h.tree.Job(job.ID)
	if err != nil {
		return 0, err
	}
	limits, err := cg.Limits("memory")
	if errors.Is(err, cgroup.ErrNotFound) { // hook cgroup has not limited it
		err = nil
	}
	if err == nil && limits.Mem != nil && int64(size) > *limits.Mem {
		err = fmt.Errorf("%s=%s: more than the job's memory on this host, %s", resource, pbs.Shown(text),
			pbs.Size(*limits.Mem))
	}
	return size, err
}
