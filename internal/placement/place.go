// Package placement chooses the cpus and NUMA nodes of a job. It is pure: the same arguments give the same answer,
// nothing is read or written.
//
// A request goes to the smallest part of the machine that takes it, in this order: whole sockets that it fits exactly,
// whole NUMA nodes of one socket that it fits exactly, one NUMA node, one socket, and else as few NUMA nodes as
// possible. Among parts of one rank the Policy chooses. Inside a NUMA node, cores that nobody uses come first, so that
// jobs share a core only when there is no other way. A job that has cpus already keeps them as far as its request goes
// (Keep), whatever part of the machine would have been chosen for it.
package placement

import (
	"fmt"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/topology"
)

// Request is what a job needs and what there is to take it from.
type Request struct {
	NCPUs   int          // cpus to assign: hardware threads, or cores as the switches below say
	Allowed kernfs.IDSet // cpus that jobs may use at all; those that are not online do not count
	Taken   kernfs.IDSet // cpus that other jobs hold
	Policy  Policy

	// Keep are cpus that the job has already and is to keep as far as it can: none of them leaves a job that gets as many
	// or more, none comes to a job that gets fewer. Those that are in Taken or not in Allowed are lost to it.
	Keep kernfs.IDSet

	// UseHyperthreads makes every hardware thread a cpu. Without it only the first allowed thread of a core is one, and
	// not even that while another thread of the core is taken.
	UseHyperthreads bool
	// NCPUsAreCores makes every one of NCPUs a whole core with all its allowed threads. It needs UseHyperthreads.
	NCPUsAreCores bool

	// MemFences binds the job's memory to the NUMA nodes of its cpus; otherwise it may use all nodes.
	MemFences bool
	// Mem is the job's memory in bytes, FreeMem what each NUMA node has left. Both are optional and only weigh when
	// MemFences is set: parts of the machine with room come first, and where the chosen nodes have too little, Mems gets
	// further ones.
	Mem     int64
	FreeMem map[int]int64
}

// Assignment is what a job gets.
type Assignment struct {
	CPUs kernfs.IDSet
	Mems kernfs.IDSet // NUMA nodes for cpuset.mems; nodes without memory are never in it, memory-only ones always
}

// ShortageError is a request for more than there is.
type ShortageError struct {
	Resource   string // as PBS calls it: "ncpus"
	Want, Have int64
}

func (e *ShortageError) Error() string {
	return fmt.Sprintf("%s requested (%d) exceeds %s available (%d)", e.Resource, e.Want, e.Resource, e.Have)
}

// Place chooses cpus and NUMA nodes of node for req. NCPUs of 0 gives no cpus. It fails with a *ShortageError when
// fewer cpus than NCPUs are free; memory never makes it fail.
func Place(node *topology.Node, req Request) (Assignment, error) {
	if req.NCPUs < 0 {
		return Assignment{}, fmt.Errorf("place job: %d ncpus", req.NCPUs)
	}
	m := newMachine(node, req)
	if req.NCPUs > m.free {
		return Assignment{}, &ShortageError{Resource: "ncpus", Want: int64(req.NCPUs), Have: int64(m.free)}
	}
	if req.NCPUs > 0 && !req.Keep.IsEmpty() {
		if a, ok := replace(node, req, m); ok {
			return a, nil
		}
	}
	shares := m.choose(req.NCPUs)
	return Assignment{CPUs: m.take(shares), Mems: m.mems(shares)}, nil
}

// take returns the cpus of shares.
func (m *machine) take(shares []share) kernfs.IDSet {
	var cpus []int
	for _, s := range shares {
		cpus = s.leaf.take(cpus, s.n, m.unit)
	}
	return kernfs.IDs(cpus...)
}
