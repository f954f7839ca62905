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

// With vnode_per_numa_node PBS gives away the NUMA nodes one by one. A job gets its part of vnode
// host[n] on NUMA node n and nowhere else. Otherwise the next job would find the node that PBS
// promised it taken (openpbs pbs_cgroups.PY, assign_job).

// numaOf returns the ncpus of those of this host's chunks that name a vnode host[n], by n; a vnode
// without cpus counts, for its memory. Nil when there is none. A vnode of another name is the
// site's, and no NUMA node.
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

// placed chooses cpus and NUMA nodes as placement.Place does, with each vnode's part on the vnode's
// own NUMA node.
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
				hostapi.Errorf(hostapi.KindNode, "exec_vnode names NUMA node %d, which this host has not", id)
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
		part.Mem, part.FreeMem = 0, nil // its memory is its vnode's
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
	// The natural vnode has nothing of its own if startup told of the others.
	req.NCPUs, req.Taken = rest, req.Taken.Union(got.CPUs)
	one, err := placement.Place(node, req)
	if err != nil {
		return placement.Assignment{}, err
	}
	return placement.Assignment{CPUs: got.CPUs.Union(one.CPUs), Mems: got.Mems.Union(one.Mems)}, nil
}
