package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
)

// ExecjobBegin makes the job's cgroup with its limits, or nothing at all.
func (h *hook) ExecjobBegin(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	share, err := shareOf(req.Job, req.Node)
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindJob, "job %s: %w", req.Job.ID, err)
	}
	pids, err := pidsOf(req.Job)
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindJob, "job %s: %w", req.Job.ID, err)
	}
	j, err := h.job(req)
	if err != nil {
		return nil, err
	}
	// A cgroup of this id is left over from a run that ended without its end event, or from this very event before
	// a crash. It goes before the lock is taken: killing takes time.
	if err := h.remove(ctx, j); err != nil {
		return nil, hostapi.Errorf(hostapi.KindBusy, "remove leftover of job %s: %w", j.ID(), err)
	}
	unlock, err := h.tree.Lock(ctx)
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindBusy, "lock cgroup tree: %w", err)
	}
	defer unlock()
	there, err := h.survey()
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "survey cgroup tree: %w", err)
	}
	others, err := h.holdings(j.ID())
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "survey cgroup tree: %w", err)
	}
	limits, notes, err := h.policy.decide(there, share, pids, others)
	if err != nil {
		return nil, err
	}
	if err := j.Create(limits); err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "create cgroup of job %s: %w", j.ID(), err)
	}
	if err := h.mark(j); err != nil {
		return nil, errors.Join(hostapi.Errorf(hostapi.KindNode, "mark cgroup of job %s: %w", j.ID(), err), h.remove(ctx, j))
	}
	h.watch(j)
	return begun(limits, share.NCPUs, there, notes), nil
}

// begun is the outcome of an accepted begin. The zeros make MoM leave these resources to the hook from the start
// (openpbs mom_mach.c, ATR_VFLAG_HOOK).
func begun(l cgroup.Limits, ncpus int, h host, notes []string) *hostapi.Outcome {
	cpus, mems := l.CPUs, l.Mems
	if cpus.IsEmpty() {
		cpus, mems = h.cpus, h.mems
	}
	s := state{BegunMicros: sinceBoot(), NCPUs: ncpus}
	return &hostapi.Outcome{
		ResourcesUsed: hostapi.Resources{"cput": "00:00:00", "cpupercent": "0", "mem": "0kb", "ncpus": fmt.Sprint(ncpus)},
		Usage:         &hostapi.HostUsage{CPUs: cpus.String(), Mems: mems.String(), NCPUs: ncpus, MemLimitBytes: l.Mem},
		Notes:         notes,
		State:         s.encode(),
	}
}

// survey reads what all jobs together may use.
func (h *hook) survey() (host, error) {
	cpus, err := h.tree.CPUs()
	if err != nil {
		return host{}, err
	}
	mems, err := h.tree.Mems()
	if err != nil {
		return host{}, err
	}
	return host{node: h.node, cpus: cpus.Intersect(h.node.Online), mems: mems, hasMemsw: h.tree.Has("memsw")}, nil
}

// holdings reads what every job but self holds. A job that goes away meanwhile holds nothing.
func (h *hook) holdings(self string) ([]holding, error) {
	ids, err := h.tree.JobIDs()
	if err != nil {
		return nil, err
	}
	var others []holding
	for _, id := range ids {
		if id == self {
			continue
		}
		j, err := h.tree.Job(id)
		if err != nil {
			return nil, err
		}
		l, err := j.Limits()
		if errors.Is(err, cgroup.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		others = append(others, holding{id: id, limits: l})
	}
	return others, nil
}
