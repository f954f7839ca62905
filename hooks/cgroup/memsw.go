package main

import (
	"fmt"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/topology"
)

var memswResource = resource{
	ask:    (*ask).addVmem,
	decide: (*policy).decideMemsw,
	parent: func(p *policy, l *cgroup.Limits, h host, jobs []holding) {
		if l.Mem != nil && p.Memsw.Enabled && h.has("memsw") {
			l.MemSwap = new(max(*l.Mem+p.swapTotal(h.node), wholePages(sum(jobs, memAndSwap))))
		}
	},
}

// addVmem adds vmem from the job's own list. PBS does not schedule vmem by default, and then it
// appears only there (openpbs-observed: vnode_list). With several hosts nothing says how much each
// one provides.
func (a *ask) addVmem(job *hostapi.Job) error {
	if a.Vmem != nil {
		return nil
	}
	size, err := sizeAsked(job, "vmem")
	if err != nil || size == 0 {
		return err
	}
	for _, c := range a.chunks {
		if c.Host != a.chunks[0].Host {
			const note = "vmem=%s is not enforced: exec_vnode does not say how much of it each host has"
			a.notes = append(a.notes, fmt.Sprintf(note, size.KB()))
			return nil
		}
	}
	a.Vmem = &size
	return nil
}

// swapTotal returns the swap for all jobs together, in whole pages.
func (p *policy) swapTotal(n *topology.Node) int64 {
	return wholePages(p.Memsw.Left(n.SwapTotal))
}

func (p *policy) decideMemsw(got *assignment, h host, others []holding) error {
	l, a := &got.limits, got.ask
	if !p.Memsw.Enabled || !h.has("memsw") {
		if a.Vmem != nil {
			got.noteUnenforced("vmem="+a.Vmem.KB(), "memsw", p.Memsw.Enabled)
		}
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
		free := max(0, total-sum(others, memAndSwap))
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
	if a.Vmem != nil && l.Mem != nil && limit > *l.Mem && h.node.SwapTotal == 0 && !p.Memory.SoftLimit {
		got.notes = append(got.notes, "vmem exceeds mem, and this host has no swap: mem is the limit that counts")
	}
	return nil
}

// memswOf returns the limit of memory plus swap for a given memory limit, if the job requested no
// vmem.
func (p *policy) memswOf(n *topology.Node, a ask, mem int64) int64 {
	if p.Memsw.EnforceDefault && !(p.Memsw.ExclhostIgnoreDefault && a.exclhost) {
		return min(p.memTotal(n)+p.swapTotal(n), mem+min(int64(p.Memsw.Default), p.swapTotal(n)))
	}
	return p.memTotal(n) + p.swapTotal(n)
}
