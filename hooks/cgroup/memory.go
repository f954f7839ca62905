package main

import (
	"os"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/topology"
)

var memoryResource = resource{
	decide: (*policy).decideMemory,
	parent: func(p *policy, l *cgroup.Limits, h host, jobs []holding) {
		if p.Memory.Enabled && h.has("memory") {
			mem := max(p.memTotal(h.node), wholePages(sum(jobs, onlyMem)))
			l.Mem = &mem
		}
	},
}

// memTotal returns the memory for all jobs together, in whole pages. The kernel rounds limits down,
// and a limit that equals the total must be recognizable later.
func (p *policy) memTotal(n *topology.Node) int64 {
	return wholePages(p.Memory.Left(n.MemTotal))
}

// kernelLimitsMem reports whether the kernel limits mem, page cache included. If not, the follower
// enforces mem, and the kernel's limit is higher.
func (p *policy) kernelLimitsMem() bool { return !p.Memory.Enabled || p.Memory.Enforce != "rss" }

// inKernel returns the limits to set in the kernel. If the follower enforces mem, the kernel's
// limit leaves room for additional page cache. The limit also bounds the memory of sockets, pipes,
// page tables and others that no sample counts.
func (h *hook) inKernel(l cgroup.Limits, a ask) cgroup.Limits {
	p := h.policy
	// A job that may use all memory by default does not get a soft limit.
	if p.Memory.Enabled && p.Memory.SoftLimit && l.Mem != nil && (a.Mem != nil || *l.Mem < p.memTotal(h.node())) {
		return p.soften(l, h.node())
	}
	if p.kernelLimitsMem() || l.Mem == nil { // nil: [memory] was not enabled at its begin
		return l
	}
	l.MemHigh = nil
	if !h.tree.Has("memory") {
		l.Mem, l.MemSwap = nil, nil
		return l
	}
	most := p.withCache(*l.Mem, p.memTotal(h.node()))
	switch {
	case l.MemSwap == nil:
	case a.Vmem != nil:
		most = min(most, *l.MemSwap)
	default:
		both := max(most, p.memswOf(h.node(), a, most)) // may exceed what all jobs may have now
		l.MemSwap = &both
	}
	l.Mem = &most
	return l
}

// withCache returns the kernel's limit for a job that may hold mem, where total is the memory for
// all jobs together.
func (p *policy) withCache(mem, total int64) int64 {
	cache := int64(p.Memory.Cache)
	if cache == 0 {
		cache = mem
	}
	return mem + min(cache, max(0, total-mem))
}

// allMem gives a job that requested no mem the memory that jobs may have now.
func (p *policy) allMem(l *cgroup.Limits, n *topology.Node, a ask) {
	mem := p.memTotal(n)
	switch {
	case l.MemSwap == nil:
	case a.Vmem != nil:
		mem = min(mem, *l.MemSwap)
	default:
		both := p.memswOf(n, a, mem)
		l.MemSwap = &both
	}
	l.Mem = &mem
}

// soften makes mem the kernel's soft limit, and vmem the hard limit, as pbs_cgroups does (openpbs
// pbs_cgroups.PY, configure_job).
func (p *policy) soften(l cgroup.Limits, n *topology.Node) cgroup.Limits {
	l.MemSoft = l.Mem
	if l.MemSwap != nil {
		most := max(*l.Mem, min(*l.MemSwap, p.memTotal(n)))
		l.Mem = &most
	}
	return l
}

// leastMem is the least memory in which any program can start. It includes the memory that the
// kernel needs for a process. If that does not fit, fork fails with a misleading errno (ENFILE).
const leastMem = 1 << 20

func (p *policy) decideMemory(got *assignment, h host, others []holding) error {
	l, a := &got.limits, got.ask
	if !p.Memory.Enabled {
		if a.Mem != nil {
			got.noteUnenforced("mem="+a.Mem.KB(), "memory", false)
		}
		return nil
	}
	total := p.memTotal(h.node)
	if total < leastMem {
		return beyond("all memory of this host is reserved by reserve_percent and reserve_amount of [memory]")
	}
	free := total - sum(others, onlyMem)
	if a.had.Mem != nil { // a job may keep what it has, even if another job was resumed meanwhile
		free = max(free, *a.had.Mem)
	}
	var limit int64
	switch {
	case a.Mem != nil:
		limit = int64(*a.Mem)
		if limit < leastMem {
			return hostapi.Errorf(hostapi.KindJob, "mem requested (%s) under minimum possible (%s)", a.Mem.KB(),
				pbs.Size(leastMem).KB())
		}
		if err := exceeds("mem requested (%s) exceeds mem available (%s)", limit, max(0, free), total); err != nil {
			return err
		}
	default:
		limit = p.defaultMem(a, total)
		got.allMem = limit == total
	}
	l.Mem = &limit
	if p.Memory.Swappiness >= 0 {
		l.Swappiness = &p.Memory.Swappiness
	}
	return nil
}

// defaultMem returns the limit of a job that requested no mem. All jobs together may have total.
func (p *policy) defaultMem(a ask, total int64) int64 {
	if p.Memory.EnforceDefault && p.Memory.Default > 0 && !(p.Memory.ExclhostIgnoreDefault && a.exclhost) {
		return min(int64(p.Memory.Default), total)
	}
	return total
}

// exceeds returns the error for a request that exceeds free, and its kind says whether waiting can
// help. text is a format in the words of pbs_cgroups for the amounts requested and available.
func exceeds(text string, want, free, total int64) error {
	switch {
	case want <= free:
		return nil
	case want > total:
		return beyond(text, pbs.Size(want).KB(), pbs.Size(total).KB())
	}
	return hostapi.Errorf(hostapi.KindBusy, text, pbs.Size(want).KB(), pbs.Size(free).KB())
}

// wholePages rounds down to whole pages, as the kernel does with limits.
func wholePages(n int64) int64 { return n - n%int64(os.Getpagesize()) }
