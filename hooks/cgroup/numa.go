package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/placement"
	"github.com/hookhost/hookhost/internal/topology"
)

// With vnode_per_numa_node PBS allocates NUMA nodes individually. A job gets its share of vnode
// host[n] on NUMA node n and nowhere else. Otherwise the NUMA node that PBS promises to the next
// job might be taken (openpbs pbs_cgroups.PY, assign_job).

// numaOf returns the ncpus of this host's chunks on vnodes named host[n], by n. It includes a vnode
// without cpus, because of its memory. It returns nil if there is no such vnode. Vnodes with other
// names were defined by the site and are not NUMA nodes.
func numaOf(chunks []pbs.VnodeChunk, host string) (map[int]int, error) {
	var by map[int]int
	for _, c := range chunks {
		name, text, ok := strings.Cut(c.Vnode, "[")
		if !ok || !pbs.SameHost(name, host) {
			continue
		}
		n, err := strconv.Atoi(strings.TrimSuffix(text, "]"))
		if err != nil {
			continue // no number, or longer than any NUMA node's id
		}
		share, err := pbs.Share([]pbs.VnodeChunk{c})
		if err != nil {
			return nil, err
		}
		if by == nil {
			by = map[int]int{}
		}
		by[n] += share.NCPUs
	}
	return by, nil
}

// placed chooses cpus and NUMA nodes like placement.Place, but keeps each vnode's share on its NUMA
// node.
func (p *policy) placed(node *topology.Node, req placement.Request, a ask) (placement.Assignment, error) {
	if !p.Vnodes.PerNUMANode || len(a.numa) == 0 {
		return placement.Place(node, req)
	}
	var got placement.Assignment
	rest := req.NCPUs
	for _, id := range slices.Sorted(maps.Keys(a.numa)) {
		i := slices.IndexFunc(node.NUMA, func(n topology.NUMANode) bool { return n.ID == id })
		if i < 0 {
			return placement.Assignment{},
				hostapi.Errorf(hostapi.KindNode, "exec_vnode names NUMA node %d, which this host does not have", id)
		}
		if node.NUMA[i].HasMemory {
			got.Mems = got.Mems.Union(kernfs.IDs(id))
		}
		n := a.numa[id]
		if n == 0 {
			continue
		}
		part := req
		part.NCPUs, part.Allowed = n, req.Allowed.Intersect(cpusOf(node, id))
		part.Mem, part.FreeMem = 0, nil // its memory comes from its vnode
		one, err := placement.Place(node, part)
		if err != nil {
			return placement.Assignment{}, fmt.Errorf("NUMA node %d: %w", id, err)
		}
		rest -= n
		got.CPUs, got.Mems = got.CPUs.Union(one.CPUs), got.Mems.Union(one.Mems)
	}
	if rest <= 0 {
		return got, nil
	}
	// The natural vnode has no resources if startup reported the others.
	req.NCPUs, req.Taken = rest, req.Taken.Union(got.CPUs)
	one, err := placement.Place(node, req)
	if err != nil {
		return placement.Assignment{}, err
	}
	return placement.Assignment{CPUs: got.CPUs.Union(one.CPUs), Mems: got.Mems.Union(one.Mems)}, nil
}
