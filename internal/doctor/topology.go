package doctor

import (
	"fmt"

	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/topology"
)

// examineTopology reports the node's cpus and memory: what is left for jobs, and what the node
// keeps for itself.
func examineTopology(cfg *config.File, roots kernfs.Roots) []Finding {
	node, err := topology.Scan(roots)
	if err != nil {
		return []Finding{blocking("topology", err.Error(), "")}
	}
	findings := []Finding{examineCPUs(cfg, node), examineTotals(cfg, node)}
	return append(findings, examineSizes(cfg.Private, pbs.Size(node.MemTotal+node.SwapTotal))...)
}

func examineCPUs(cfg *config.File, node *topology.Node) Finding {
	const what = "cpus"
	left := cfg.Cpuset.Left(node.Online)
	kept := node.Online.Minus(left)
	found := fmt.Sprintf("%s (NUMA nodes: %d, threads of a core: %d)", node.Online, len(node.NUMA), node.Threads)
	if left.IsEmpty() { // then PBS is told that there are none, with [cpuset] or without
		return blocking(what, found+", and all of them are in exclude_cpus",
			"leave cpus for jobs in exclude_cpus of [cpuset]")
	}
	found += "; for jobs: " + left.String()
	if kept.IsEmpty() {
		if cfg.Cpuset.ExcludeCPUs != "" {
			return degraded(what, fmt.Sprintf("%s; none of exclude_cpus (%s) is online on this node", found,
				cfg.Cpuset.ExcludeCPUs), "name cpus of this node in exclude_cpus of [cpuset]")
		}
		return ok(what, found+"; kept for the node: none")
	}
	if !cfg.Cpuset.Enabled {
		return degraded(what, fmt.Sprintf("%s; PBS is not told about %s, but jobs run there too: "+
			"[cpuset] is not enabled", found, kept), "set enabled = true in [cpuset]")
	}
	found += "; kept for the node: " + kept.String()
	var emptied, threads kernfs.IDSet
	for _, n := range node.NUMA {
		if !n.CPUs.IsEmpty() && n.CPUs.Minus(kept).IsEmpty() {
			emptied = emptied.Union(kernfs.IDs(n.ID))
		}
	}
	if !emptied.IsEmpty() {
		return degraded(what, fmt.Sprintf("%s, which are all cpus of NUMA node %s: jobs use its memory from elsewhere",
			found, emptied), "leave cpus of each NUMA node for jobs in exclude_cpus of [cpuset]")
	}
	for _, cpu := range node.CPUs {
		if kept.Has(cpu.ID) {
			threads = threads.Union(cpu.Siblings.Minus(kept))
		}
	}
	f := ok(what, found)
	if !threads.IsEmpty() {
		f.Found += fmt.Sprintf("; other threads of these cores are for jobs: %s", threads)
		f.Advice = fmt.Sprintf("to keep whole cores, add %s to exclude_cpus of [cpuset]", threads)
	}
	return f
}

// examineTotals reports the memory and the swap.
func examineTotals(cfg *config.File, node *topology.Node) Finding {
	const what = "memory"
	found := pbs.Size(node.MemTotal).Text()
	if cfg.Memory.Enabled {
		if cfg.Memory.Left(node.MemTotal) == 0 {
			return blocking(what, found+", and all of it is reserved",
				"lower reserve_percent or reserve_amount in [memory]")
		}
		found += divided(cfg.Memory.Share, node.MemTotal)
	}
	if node.SwapTotal == 0 {
		return ok(what, found+", no swap")
	}
	found += ", swap " + pbs.Size(node.SwapTotal).Text()
	if cfg.Memsw.Enabled {
		found += divided(cfg.Memsw.Share, node.SwapTotal)
	}
	return ok(what, found)
}

// divided says how much of an amount is left for jobs.
func divided(s config.Share, total int64) string {
	left := s.Left(total)
	return fmt.Sprintf(" (for jobs: %s, kept for the node: %s)", pbs.Size(left).Text(), pbs.Size(total-left).Text())
}
