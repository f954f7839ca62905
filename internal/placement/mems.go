package placement

import "github.com/hookhost/hookhost/internal/kernfs"

// mems returns the NUMA nodes whose memory a job with these shares may use.
func (m *machine) mems(shares []share) kernfs.IDSet {
	var every, chosen, memoryOnly []int
	near := map[int]bool{} // the job's sockets
	numa := map[int]bool{} // the NUMA nodes of its cpus
	for _, s := range shares {
		near[s.leaf.socket] = true
		numa[s.leaf.numa] = true
	}
	for _, n := range m.node.NUMA {
		switch {
		case !n.HasMemory:
			continue
		case n.CPUs.IsEmpty():
			memoryOnly = append(memoryOnly, n.ID)
		case numa[n.ID]:
			chosen = append(chosen, n.ID)
		}
		every = append(every, n.ID)
	}
	// If the nodes of its cpus have no memory, the job needs that of other nodes. A job without
	// cpus has no such nodes.
	if !m.req.MemFences || len(chosen) == 0 {
		return kernfs.IDs(every...)
	}
	set := kernfs.IDs(append(chosen, memoryOnly...)...)
	if !m.weighsMemory() {
		return set
	}
	for m.freeMem(set) < m.req.Mem {
		next := m.roomiest(set, near)
		if next < 0 {
			break
		}
		set = set.Union(kernfs.IDs(next))
	}
	return set
}

// weighsMemory reports whether the request says enough for memory to be considered.
func (m *machine) weighsMemory() bool {
	return m.req.MemFences && m.req.Mem > 0 && m.req.FreeMem != nil
}

// hasRoom reports whether the NUMA nodes of leaves, together with the memory-only ones, have enough
// free memory for the job.
func (m *machine) hasRoom(leaves []*leaf) bool {
	if !m.weighsMemory() {
		return true
	}
	var ids []int
	for _, l := range leaves {
		ids = append(ids, l.numa)
	}
	for _, n := range m.node.NUMA {
		if n.CPUs.IsEmpty() {
			ids = append(ids, n.ID)
		}
	}
	return m.freeMem(kernfs.IDs(ids...)) >= m.req.Mem
}

// freeMem returns the free memory of all nodes together. A negative figure counts as 0.
func (m *machine) freeMem(nodes kernfs.IDSet) int64 {
	var sum int64
	for _, n := range m.node.NUMA {
		if n.HasMemory && nodes.Has(n.ID) {
			sum = saturatedSum(sum, max(m.req.FreeMem[n.ID], 0))
		}
	}
	return sum
}

// roomiest returns the node outside set with the most free memory, preferably in the job's sockets.
// It returns -1 if no other node has any.
func (m *machine) roomiest(set kernfs.IDSet, near map[int]bool) int {
	best, bestNear := -1, false
	for _, n := range m.node.NUMA {
		if !n.HasMemory || set.Has(n.ID) || m.req.FreeMem[n.ID] <= 0 {
			continue
		}
		isNear := m.isIn(n.CPUs, near)
		if best < 0 || isNear && !bestNear || isNear == bestNear && m.req.FreeMem[n.ID] > m.req.FreeMem[best] {
			best, bestNear = n.ID, isNear
		}
	}
	return best
}

// isIn reports whether one of cpus is in one of sockets.
func (m *machine) isIn(cpus kernfs.IDSet, sockets map[int]bool) bool {
	for _, cpu := range m.node.CPUs {
		if sockets[cpu.Socket] && cpus.Has(cpu.ID) {
			return true
		}
	}
	return false
}

func saturatedSum(a, b int64) int64 {
	if sum := a + b; sum >= a {
		return sum
	}
	return 1<<63 - 1
}
