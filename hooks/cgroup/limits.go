package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/placement"
	"github.com/hookhost/hookhost/internal/topology"
)

// sharesPerCPU is cpu.shares for each of ncpus, as pbs_cgroups has it (openpbs pbs_cgroups.PY, configure_job).
const sharesPerCPU = 1000

// holding is what another job holds on this host.
type holding struct {
	id     string
	limits cgroup.Limits
}

// host is what there is to give: the node, and the part of its cpus and NUMA nodes that the parent of all jobs may use.
type host struct {
	node     *topology.Node
	cpus     kernfs.IDSet
	mems     kernfs.IDSet
	hasMemsw bool
}

// decide turns a job's share of this host into limits, given what the other jobs hold. It reads and writes nothing.
// Notes are for the report. Errors carry a kind: KindJob when the host could never give that much, KindBusy
// when other jobs are in the way.
func (p *policy) decide(h host, share pbs.HostShare, pids *int64, others []holding) (cgroup.Limits, []string, error) {
	var l cgroup.Limits
	var notes []string
	if err := p.decideCPUs(&l, h, share, others); err != nil {
		return cgroup.Limits{}, nil, err
	}
	if err := p.decideMemory(&l, h, share, others); err != nil {
		return cgroup.Limits{}, nil, err
	}
	if p.Memsw.Enabled {
		note, err := p.decideMemsw(&l, h, share, others)
		if err != nil {
			return cgroup.Limits{}, nil, err
		}
		if note != "" {
			notes = append(notes, note)
		}
	}
	p.decideShares(&l, share.NCPUs)
	p.decidePids(&l, pids)
	return l, notes, nil
}

func (p *policy) decideCPUs(l *cgroup.Limits, h host, share pbs.HostShare, others []holding) error {
	if !p.Cpuset.Enabled {
		return nil
	}
	if share.NCPUs == 0 {
		if !p.Cpuset.AllowZeroCPUs {
			return hostapi.Errorf(hostapi.KindJob, "cpuset enabled with mandatory ncpus >= 1, but job does not request ncpus on this host")
		}
		return nil // no cpuset of its own: its processes run on whatever the parent has
	}
	var taken kernfs.IDSet
	for _, o := range others {
		taken = taken.Union(o.limits.CPUs)
	}
	req := placement.Request{
		NCPUs: share.NCPUs, Allowed: h.cpus.Minus(p.exclude), Taken: taken, Policy: p.place,
		UseHyperthreads: p.Cpuset.UseHyperthreads, NCPUsAreCores: p.Cpuset.NCPUsAreCores, MemFences: p.Cpuset.MemFences,
	}
	a, err := placement.Place(h.node, req)
	var short *placement.ShortageError
	if errors.As(err, &short) {
		kind := hostapi.KindBusy
		req.Taken = kernfs.IDSet{}
		if _, never := placement.Place(h.node, req); never != nil {
			kind = hostapi.KindJob
		}
		return hostapi.Errorf(kind, "%w%s", err, heldBy(others))
	}
	if err != nil {
		return hostapi.Errorf(hostapi.KindNode, "place job: %w", err)
	}
	l.CPUs = a.CPUs
	l.Mems = a.Mems.Intersect(h.mems)
	if !p.Cpuset.MemFences || l.Mems.IsEmpty() {
		l.Mems = h.mems
	}
	return nil
}

// heldBy names the jobs that hold cpus, for people who wonder why theirs has to wait.
func heldBy(others []holding) string {
	var who []string
	for _, o := range others {
		if !o.limits.CPUs.IsEmpty() {
			who = append(who, fmt.Sprintf("%s by job %s", o.limits.CPUs, o.id))
		}
	}
	if len(who) == 0 {
		return ""
	}
	if len(who) > 8 {
		who = append(who[:8], fmt.Sprintf("and %d more", len(who)-8))
	}
	return "; held: " + strings.Join(who, ", ")
}

// memTotal is the memory that all jobs together may have.
func (p *policy) memTotal(n *topology.Node) int64 {
	return max(0, n.MemTotal-int64(float64(n.MemTotal)*p.Memory.ReservePercent/100)-int64(p.Memory.ReserveAmount))
}

// swapTotal is the swap that all jobs together may have.
func (p *policy) swapTotal(n *topology.Node) int64 {
	return max(0, n.SwapTotal-int64(float64(n.SwapTotal)*p.Memsw.ReservePercent/100)-int64(p.Memsw.ReserveAmount))
}

func (p *policy) decideMemory(l *cgroup.Limits, h host, share pbs.HostShare, others []holding) error {
	if !p.Memory.Enabled {
		return nil
	}
	total := p.memTotal(h.node)
	free := total
	for _, o := range others {
		// A limit of all there is was not asked for: it is what a job without a request gets.
		if o.limits.Mem != nil && *o.limits.Mem < total {
			free -= *o.limits.Mem
		}
	}
	var limit int64
	switch {
	case share.Mem != nil:
		limit = int64(*share.Mem)
		if err := exceeds("mem", limit, max(0, free), total); err != nil {
			return err
		}
	case p.Memory.EnforceDefault && p.Memory.Default > 0:
		limit = min(int64(p.Memory.Default), total)
	default:
		limit = total
	}
	l.Mem = &limit
	if p.Memory.Swappiness >= 0 {
		l.Swappiness = &p.Memory.Swappiness
	}
	return nil
}

func (p *policy) decideMemsw(l *cgroup.Limits, h host, share pbs.HostShare, others []holding) (note string, err error) {
	if !h.hasMemsw {
		if share.Vmem != nil {
			return fmt.Sprintf("vmem=%s is not enforced: this kernel does not account swap", share.Vmem.KB()), nil
		}
		return "", nil
	}
	total := p.memTotal(h.node) + p.swapTotal(h.node)
	free := total
	for _, o := range others {
		if o.limits.MemSwap != nil && *o.limits.MemSwap < total {
			free -= *o.limits.MemSwap
		}
	}
	var limit int64
	switch {
	case share.Vmem != nil:
		limit = int64(*share.Vmem)
		if share.Mem != nil && limit < int64(*share.Mem) {
			return "", hostapi.Errorf(hostapi.KindJob, "vmem requested (%s) under minimum possible (%s)", share.Vmem.KB(), share.Mem.KB())
		}
		if err := exceeds("vmem", limit, max(0, free), total); err != nil {
			return "", err
		}
		if l.Mem != nil && share.Mem == nil && *l.Mem > limit {
			l.Mem = &limit // mem was a default; vmem was asked for
		}
		if h.node.SwapTotal == 0 && l.Mem != nil && limit > *l.Mem {
			note = "vmem exceeds mem, and this host has no swap: mem is the limit that counts"
		}
	case l.Mem == nil:
		return "", nil
	case p.Memsw.EnforceDefault:
		limit = min(total, *l.Mem+min(int64(p.Memsw.Default), p.swapTotal(h.node)))
	default:
		limit = total
	}
	if l.Mem != nil {
		limit = max(limit, *l.Mem)
	}
	l.MemSwap = &limit
	return note, nil
}

// exceeds words a shortage as pbs_cgroups does and says whether waiting can help.
func exceeds(resource string, want, free, total int64) error {
	if want <= free {
		return nil
	}
	kind, have := hostapi.KindBusy, free
	if want > total {
		kind, have = hostapi.KindJob, total
	}
	return hostapi.Errorf(kind, "%s requested (%s) exceeds %s available (%s)", resource, pbs.Size(want).KB(), resource, pbs.Size(have).KB())
}

func (p *policy) decideShares(l *cgroup.Limits, ncpus int) {
	if !p.CPU.Enabled {
		return
	}
	period := time.Duration(p.CPU.CfsPeriod)
	if ncpus == 0 {
		// Two is the least that the kernel takes.
		l.CPUShares = max(2, uint64(p.CPU.ZeroCPUsSharesFraction*sharesPerCPU))
		l.Period, l.Quota = period, time.Duration(float64(period)*p.CPU.ZeroCPUsQuotaFraction)
		return
	}
	l.CPUShares = uint64(ncpus) * sharesPerCPU
	if p.CPU.EnforcePerPeriodQuota {
		l.Period, l.Quota = period, time.Duration(float64(period)*float64(ncpus)*p.CPU.CfsQuotaFudgeFactor)
	}
}

func (p *policy) decidePids(l *cgroup.Limits, asked *int64) {
	if !p.Pids.Enabled {
		return
	}
	if p.Pids.Max > 0 {
		limit := p.Pids.Max
		l.Pids = &limit
	}
	if asked != nil && (l.Pids == nil || *asked < *l.Pids) {
		l.Pids = asked
	}
}
