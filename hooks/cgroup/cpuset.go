package main

import (
	"errors"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/placement"
	"github.com/hookhost/hookhost/internal/topology"
)

// cpusetResource decides only the flags. The cpus are chosen with the devices: see decideCPUs. The
// cpus of all jobs together also contain those of jobs that began before they were excluded.
var cpusetResource = resource{
	offer: func(h *hook, there *host) error {
		there.cpus = h.policy.Cpuset.Left(h.node().Online)
		cpus, err := h.tree.CPUsAbove()
		if errors.Is(err, cgroup.ErrUnsupported) {
			return nil // no cpusets here
		}
		if err != nil {
			return err
		}
		there.cpus = cpus.Intersect(there.cpus)
		there.mems, err = h.tree.Mems()
		return err
	},
	decide: func(p *policy, got *assignment, _ host, _ []holding) error {
		got.limits.MemHardwall, got.limits.SpreadPage = p.Cpuset.MemHardwall, p.Cpuset.MemorySpreadPage
		return nil
	},
	parent: func(p *policy, l *cgroup.Limits, h host, jobs []holding) {
		if !p.Cpuset.Enabled {
			return
		}
		l.CPUs = h.cpus
		for _, o := range jobs {
			l.CPUs = l.CPUs.Union(o.limits.CPUs)
		}
	},
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
	if p.Cpuset.Enabled && h.cpus.IsEmpty() { // its processes would run on all cpus
		return nil, beyond("all cpus of this host are in exclude_cpus of [cpuset]")
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
		NCPUs: a.NCPUs, Allowed: h.cpus, Taken: taken, Policy: p.place,
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
		// The two jobs share cpus because one was suspended. Both may keep them.
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
