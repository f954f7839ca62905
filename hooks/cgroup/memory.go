package main

import (
	"os"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/topology"
)

// memTotal is the memory that all jobs together may have, in whole pages. A limit is what the
// kernel makes of it, and a limit of all there is has to be known again.
func (p *policy) memTotal(n *topology.Node) int64 {
	return wholePages(p.Memory.Left(n.MemTotal))
}

// swapTotal is the swap that all jobs together may have, in whole pages.
func (p *policy) swapTotal(n *topology.Node) int64 {
	return wholePages(p.Memsw.Left(n.SwapTotal))
}

// kernelLimitsMem reports whether mem is a limit of the kernel's, page cache included. Otherwise it
// is somebody else's to enforce, and what a job holds stands in its mark alone.
func (p *policy) kernelLimitsMem() bool { return !p.Memory.Enabled || p.Memory.Enforce != "rss" }

// inKernel returns what of a job's limits the kernel is to have. A mem that is not the kernel's to
// limit is replaced by what all jobs together may have. So page cache may grow to that, and nothing
// that no sample counts, as page tables, slab and sockets, takes the node down.
func (h *hook) inKernel(l cgroup.Limits, a ask) cgroup.Limits {
	p := h.policy
	// A job that may have all there is by default is promised nothing.
	if p.Memory.Enabled && p.Memory.SoftLimit && l.Mem != nil && (a.Mem != nil || *l.Mem < p.memTotal(h.node())) {
		return p.soften(l, h.node())
	}
	if p.kernelLimitsMem() {
		return l
	}
	l.Mem, l.MemHigh = nil, nil
	most := p.memTotal(h.node())
	if h.tree.Has("memory") {
		l.Mem = &most
	}
	switch {
	case l.MemSwap == nil:
	case a.Vmem != nil:
		most = min(most, *l.MemSwap)
	case l.Mem == nil:
		l.MemSwap = nil
	default:
		both := p.memswOf(h.node(), a, most)
		l.MemSwap = &both
	}
	return l
}

// allMem gives limits of a job that has asked for no mem all that jobs may have by now.
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

// soften makes of a mem that is decided the kernel's soft limit, and of vmem the limit, as
// pbs_cgroups does (openpbs pbs_cgroups.PY, configure_job).
func (p *policy) soften(l cgroup.Limits, n *topology.Node) cgroup.Limits {
	l.MemSoft = l.Mem
	if l.MemSwap != nil {
		most := max(*l.Mem, min(*l.MemSwap, p.memTotal(n)))
		l.Mem = &most
	}
	return l
}

// leastMem is the least memory in which a program can be started at all. The kernel's own memory
// for a process counts. If that does not fit, fork fails with an errno that nobody understands
// (ENFILE).
const leastMem = 1 << 20

func (p *policy) decideMemory(l *cgroup.Limits, h host, a ask, others []holding) error {
	if !p.Memory.Enabled {
		return nil
	}
	total := p.memTotal(h.node)
	free := total - heldMem(others)
	if a.had.Mem != nil { // a job may keep what it has, even beside one that was resumed
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

// decideOOM says what happens at the limit and before it, which only v2 lets one say.
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
			l.Mem = &limit // mem was a default; vmem was asked for
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

// memswOf is the limit of memory and swap together that goes with a limit of memory where no vmem
// was asked for.
func (p *policy) memswOf(n *topology.Node, a ask, mem int64) int64 {
	if p.Memsw.EnforceDefault && !(p.Memsw.ExclhostIgnoreDefault && a.exclhost) {
		return p.defaultMemsw(n, mem)
	}
	return p.memTotal(n) + p.swapTotal(n)
}

// defaultMemsw is the limit of memory and swap together of a job that asked for no vmem.
func (p *policy) defaultMemsw(n *topology.Node, mem int64) int64 {
	return min(p.memTotal(n)+p.swapTotal(n), mem+min(int64(p.Memsw.Default), p.swapTotal(n)))
}

// heldMem is the memory that jobs hold.
func heldMem(jobs []holding) (held int64) {
	for _, o := range jobs {
		if o.limits.Mem != nil {
			held += *o.limits.Mem
		}
	}
	return held
}

// heldMemsw is the memory and swap that jobs hold.
func heldMemsw(jobs []holding) (held int64) {
	for _, o := range jobs {
		if o.limits.MemSwap != nil {
			held += *o.limits.MemSwap
		}
	}
	return held
}

// exceeds is the error of a request for more than is free, and says whether waiting can help. text
// is how pbs_cgroups words it, given what is wanted and what there is.
func exceeds(text string, want, free, total int64) error {
	switch {
	case want <= free:
		return nil
	case want > total:
		return beyond(text, pbs.Size(want).KB(), pbs.Size(total).KB())
	}
	return hostapi.Errorf(hostapi.KindBusy, text, pbs.Size(want).KB(), pbs.Size(free).KB())
}

// wholePages rounds down as the kernel does with a limit.
func wholePages(n int64) int64 { return n - n%int64(os.Getpagesize()) }
