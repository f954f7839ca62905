package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/placement"
	"github.com/hookhost/hookhost/internal/topology"
)

// sharesPerCPU is cpu.shares for each of ncpus, as pbs_cgroups has it (openpbs pbs_cgroups.PY, configure_job).
const sharesPerCPU = 1000

// holding is what another job holds on this host.
type holding struct {
	id     string
	job    *cgroup.Job
	limits cgroup.Limits

	mem, vmem bool // asked for all there is, which otherwise is taken for what a job without a request gets
}

// host is what there is to give: the node, and the part of its cpus and NUMA nodes that the parent of all jobs may use.
type host struct {
	node     *topology.Node
	cpus     kernfs.IDSet
	mems     kernfs.IDSet // empty where the kernel has no cpusets
	hasMemsw bool
	hasPids  bool
	v2       bool // the controllers are on v2

	hugePages topology.HugePages // none where [hugetlb] is not enabled
}

// decide turns what a job asked for on this host into limits, given what the other jobs hold. It reads and writes nothing.
// Notes are for the report: what was asked for and is not enforced. Errors carry a kind: KindJob when the host could
// never give that much, KindBusy when other jobs are in the way.
func (p *policy) decide(h host, a ask, others []holding) (l cgroup.Limits, notes []string, err error) {
	if err := p.decideCPUs(&l, h, a, others); err != nil {
		return cgroup.Limits{}, nil, err
	}
	if err := p.decideMemory(&l, h, a, others); err != nil {
		return cgroup.Limits{}, nil, err
	}
	if err := p.decideMemsw(&l, h, a, others); err != nil {
		return cgroup.Limits{}, nil, err
	}
	if err := p.decideHugetlb(&l, h, a, others); err != nil {
		return cgroup.Limits{}, nil, err
	}
	p.decideOOM(&l, h, a)
	p.decideShares(&l, h, a.NCPUs)
	if err := p.decidePids(&l, h, a.pids); err != nil {
		return cgroup.Limits{}, nil, err
	}
	l.IO = p.io
	return l, append(a.notes, p.unenforced(l, h, a)...), nil
}

// unenforced tells what the job asked for and has no limit for.
func (p *policy) unenforced(l cgroup.Limits, h host, a ask) []string {
	var notes []string
	add := func(what, section string, enabled bool) {
		why := "this kernel cannot"
		if !enabled {
			why = "[" + section + "] is not enabled on this host"
		}
		notes = append(notes, fmt.Sprintf("%s is not enforced: %s", what, why))
	}
	if a.Mem != nil && l.Mem == nil {
		add("mem="+a.Mem.KB(), "memory", p.Memory.Enabled)
	}
	if a.Vmem != nil && l.MemSwap == nil {
		add("vmem="+a.Vmem.KB(), "memsw", p.Memsw.Enabled)
	}
	if a.pids != nil && l.Pids == nil {
		add(fmt.Sprintf("pids=%d", *a.pids), "pids", p.Pids.Enabled)
	}
	if !p.Hugetlb.Enabled && (a.HPMem != nil && *a.HPMem > 0 || len(a.huge) > 0) {
		add("hpmem", "hugetlb", false)
	}
	if a.oomGroup != nil && *a.oomGroup && l.OOMGroup == nil {
		add("oom_group", "memory", p.Memory.Enabled)
	}
	if a.Vmem != nil && l.MemSwap != nil && l.Mem != nil && *l.MemSwap > *l.Mem && h.node.SwapTotal == 0 {
		notes = append(notes, "vmem exceeds mem, and this host has no swap: mem is the limit that counts")
	}
	return notes
}

func (p *policy) decideCPUs(l *cgroup.Limits, h host, a ask, others []holding) error {
	if !p.Cpuset.Enabled {
		return nil
	}
	if a.NCPUs == 0 {
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
		NCPUs: a.NCPUs, Allowed: h.cpus.Minus(p.exclude), Taken: taken, Policy: p.place,
		UseHyperthreads: p.Cpuset.UseHyperthreads, NCPUsAreCores: p.Cpuset.NCPUsAreCores, MemFences: p.Cpuset.MemFences,
		Keep: a.had.CPUs,
	}
	if a.Mem != nil && p.Cpuset.MemFences && len(h.node.NUMA) > 1 {
		req.Mem, req.FreeMem = int64(*a.Mem), p.freeMem(h.node, others)
	}
	chosen, err := p.placed(h.node, req, a)
	var short *placement.ShortageError
	if errors.As(err, &short) && !taken.Intersect(a.had.CPUs).IsEmpty() {
		// Two jobs share cpus since one of them was suspended: each may keep them.
		req.Taken = taken.Minus(a.had.CPUs)
		chosen, err = p.placed(h.node, req, a)
	}
	if errors.As(err, &short) {
		req.Taken = kernfs.IDSet{}
		if _, never := p.placed(h.node, req, a); never != nil {
			return hostapi.Errorf(hostapi.KindJob, "%w", never)
		}
		return hostapi.Errorf(hostapi.KindBusy, "%w%s", err, heldBy(others))
	}
	if err != nil {
		return hostapi.Errorf(hostapi.KindNode, "%w", err)
	}
	l.CPUs = chosen.CPUs
	l.Isolated = p.Cpuset.Isolated && h.v2
	l.Mems = chosen.Mems.Intersect(h.mems)
	if !p.Cpuset.MemFences || l.Mems.IsEmpty() {
		l.Mems = h.mems
	}
	return nil
}

// freeMem returns what each NUMA node has left beside the jobs that are on this one alone, as pbs_cgroups counts it.
func (p *policy) freeMem(n *topology.Node, others []holding) map[int]int64 {
	free := map[int]int64{}
	for _, numa := range n.NUMA {
		free[numa.ID] = numa.MemTotal
		for _, o := range others {
			if o.limits.Mems.Len() == 1 && o.limits.Mems.Has(numa.ID) && p.asked(o, n) {
				free[numa.ID] -= *o.limits.Mem
			}
		}
	}
	return free
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

// Least values that the kernel takes (kernel/sched/core.c, sched.h).
const (
	minShares = 2
	minQuota  = time.Millisecond
)

func (p *policy) decideShares(l *cgroup.Limits, h host, ncpus int) {
	if !p.CPU.Enabled {
		return
	}
	period := time.Duration(p.CPU.CfsPeriod)
	quota := func(cpus float64) time.Duration { return max(minQuota, time.Duration(float64(period)*cpus)) }
	if ncpus == 0 {
		l.CPUShares = max(minShares, uint64(p.CPU.ZeroCPUsSharesFraction*sharesPerCPU))
		l.Period, l.Quota = period, quota(p.CPU.ZeroCPUsQuotaFraction)
		return
	}
	l.CPUShares = uint64(ncpus) * sharesPerCPU
	if p.CPU.EnforcePerPeriodQuota {
		// Without [cpuset] nothing else bounds ncpus, and the kernel does not take just any quota (MAX_BW of kernel/sched/core.c).
		most := min(ncpus, max(1, h.node.Online.Len()))
		l.Period, l.Quota = period, quota(float64(most)*p.CPU.CfsQuotaFudgeFactor)
	}
}

func (p *policy) decidePids(l *cgroup.Limits, h host, asked *int64) error {
	if !p.Pids.Enabled || !h.hasPids {
		return nil
	}
	if asked != nil && *asked > config.MaxPids {
		return hostapi.Errorf(hostapi.KindJob, "pids requested (%d) exceeds the most that the kernel takes (%d)", *asked, config.MaxPids)
	}
	if p.Pids.Max > 0 {
		limit := p.Pids.Max
		l.Pids = &limit
	}
	if asked != nil && (l.Pids == nil || *asked < *l.Pids) {
		l.Pids = asked
	}
	return nil
}
