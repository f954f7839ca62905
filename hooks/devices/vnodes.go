package main

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/inventory"
	"github.com/hookhost/hookhost/internal/topology"
)

const ngpus = "ngpus"

// vnodes returns the devices of the vnodes of hook cgroup (docs/vnodes.md): of the natural vnode,
// name, or with vnode_per_numa_node of those of the NUMA nodes. A resource stays as PBS has it if
// its amount is not known, and so do blocks with nil.
func (p *policy) vnodes(node *topology.Node, inv *inventory.Inventory, name string,
	blocks *int) map[string]*hostapi.Vnode {
	counts := p.counts(inv)
	if len(counts) == 0 && (p.Devices.Blocks == 0 || blocks == nil) {
		return nil
	}
	all := map[string]*hostapi.Vnode{}
	add := func(vnode string, on func(numa int) bool) {
		r := hostapi.Resources{}
		for resource, byNUMA := range counts {
			n := 0
			for numa, k := range byNUMA {
				if on(numa) {
					n += k
				}
			}
			r[resource] = strconv.Itoa(n * p.Devices.JobsPerDevice)
		}
		all[vnode] = &hostapi.Vnode{ResourcesAvailable: r}
	}
	if !p.Vnodes.PerNUMANode {
		add(name, func(int) bool { return true })
		if p.Devices.Blocks > 0 && blocks != nil { // not together with vnode_per_numa_node
			all[name].ResourcesAvailable["blocks"] = strconv.Itoa(*blocks)
		}
		return all
	}
	add(name, func(int) bool { return false })
	numas := withCPUs(node)
	for i, numa := range numas {
		add(fmt.Sprintf("%s[%d]", name, numa), func(device int) bool {
			// A device next to none of them counts with the first. Such a device is next to a node
			// that is memory of a GPU, or to none that the kernel knows.
			return device == numa || i == 0 && !slices.Contains(numas, device)
		})
	}
	return all
}

// withCPUs returns the NUMA nodes that have a vnode: see hooks/cgroup/vnodes.go.
func withCPUs(node *topology.Node) []int {
	var list []int
	for _, n := range node.NUMA {
		if n.HasMemory || !n.CPUs.IsEmpty() {
			list = append(list, n.ID)
		}
	}
	return list
}

// counts returns by resource and NUMA node how many devices there are. A resource of which a source
// has failed, so that nothing of it is known, is not in it.
func (p *policy) counts(inv *inventory.Inventory) map[string]map[int]int {
	if inv == nil {
		return nil
	}
	counts := map[string]map[int]int{}
	if p.Devices.DiscoverGPUs {
		counts[ngpus] = map[int]int{}
	}
	for _, d := range p.Device {
		counts[d.Resource] = map[int]int{}
	}
	for _, d := range inv.Devices {
		if c := counts[d.Resource]; c != nil {
			c[d.NUMA]++
		}
	}
	for resource, c := range counts {
		if len(c) == 0 && failed(inv) {
			delete(counts, resource)
		}
	}
	return counts
}
