// Package placement chooses the cpus and NUMA nodes of a job. The package is pure: the same
// arguments give the same answer, and nothing is read or written.
//
// A request goes to the smallest part of the machine that takes it. Whole sockets that it fits
// exactly come first, then whole NUMA nodes of one socket that it fits exactly. A single NUMA node,
// a single socket, and as few NUMA nodes as possible follow. The Policy chooses among parts of one
// rank. Inside a NUMA node, cores that nobody uses come first. Jobs thus share a core only when
// there is no other way. A job that has cpus already keeps them as far as its request goes (Keep).
// The part of the machine that would have been chosen for it does not matter then.
//
// Devices are chosen first, as there are fewer of them, but with an eye to the cpus (pick). The
// job's cpus are then near to them where there is room. A host can also be cut into equal blocks of
// everything (Blocks).
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

	// Keep are cpus that the job has already and is to keep as far as it can. None of them leaves a
	// job that gets as many or more. No cpu comes to a job that gets fewer. Cpus that are in Taken
	// or not in Allowed are lost to it.
	Keep kernfs.IDSet

	// UseHyperthreads makes every hardware thread a cpu. Else only the first allowed thread of a
	// core is a cpu, and only while no other thread of the core is taken.
	UseHyperthreads bool
	// NCPUsAreCores makes every one of NCPUs a whole core with all its allowed threads.
	// NCPUsAreCores needs UseHyperthreads.
	NCPUsAreCores bool

	// MemFences binds the job's memory to the NUMA nodes of its cpus; otherwise it may use all
	// nodes.
	MemFences bool
	// Mem is the job's memory in bytes, FreeMem what each NUMA node has left. Both are optional and
	// only weigh when MemFences is set. Parts of the machine with room come first then. Mems gets
	// further nodes when the chosen ones have too little.
	Mem     int64
	FreeMem map[int]int64

	// Wants are the devices that the job asks for. No device counts for two of them.
	Wants []Want
	// Devices are what there is, a MIG instance instead of the GPU that it is part of. Their order
	// decides between equals.
	Devices []topology.Device
	// Held tells by ID how many other jobs hold a device.
	Held map[string]int
	// JobsPerDevice is how many jobs may hold a device; 0 is 1.
	JobsPerDevice int
	// KeepDevices are IDs of devices that the job has and is to keep as far as its wants go, like
	// Keep.
	KeepDevices []string
}

// Assignment is what a job gets.
type Assignment struct {
	CPUs kernfs.IDSet
	Mems kernfs.IDSet // NUMA nodes for cpuset.mems; nodes without memory are never in it, memory-only ones always
	// Devices are IDs, in the order of Request.Devices; nil without any.
	Devices []string
}

// ShortageError is a request for more than there is.
type ShortageError struct {
	Resource   string // as PBS calls it: "ncpus", "ngpus", "blocks"
	Want, Have int64
	Note       string // of devices of a certain kind, which that is: "2 of 8 match nvidia:A100"
}

func (e *ShortageError) Error() string {
	text := fmt.Sprintf("%s requested (%d) exceeds %s available (%d)", e.Resource, e.Want, e.Resource, e.Have)
	if e.Note != "" {
		text += ": " + e.Note
	}
	return text
}

// Place chooses cpus, NUMA nodes and devices of node for req. NCPUs of 0 gives no cpus. Place fails
// with a *ShortageError when fewer cpus than NCPUs are free, or fewer devices of a kind than the
// job wants. Memory and distance never make it fail.
func Place(node *topology.Node, req Request) (Assignment, error) {
	if req.NCPUs < 0 {
		return Assignment{}, fmt.Errorf("place job: %d ncpus", req.NCPUs)
	}
	m := newMachine(node, req)
	if req.NCPUs > m.free {
		return Assignment{}, &ShortageError{Resource: "ncpus", Want: int64(req.NCPUs), Have: int64(m.free)}
	}
	picked, err := m.pick()
	if err != nil {
		return Assignment{}, err
	}
	if len(picked) > 0 {
		m.assign(picked)
	}
	if req.NCPUs > 0 && !req.Keep.IsEmpty() {
		if a, ok := replace(node, req, m); ok {
			a.Devices = m.ids(picked)
			return a, nil
		}
	}
	shares := m.choose(req.NCPUs)
	return Assignment{CPUs: m.cpusOf(shares), Mems: m.mems(shares), Devices: m.ids(picked)}, nil
}

// cpusOf returns the cpus of shares.
func (m *machine) cpusOf(shares []share) kernfs.IDSet {
	var cpus []int
	for _, s := range shares {
		cpus = s.leaf.appendCPUs(cpus, s.n, m.unit)
	}
	return kernfs.IDs(cpus...)
}
