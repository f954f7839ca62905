package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/pbs"
)

// ExecjobBegin makes the job's cgroup with its limits, or nothing at all.
func (h *hook) ExecjobBegin(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	a, err := askOf(req.Job, req.Node)
	if errors.Is(err, pbs.ErrNotOnHost) { // MoM thinks it has: one of the two has the wrong name for this host
		return nil, hostapi.Errorf(hostapi.KindNode, "job %s: %w", req.Job.ID, err)
	}
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindJob, "job %s: %w", req.Job.ID, err)
	}
	j, err := h.job(req)
	if err != nil {
		return nil, err
	}
	release, err := h.turns.take(ctx, j.ID())
	if err != nil {
		return nil, err
	}
	defer release()
	if err := h.clear(ctx, j); err != nil {
		return nil, err
	}
	unlock, err := h.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	there, err := h.survey()
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "survey cgroups: %w", err)
	}
	others, err := h.holdings(j.ID())
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "survey cgroups: %w", err)
	}
	limits, notes, err := h.policy.decide(there, a, others)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil { // nobody takes an answer after the alarm
		return nil, hostapi.Errorf(hostapi.KindBusy, "begin job %s: %w", j.ID(), err)
	}
	out := h.begun(limits, a.NCPUs, there)
	out.Notes = notes
	if err := h.create(ctx, j, limits, cgroup.Record{Begin: req, State: out.State}); err != nil {
		return nil, err
	}
	return out, nil
}

// clear makes sure that the job has no cgroup. One of its id is left over from a run that ended without its end event, or
// from this very event before a crash. It goes before the lock is taken: killing takes time.
func (h *hook) clear(ctx context.Context, j *cgroup.Job) error {
	h.unwatch(j.ID())
	h.disown(j.ID())
	if !j.Exists() {
		return nil
	}
	err := h.removeLeft(ctx, j)
	if err == nil {
		h.logOf(j.ID()).Warn("removed the cgroup of an earlier run")
		return nil
	}
	kind := hostapi.KindNode
	if errors.Is(err, errAnswered) || errors.Is(err, cgroup.ErrBusy) || errors.Is(err, cgroup.ErrNotEmpty) || ctx.Err() != nil {
		kind = hostapi.KindBusy
	}
	return hostapi.Errorf(kind, "job %s has a cgroup of an earlier run: %w", j.ID(), err)
}

// create makes the cgroup, with a record of what it is for, and this process its maker; or nothing.
func (h *hook) create(ctx context.Context, j *cgroup.Job, limits cgroup.Limits, r cgroup.Record) error {
	err := j.Create(limits)
	if errors.Is(err, cgroup.ErrExists) { // made by hand since it was looked for
		return hostapi.Errorf(hostapi.KindBusy, "%w", err)
	}
	if err != nil {
		return hostapi.Errorf(hostapi.KindNode, "%w", err)
	}
	if err := errors.Join(h.mark(j), j.SetRecord(r)); err != nil {
		return hostapi.Errorf(hostapi.KindNode, "mark cgroup of job %s: %w", j.ID(), errors.Join(err, h.remove(ctx, j)))
	}
	h.own(j.ID())
	h.watch(j)
	return nil
}

// begun is the outcome of an accepted begin. The zeros make MoM leave these resources to the hook from the start
// (openpbs mom_mach.c, ATR_VFLAG_HOOK); what cannot be measured here is not claimed.
func (h *hook) begun(l cgroup.Limits, ncpus int, there host) *hostapi.Outcome {
	cpus, mems := l.CPUs, l.Mems
	if cpus.IsEmpty() {
		cpus, mems = there.cpus, there.mems
	}
	s := state{BegunMicros: sinceBoot(), NCPUs: ncpus, CPUs: cpus.String(), Mems: mems.String()}
	used := hostapi.Resources{"ncpus": fmt.Sprint(ncpus)}
	if h.tree.Has("cpuacct") || h.tree.Mode() != cgroup.ModeV1 {
		used["cput"], used["cpupercent"] = "00:00:00", "0"
	}
	if h.tree.Has("memory") {
		used["mem"] = "0kb"
	}
	return &hostapi.Outcome{
		ResourcesUsed: used,
		Usage:         &hostapi.HostUsage{CPUs: s.CPUs, Mems: s.Mems, NCPUs: ncpus, MemLimitBytes: l.Mem},
		State:         s.encode(),
	}
}

// survey reads what all jobs together may use.
func (h *hook) survey() (host, error) {
	there := host{node: h.node, cpus: h.node.Online, hasMemsw: h.tree.Has("memsw"), hasPids: h.tree.Has("pids")}
	cpus, err := h.tree.CPUs()
	if errors.Is(err, cgroup.ErrUnsupported) {
		return there, nil // no cpusets here
	}
	if err != nil {
		return host{}, err
	}
	there.cpus = cpus.Intersect(h.node.Online)
	there.mems, err = h.tree.Mems()
	return there, err
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
