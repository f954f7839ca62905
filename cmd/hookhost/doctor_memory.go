package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/topology"
)

// examineMemory looks at what of memory can be counted and limited.
func (k *kernel) examineMemory() []finding {
	findings := []finding{k.examineSwap()}
	if k.tree.Has("memory") {
		findings = append(findings, k.examineMemoryFiles()...)
	}
	return append(findings, k.examinePressure(), k.examineHugePages())
}

// examineSwap tells whether vmem is enforced.
func (k *kernel) examineSwap() finding {
	const what = "swap accounting"
	node, err := topology.Scan(k.roots)
	limitsMem := k.cfg.Memory.Enabled && k.cfg.Memory.Enforce != "rss" && !k.cfg.Memory.SoftLimit
	noSwap := err == nil && node.SwapTotal == 0 && limitsMem
	there, notYet := k.has("memory.swap.max")
	switch {
	case !k.cfg.Memsw.Enabled:
		return ok(what, "[memsw] is not enabled: vmem is not enforced")
	case !k.tree.Has("memory"):
		return impossible(what, "vmem is not enforced: there is no memory controller", "see memory controller")
	case k.tree.Has("memsw") || k.tree.Mode() == cgroup.ModeV2 && there:
		if !limitsMem {
			return ok(what, "vmem is enforced by the kernel where a job asks for it")
		}
		if noSwap {
			return ok(what, "vmem is enforced by the kernel; this node has no swap, so that mem is the limit that counts")
		}
		return ok(what, "vmem is enforced by the kernel")
	case k.tree.Mode() == cgroup.ModeV2 && notYet:
		return unknown(what)
	}
	advice := "boot with swapaccount=1"
	if k.tree.Mode() == cgroup.ModeV2 {
		advice = "boot without swapaccount=0, with a kernel that has CONFIG_SWAP"
	}
	if noSwap {
		return degraded(what, "off: vmem is not enforced; this node has no swap, so that mem bounds vmem as well", advice)
	}
	return degraded(what, "off: vmem is not enforced, and a job may swap as much as there is", advice)
}

// examineMemoryFiles looks at files of the memory controller that came later than itself.
func (k *kernel) examineMemoryFiles() []finding {
	const whole = "kill of whole jobs"
	off := ok(whole, "")
	switch {
	case !k.cfg.Memory.Enabled:
		off.Found = "[memory] is not enabled: no job is killed for its own memory, and of one that the node kills for, one process dies"
	case !k.cfg.Memory.OOMGroup:
		off.Found = "oom_group = false in [memory]: the kernel kills one process of a job that is out of memory, unless the job asks for other"
	}
	if k.tree.Mode() != cgroup.ModeV2 {
		if off.Found == "" {
			off = degraded(whole, "oom_group in [memory] has no effect, memory.oom.group needs cgroup v2: the kernel kills one process of a job that is out of memory", bootV2)
		}
		return []finding{off, ok("peak of memory", "counted by the kernel")}
	}
	var findings []finding
	for _, f := range []struct{ what, feature, file, yes, no, advice string }{
		{whole, "oomgroup", "memory.oom.group", "a job that is out of memory is killed as a whole", "the kernel kills one process of a job that is out of memory", "Linux 4.19 or newer"},
		{"peak of memory", "peak", "memory.peak", "counted by the kernel", "sampled: short peaks, page cache included, are missed", "Linux 5.19 or newer"},
	} {
		there, notYet := k.has(f.file)
		switch {
		case f.what == whole && off.Found != "":
			findings = append(findings, off)
		case k.tree.Has(f.feature) || there:
			findings = append(findings, ok(f.what, f.yes))
		case notYet:
			findings = append(findings, unknown(f.what))
		default:
			findings = append(findings, degraded(f.what, f.no, f.advice))
		}
	}
	return findings
}

// examinePressure tells whether reports say how long jobs waited for cpu, memory and disks.
func (k *kernel) examinePressure() finding {
	const what = "pressure (PSI)"
	_, err := k.roots.Proc.ReadFile("pressure/cpu")
	there, notYet := k.has("cpu.pressure")
	switch {
	case k.v2 == nil:
		return degraded(what, "reports have none: it is counted in a cgroup v2 tree only", "mount -t cgroup2 none /sys/fs/cgroup/unified")
	case err != nil && !k.since(4, 20):
		return degraded(what, "reports have none", "Linux 4.20 or newer with CONFIG_PSI")
	case err != nil:
		return degraded(what, "reports have none: it is off in this kernel", "boot with psi=1 (a kernel with CONFIG_PSI)")
	case there || k.tree.Has("psi"):
		return ok(what, "reports say how long a job waited for cpu, memory and disks")
	case notYet:
		return unknown(what)
	}
	return degraded(what, "counted for the node, not for jobs", "boot with psi=1, without cgroup_disable=pressure")
}

// examineHugePages looks at the pools; where [hugetlb] is not enabled they are not limited.
func (k *kernel) examineHugePages() finding {
	const what = "huge pages"
	all, err := topology.ScanHugePages(k.roots)
	if err != nil {
		return degraded(what, err.Error(), "")
	}
	var pools []string
	for _, page := range slices.Sorted(maps.Keys(all.Total)) {
		if total := all.Total[page]; total > 0 {
			pools = append(pools, fmt.Sprintf("%s in pages of %s", pbs.Size(total).KB(), pbs.Size(page).KB()))
		}
	}
	switch {
	case len(pools) > 0 && k.cfg.Hugetlb.Enabled:
		return ok(what, strings.Join(pools, ", "))
	case len(pools) > 0:
		return degraded(what, strings.Join(pools, ", ")+", which any job can take: [hugetlb] is not enabled", "set enabled = true in [hugetlb]")
	case k.cfg.Hugetlb.Enabled:
		return degraded(what, "none is reserved: no job that asks for hpmem can run", "sysctl vm.nr_hugepages=N, or boot with hugepages=N")
	}
	return ok(what, "none is reserved")
}

// examineTopology tells what there is for jobs.
func examineTopology(cfg *config.File, roots kernfs.Roots) []finding {
	node, err := topology.Scan(roots)
	if err != nil {
		return []finding{blocking("topology", err.Error(), "")}
	}
	exclude, _ := kernfs.ParseIDSet(cfg.Cpuset.ExcludeCPUs) // checked when it was loaded
	left := node.Online.Minus(exclude)
	cpus := ok("cpus", fmt.Sprintf("%s (%d NUMA nodes, %d threads a core); for jobs: %s", node.Online, len(node.NUMA), node.Threads, left))
	if left.IsEmpty() { // PBS is told of none then, with [cpuset] or without
		cpus = blocking("cpus", fmt.Sprintf("%s, and all of them are in exclude_cpus", node.Online), "leave cpus for jobs in exclude_cpus of [cpuset]")
	}
	memory := ok("memory", pbs.Size(node.MemTotal).KB()+", swap "+pbs.Size(node.SwapTotal).KB())
	reserved := int64(float64(node.MemTotal)*cfg.Memory.ReservePercent/100) + int64(cfg.Memory.ReserveAmount)
	if cfg.Memory.Enabled && reserved >= node.MemTotal {
		memory = blocking("memory", memory.Found+", and all of it is reserved", "lower reserve_percent or reserve_amount in [memory]")
	}
	return []finding{cpus, memory}
}
