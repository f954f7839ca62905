package main

import (
	"fmt"
	"strconv"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/pbs"
)

// ask is what a job asked for on this host.
type ask struct {
	pbs.HostShare
	pids  *int64   // its own bound on its tasks (-l pids=N); nil when it asked for none
	notes []string // what of it cannot be told
}

func askOf(job *hostapi.Job, node string) (ask, error) {
	chunks := []pbs.VnodeChunk{{Vnode: node, Host: node, Resources: job.ResourceList}}
	if job.ExecVnode != "" {
		var err error
		if chunks, err = pbs.ParseExecVnode(job.ExecVnode); err != nil {
			return ask{}, err
		}
	}
	share, err := pbs.OnHost(chunks, node)
	if err != nil {
		return ask{}, err
	}
	a := ask{HostShare: share}
	if err := a.takeVmem(job, chunks); err != nil {
		return ask{}, err
	}
	a.pids, err = pidsOf(job)
	return a, err
}

// takeVmem looks for vmem in the job's own list. It is not scheduled by default and then stands only there
// (openpbs-observed: vnode_list), so it can be told apart by host only when there is one.
func (a *ask) takeVmem(job *hostapi.Job, chunks []pbs.VnodeChunk) error {
	v, ok := job.ResourceList["vmem"]
	if !ok || a.Vmem != nil {
		return nil
	}
	size, err := pbs.ParseSize(v)
	if err != nil {
		return fmt.Errorf("resource_list vmem=%s: %w", v, err)
	}
	if size == 0 { // PBS writes that for what was not asked for
		return nil
	}
	for _, c := range chunks {
		if c.Host != chunks[0].Host {
			a.notes = append(a.notes, fmt.Sprintf("vmem=%s is not enforced: exec_vnode does not say how much of it each host has", size.KB()))
			return nil
		}
	}
	a.Vmem = &size
	return nil
}

// pidsOf returns the job's own bound on its tasks.
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
