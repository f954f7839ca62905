package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/inventory"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/placement"
	"github.com/hookhost/hookhost/internal/topology"
)

// sharesPerCPU is cpu.shares per cpu, as in pbs_cgroups (openpbs pbs_cgroups.PY, configure_job).
const sharesPerCPU = 1000

// assignment is what a job gets.
type assignment struct {
	limits cgroup.Limits
	allMem bool             // the job asked for no mem, and its limit is all the memory for jobs
	ask    ask              // as granted: a job with blocks asks for their contents
	grant  *inventory.Grant // nil if it asked for no devices
	notes  []string         // for the report: requests that are not enforced
}

// usage returns the report of a job with this assignment that has used nothing yet.
func (got assignment) usage(there host) *hostapi.HostUsage {
	cpus, mems := got.limits.CPUs, got.limits.Mems
	if cpus.IsEmpty() {
		cpus, mems = there.cpus, there.mems
	}
	return &hostapi.HostUsage{
		CPUs: cpus.String(), Mems: mems.String(), NCPUs: got.ask.NCPUs, MemLimitBytes: got.limits.Mem,
	}
}

// assign decides what a job gets for its request on this host, given what the other jobs hold. It
// reads and writes nothing. The kind of an error is KindJob if the host could never give that much,
// and KindBusy if other jobs are in the way.
func (p *policy) assign(h host, a ask, others []holding) (assignment, error) {
	var l cgroup.Limits
	blocks, err := p.decideBlocks(h, &a, others)
	if err != nil {
		return assignment{}, err
	}
	devices, err := p.decideCPUs(&l, h, a, blocks, others)
	if err != nil {
		return assignment{}, err
	}
	grant, err := a.grant(h, devices, blocks)
	if err != nil {
		return assignment{}, err
	}
	if err := p.decideMemory(&l, h, a, others); err != nil {
		return assignment{}, err
	}
	allMem := a.Mem == nil && l.Mem != nil && *l.Mem == p.memTotal(h.node)
	if err := p.decideMemsw(&l, h, a, others); err != nil {
		return assignment{}, err
	}
	if err := p.decideHugetlb(&l, h, a, others); err != nil {
		return assignment{}, err
	}
	p.decideOOM(&l, h, a)
	l.MemHardwall, l.SpreadPage = p.Cpuset.MemHardwall, p.Cpuset.MemorySpreadPage
	p.decideShares(&l, h, a.NCPUs)
	if err := p.decidePids(&l, h, a); err != nil {
		return assignment{}, err
	}
	l.IO = p.io
	return assignment{limits: l, allMem: allMem, ask: a, grant: grant,
		notes: append(a.notes, p.unenforced(l, h, a)...)}, nil
}

// unenforced lists what the job asked for but has no limit for.
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
	if !p.Devices.Enabled && a.NGPUs > 0 { // resources of other names may be the site's
		add(fmt.Sprintf("ngpus=%d", a.NGPUs), "devices", false)
	}
	if a.oomGroup != nil && *a.oomGroup && l.OOMGroup == nil {
		add("oom_group", "memory", p.Memory.Enabled)
	}
	needsSwap := a.Vmem != nil && l.MemSwap != nil && l.Mem != nil && *l.MemSwap > *l.Mem
	if needsSwap && h.node.SwapTotal == 0 && !p.Memory.SoftLimit {
		notes = append(notes, "vmem exceeds mem, and this host has no swap: mem is the limit that counts")
	}
	return notes
}

// decideCPUs decides cpus and devices together, because each depends on the other. It returns the
// IDs of the devices.
func (p *policy) decideCPUs(
	l *cgroup.Limits,
	h host,
	a ask,
	blocks *blockShare,
	others []holding,
) (devices []string, err error) {
	if p.Cpuset.Enabled && a.NCPUs == 0 && !p.Cpuset.AllowZeroCPUs {
		return nil, hostapi.Errorf(hostapi.KindJob,
			"cpuset enabled with mandatory ncpus >= 1, but job does not request ncpus on this host")
	}
	if blocks != nil {
		if p.Cpuset.Enabled {
			p.setCPUs(l, h, blocks.cpus, blocks.mems)
		}
		return blocks.devices, nil
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
	if !p.Cpuset.Enabled {
		req.NCPUs = 0
	}
	p.addDevices(&req, h, a, others)
	if req.NCPUs == 0 && len(req.Wants) == 0 {
		return nil, nil // no cpuset: its processes run on all cpus of the parent
	}
	if a.Mem != nil && p.Cpuset.MemFences && len(h.node.NUMA) > 1 {
		req.Mem, req.FreeMem = int64(*a.Mem), p.freeMem(h.node, others)
	}
	chosen, err := p.withDevices(h.node, req, a)
	var short *placement.ShortageError
	if errors.As(err, &short) && !taken.Intersect(a.had.CPUs).IsEmpty() {
		// The two jobs share cpus because one was suspended. Each may keep them.
		req.Taken = taken.Minus(a.had.CPUs)
		chosen, err = p.withDevices(h.node, req, a)
	}
	if errors.As(err, &short) {
		req.Taken, req.Held = kernfs.IDSet{}, nil
		if _, never := p.withDevices(h.node, req, a); never != nil {
			return nil, neverEnough(never, h.devices)
		}
		return nil, hostapi.Errorf(hostapi.KindBusy, "%w%s", err, heldBy(short.Resource, others))
	}
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "%w", err)
	}
	if req.NCPUs > 0 {
		p.setCPUs(l, h, chosen.CPUs, chosen.Mems)
	}
	return chosen.Devices, nil
}

func (p *policy) setCPUs(l *cgroup.Limits, h host, cpus, mems kernfs.IDSet) {
	l.CPUs = cpus
	l.Mems = mems.Intersect(h.mems)
	if !p.Cpuset.MemFences || l.Mems.IsEmpty() {
		l.Mems = h.mems
	}
}

// freeMem returns the free memory of each NUMA node. Like pbs_cgroups, it subtracts only jobs that
// are on that NUMA node alone.
func (p *policy) freeMem(n *topology.Node, others []holding) map[int]int64 {
	free := map[int]int64{}
	for _, numa := range n.NUMA {
		free[numa.ID] = numa.MemTotal
		for _, o := range others {
			if o.limits.Mems.Len() == 1 && o.limits.Mems.Has(numa.ID) && o.limits.Mem != nil {
				free[numa.ID] -= *o.limits.Mem
			}
		}
	}
	return free
}

// heldBy names the jobs that hold cpus, or devices of the resource. It is for people who wonder why
// their job has to wait.
func heldBy(resource string, others []holding) string {
	var who []string
	for _, o := range others {
		if what := o.holds(resource); what != "" {
			who = append(who, fmt.Sprintf("%s by job %s", what, o.id))
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

// The kernel's minimum values (kernel/sched/core.c, sched.h).
const (
	minShares = 2
	minQuota  = time.Millisecond
)

func (p *policy) decideShares(l *cgroup.Limits, h host, ncpus int) {
	if !p.CPU.Enabled {
		return
	}
	l.CPUShares = max(minShares, uint64(p.CPU.ZeroCPUsSharesFraction*sharesPerCPU))
	cpus := p.CPU.ZeroCPUsQuotaFraction
	if ncpus > 0 {
		l.CPUShares = uint64(ncpus) * sharesPerCPU
		if !p.CPU.EnforcePerPeriodQuota {
			return
		}
		// Without [cpuset] nothing else limits ncpus, and the kernel does not accept arbitrary
		// quotas (MAX_BW in kernel/sched/core.c).
		cpus = float64(min(ncpus, max(1, h.node.Online.Len())))
	}
	l.Period = time.Duration(p.CPU.CfsPeriod)
	l.Quota = p.quota(l.Period, cpus)
	h.cutQuota(l)
}

// quota returns the cpu time that cpus may use in a period, in whole microseconds. It calculates
// like pbs_cgroups (openpbs pbs_cgroups.PY, set_limit of ncpus).
func (p *policy) quota(period time.Duration, cpus float64) time.Duration {
	us := float64(period.Microseconds()) * cpus * p.CPU.CfsQuotaFudgeFactor
	return max(minQuota, time.Duration(us)*time.Microsecond)
}

// cutQuota limits a job's quota to the quota of all jobs together. v1 accepts no larger one, and
// begin would fail.
func (h host) cutQuota(l *cgroup.Limits) {
	if h.quota == nil {
		return
	}
	if most := time.Duration(float64(l.Period) * *h.quota).Truncate(time.Microsecond); most < l.Quota {
		l.Quota = max(minQuota, most)
	}
}

func (p *policy) decidePids(l *cgroup.Limits, h host, a ask) error {
	if !p.Pids.Enabled || !h.hasPids {
		return nil
	}
	if a.pids != nil && *a.pids > config.MaxPids {
		return hostapi.Errorf(hostapi.KindJob, "pids requested (%d) exceeds the most that the kernel takes (%d)",
			*a.pids, config.MaxPids)
	}
	limit := p.Pids.Max
	if limit == config.PidsByCPUs {
		limit = p.tasksOf(h, a)
	}
	if limit > 0 {
		l.Pids = &limit
	}
	if a.pids != nil && (l.Pids == nil || *a.pids < *l.Pids) {
		l.Pids = a.pids
	}
	return nil
}

// tasksOf returns how many tasks a job may have according to its cpus. 0 means no limit.
func (p *policy) tasksOf(h host, a ask) int64 {
	switch {
	case h.tasks == 0:
		return 0
	case a.exclhost: // nobody else needs tasks
		return h.tasks
	}
	return p.Pids.Part(h.tasks, a.NCPUs, p.countCPUs(h, h.cpus))
}
