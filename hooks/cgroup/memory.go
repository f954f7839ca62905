package main

import (
	"os"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/topology"
)

// memTotal returns the memory for all jobs together, in whole pages. The kernel rounds limits down,
// and a limit that equals the total must be recognized again.
func (p *policy) memTotal(n *topology.Node) int64 {
	return wholePages(p.Memory.Left(n.MemTotal))
}

// swapTotal returns the swap for all jobs together, in whole pages.
func (p *policy) swapTotal(n *topology.Node) int64 {
	return wholePages(p.Memsw.Left(n.SwapTotal))
}

// kernelLimitsMem reports whether the kernel limits mem, page cache included. If not, the follower
// enforces mem, and the kernel's limit is higher.
func (p *policy) kernelLimitsMem() bool { return !p.Memory.Enabled || p.Memory.Enforce != "rss" }

// inKernel returns the limits that the kernel is given. If the follower enforces mem, the kernel's
// limit has room for page cache beyond that. The limit also bounds what is in sockets, pipes, page
// tables and other memory that no sample counts.
func (h *hook) inKernel(l cgroup.Limits, a ask) cgroup.Limits {
	p := h.policy
	// A job that may use everything by default gets no soft limit.
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
		both := max(most, p.memswOf(h.node(), a, most)) // more than all jobs may have now
		l.MemSwap = &both
	}
	l.Mem = &most
	return l
}

// withCache returns the kernel's limit for a job that may hold mem. All jobs together may have
// total.
func (p *policy) withCache(mem, total int64) int64 {
	cache := int64(p.Memory.Cache)
	if cache == 0 {
		cache = mem
	}
	return mem + min(cache, max(0, total-mem))
}

// allMem sets the limits of a job that asked for no mem to the memory that jobs may have now.
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

// leastMem is the least memory in which a program can start at all. The kernel's memory for a
// process counts too. If that does not fit, fork fails with a misleading errno (ENFILE).
const leastMem = 1 << 20

func (p *policy) decideMemory(l *cgroup.Limits, h host, a ask, others []holding) error {
	if !p.Memory.Enabled {
		return nil
	}
	total := p.memTotal(h.node)
	free := total - heldMem(others)
	if a.had.Mem != nil { // a job may keep what it has, even beside a job that was resumed
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
	case p.Memory.EnforceDefault && p.Memory.Default > 0 && !(p.Memory.ExclhostIgnoreDefault && a.exclhost):
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

// decideOOM decides what happens near the limit and when it is hit. Only v2 can be configured for
// that.
func (p *policy) decideOOM(l *cgroup.Limits, h host, a ask) {
	if !p.Memory.Enabled || !h.v2 {
		return
	}
	l.OOMGroup = &p.Memory.OOMGroup
	if a.oomGroup != nil {
		l.OOMGroup = a.oomGroup
	}
	if p.Memory.HighPercent > 0 && l.Mem != nil {
		high := wholePages(int64(float64(*l.Mem) * p.Memory.HighPercent / 100))
		l.MemHigh = &high
	}
}

func (p *policy) decideMemsw(l *cgroup.Limits, h host, a ask, others []holding) error {
	if !p.Memsw.Enabled || !h.hasMemsw {
		return nil
	}
	total := p.memTotal(h.node) + p.swapTotal(h.node)
	var limit int64
	switch {
	case a.Vmem != nil:
		limit = int64(*a.Vmem)
		least := pbs.Size(leastMem)
		if a.Mem != nil {
			least = max(least, *a.Mem)
		}
		if *a.Vmem < least {
			return hostapi.Errorf(hostapi.KindJob, "vmem requested (%s) under minimum possible (%s)", a.Vmem.KB(),
				least.KB())
		}
		free := max(0, total-heldMemsw(others))
		if a.had.MemSwap != nil {
			free = max(free, *a.had.MemSwap)
		}
		if err := exceeds("vmem requested (%s) exceeds vmem available (%s)", limit, free, total); err != nil {
			return err
		}
		if l.Mem != nil && a.Mem == nil && *l.Mem > limit {
			l.Mem = &limit // mem was a default, but vmem was requested
		}
	case l.Mem == nil:
		return nil
	default:
		limit = p.memswOf(h.node, a, *l.Mem)
	}
	if l.Mem != nil {
		limit = max(limit, *l.Mem)
	}
	l.MemSwap = &limit
	return nil
}

// memswOf returns the limit of memory plus swap for a given memory limit, if no vmem was asked for.
func (p *policy) memswOf(n *topology.Node, a ask, mem int64) int64 {
	if p.Memsw.EnforceDefault && !(p.Memsw.ExclhostIgnoreDefault && a.exclhost) {
		return p.defaultMemsw(n, mem)
	}
	return p.memTotal(n) + p.swapTotal(n)
}

// defaultMemsw returns the default limit of memory plus swap for a job that asked for no vmem.
func (p *policy) defaultMemsw(n *topology.Node, mem int64) int64 {
	return min(p.memTotal(n)+p.swapTotal(n), mem+min(int64(p.Memsw.Default), p.swapTotal(n)))
}

// heldMem returns the memory that jobs hold.
func heldMem(jobs []holding) (held int64) {
	for _, o := range jobs {
		if o.limits.Mem != nil {
			held += *o.limits.Mem
		}
	}
	return held
}

// heldMemsw returns the memory plus swap that jobs hold.
func heldMemsw(jobs []holding) (held int64) {
	for _, o := range jobs {
		if o.limits.MemSwap != nil {
			held += *o.limits.MemSwap
		}
	}
	return held
}

// exceeds returns the error for a request that exceeds free, and its kind says whether waiting can
// help. text is a format in the words of pbs_cgroups, for what is wanted and what there is.
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
