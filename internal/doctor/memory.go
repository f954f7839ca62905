package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/topology"
)

// examineMemory reports what can be counted and limited in memory.
func (k *kernel) examineMemory() []Finding {
	findings := []Finding{k.examineParent(), k.examineSwap()}
	if k.tree.Has("memory") {
		findings = append(findings, k.examineOOM(), k.examinePeak())
	}
	return append(findings, k.examinePressure(), k.examineHugePages())
}

// examineSwap reports whether vmem is enforced.
func (k *kernel) examineSwap() Finding {
	const what, byKernel = "swap accounting", "vmem is enforced by the kernel"
	node, err := topology.Scan(k.roots)
	limitsMem := k.cfg.Memory.Enabled && k.cfg.Memory.Enforce != "rss" && !k.cfg.Memory.SoftLimit
	noSwap := err == nil && node.SwapTotal == 0 && limitsMem
	v2 := k.tree.Mode() == cgroup.ModeV2
	there, notYet := k.has("memory.swap.max")
	inForce := k.tree.Has("memsw") || v2 && there
	switch {
	case !k.cfg.Memsw.Enabled:
		return ok(what, "[memsw] is not enabled: vmem is not enforced")
	case !k.tree.Has("memory"):
		_, advice := k.whyNot("memory")
		return impossible(what, "vmem is not enforced: there is no memory controller", advice)
	case inForce && !limitsMem:
		return ok(what, byKernel+" if a job requests it")
	case inForce && noSwap:
		return ok(what, byKernel+"; this node has no swap, so mem is the effective limit")
	case inForce:
		return ok(what, byKernel)
	case v2 && notYet:
		return unknown(what)
	}
	advice := "boot with swapaccount=1"
	if v2 {
		advice = "boot without swapaccount=0, with a kernel that has CONFIG_SWAP"
	}
	if noSwap {
		return degraded(what, "off: vmem is not enforced; this node has no swap, so mem limits vmem too",
			advice)
	}
	return degraded(what, "off: vmem is not enforced, and a job may swap as much as there is", advice)
}

// examineOOM reports whether a job that is out of memory is killed as a whole.
func (k *kernel) examineOOM() Finding {
	const what = "kill of whole jobs"
	switch {
	case !k.cfg.Memory.Enabled:
		return ok(what, "[memory] is not enabled: no job has a memory limit, "+
			"and if the node runs out of memory, the kernel kills single processes")
	case !k.cfg.Memory.OOMGroup:
		return ok(what, "oom_group = false in [memory]: the kernel kills one process of a job that is out of memory, "+
			"unless the job requests otherwise")
	case k.tree.Mode() != cgroup.ModeV2:
		return degraded(what, "oom_group in [memory] has no effect, memory.oom.group needs cgroup v2: "+
			"the kernel kills one process of a job that is out of memory", bootV2)
	}
	return k.examineFeature(feature{what, "oomgroup", "memory.oom.group",
		"a job that is out of memory is killed as a whole",
		"the kernel kills one process of a job that is out of memory", "Linux 4.19 or newer"})
}

func (k *kernel) examinePeak() Finding {
	const what, byKernel = "peak of memory", "counted by the kernel"
	if k.tree.Mode() != cgroup.ModeV2 {
		return ok(what, byKernel)
	}
	return k.examineFeature(feature{what, "peak", "memory.peak", byKernel,
		"sampled: short peaks, page cache included, are missed", "Linux 5.19 or newer"})
}

// examinePressure reports whether reports include how long jobs waited for cpu, memory and disks.
func (k *kernel) examinePressure() Finding {
	const what = "pressure (PSI)"
	switch {
	case k.v2 == nil:
		return degraded(what, "reports do not have it: only a cgroup v2 tree counts it",
			"mount -t cgroup2 none /sys/fs/cgroup/unified")
	case !k.pressure:
		return degraded(what, "reports do not have it: it is off in this kernel",
			"boot with psi=1 (a kernel with CONFIG_PSI, Linux 4.20)")
	}
	return k.examineFeature(feature{what, "psi", "cpu.pressure",
		"reports say how long a job waited for cpu, memory and disks",
		"counted for the node, not for jobs", "boot with psi=1, without cgroup_disable=pressure"})
}

// examineHugePages reports the pools; if [hugetlb] is not enabled, they are not limited.
func (k *kernel) examineHugePages() Finding {
	const what = "huge pages"
	all, err := topology.ScanHugePages(k.roots)
	if err != nil {
		return degraded(what, err.Error(), "")
	}
	var pools []string
	for _, page := range slices.Sorted(maps.Keys(all.Total)) {
		if total := all.Total[page]; total > 0 {
			pools = append(pools, fmt.Sprintf("%s in pages of %s", pbs.Size(total).Text(), pbs.Size(page).Text()))
		}
	}
	switch {
	case len(pools) > 0 && k.cfg.Hugetlb.Enabled:
		return ok(what, strings.Join(pools, ", "))
	case len(pools) > 0:
		return degraded(what, strings.Join(pools, ", ")+", which any job can use: [hugetlb] is not enabled",
			"set enabled = true in [hugetlb]")
	case k.cfg.Hugetlb.Enabled:
		return degraded(what, "none are reserved: no job that requests hpmem can run",
			"sysctl vm.nr_hugepages=N, or boot with hugepages=N")
	}
	return ok(what, "none are reserved")
}
