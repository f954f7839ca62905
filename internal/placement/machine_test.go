package placement

import (
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/topology"
)

// shape is a regular machine.
type shape struct{ sockets, nodes, cores, threads, memoryOnly int }

// build makes a machine of that shape: nodes a socket, cores a node, threads a core. Cpus are
// numbered as x86 numbers them: all first threads, then all second ones. Memory-only nodes come
// last.
func (s shape) build() *topology.Node {
	node := &topology.Node{Threads: s.threads}
	cores := s.sockets * s.nodes * s.cores
	byNode := make([][]int, s.sockets*s.nodes+s.memoryOnly)
	for id := range cores * s.threads {
		core := id % cores
		var siblings []int
		for thread := range s.threads {
			siblings = append(siblings, core+thread*cores)
		}
		numa := core / s.cores
		node.CPUs = append(node.CPUs, topology.CPU{
			ID: id, Core: core, Socket: numa / s.nodes, NUMA: numa, Siblings: kernfs.IDs(siblings...),
		})
		byNode[numa] = append(byNode[numa], id)
	}
	for id, cpus := range byNode {
		node.NUMA = append(node.NUMA,
			topology.NUMANode{ID: id, CPUs: kernfs.IDs(cpus...), MemTotal: 1 << 30, HasMemory: true})
		node.Online = node.Online.Union(kernfs.IDs(cpus...))
		node.MemTotal += 1 << 30
	}
	return node
}
