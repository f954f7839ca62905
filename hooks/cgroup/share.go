package main

import (
	"fmt"
	"strconv"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/pbs"
)

// shareOf returns what the job was given on this host: the sum of its chunks here. exec_vnode decides; an event
// without one (hookhost event, other MoMs) is taken as one chunk of the job's own resource_list.
func shareOf(job *hostapi.Job, node string) (pbs.HostShare, error) {
	chunks := []pbs.VnodeChunk{{Vnode: node, Host: node, Resources: job.ResourceList}}
	alone := true
	if job.ExecVnode != "" {
		var err error
		if chunks, err = pbs.ParseExecVnode(job.ExecVnode); err != nil {
			return pbs.HostShare{}, err
		}
		for _, c := range chunks {
			alone = alone && c.Host == chunks[0].Host
		}
	}
	share, err := pbs.OnHost(chunks, node)
	if err != nil {
		return pbs.HostShare{}, err
	}
	// vmem is not scheduled by default and then stands only in the job's own list (openpbs-observed: vnode_list). It
	// can be told apart by host only when there is one.
	if v, ok := job.ResourceList["vmem"]; ok && alone && share.Vmem == nil {
		size, err := pbs.ParseSize(v)
		if err != nil {
			return pbs.HostShare{}, fmt.Errorf("resource_list vmem=%s: %w", v, err)
		}
		share.Vmem = &size
	}
	return share, nil
}

// pidsOf returns the job's own bound on its tasks (-l pids=N), nil when it asked for none.
func pidsOf(job *hostapi.Job) (*int64, error) {
	v, ok := job.ResourceList["pids"]
	if !ok {
		return nil, nil
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < minPids {
		return nil, fmt.Errorf("resource_list pids=%s: not a number of %d or more", v, minPids)
	}
	return &n, nil
}

// minPids leaves room for the thread that starts the job's program and is in its cgroup for that moment.
const minPids = 2
