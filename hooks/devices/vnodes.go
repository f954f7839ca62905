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

// vnodes returns the devices to report with the vnodes of hook cgroup (docs/vnodes.md). They belong
// to the natural vnode, called name, or with vnode_per_numa_node to those of the NUMA nodes. If the
// amount of a resource is not known, PBS keeps its value. The same goes for blocks if they are nil.
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
		if p.Devices.Blocks > 0 && blocks != nil { // not allowed together with vnode_per_numa_node
			all[name].ResourcesAvailable["blocks"] = strconv.Itoa(*blocks)
		}
		return all
	}
	add(name, func(int) bool { return false })
	numas := withCPUs(node)
	for i, numa := range numas {
		add(fmt.Sprintf("%s[%d]", name, numa), func(device int) bool {
			// A device that is near none of them counts for the first. It may be near a NUMA node
			// that is a GPU's memory, or the kernel may not know where it is.
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

// counts returns the number of devices by resource and NUMA node. It leaves out resources about
// which nothing is known because a source failed.
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
