// Package placement chooses the cpus, NUMA nodes and devices of a job. The package is pure: it
// reads and writes nothing, and the same arguments give the same answer.
//
// A request gets the smallest part of the machine in which it fits. Whole sockets that it fills
// exactly come first, then whole NUMA nodes of one socket that it fills exactly. A single NUMA
// node, a single socket, and as few NUMA nodes as possible follow. Among parts of the same rank,
// the Policy decides. Inside a NUMA node, unused cores come first, so jobs share a core only if
// there is no other way. A job that already has cpus keeps as many of them as it requests (Keep).
// It does not move to the part that would otherwise have been chosen.
//
// Devices are chosen first, because there are fewer of them, but with regard to the cpus (pick).
// Then the job gets cpus near its devices, if there is room. A host can also be divided into equal
// blocks of everything (Blocks).
package placement

import (
	"fmt"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/topology"
)

// Request is a job's request and the resources from which it is served.
type Request struct {
	NCPUs   int          // cpus to assign: hardware threads, or cores as the switches below say
	Allowed kernfs.IDSet // cpus that jobs may use; cpus that are offline do not count
	Taken   kernfs.IDSet // cpus that other jobs hold
	Policy  Policy

	// Keep holds the cpus that the job already has and keeps if it can. If it gets as many or more,
	// it keeps all of them. If it gets fewer, it gets no other cpus. It loses cpus that are in
	// Taken or not in Allowed.
	Keep kernfs.IDSet

	// UseHyperthreads makes every hardware thread a cpu. Otherwise only the first allowed thread of
	// a core is a cpu, and only while no other thread of the core is taken.
	UseHyperthreads bool
	// NCPUsAreCores makes each of NCPUs a whole core with all its allowed threads. It requires
	// UseHyperthreads.
	NCPUsAreCores bool

	// MemFences binds the job's memory to the NUMA nodes of its cpus; otherwise it may use all
	// nodes.
	MemFences bool
	// Mem is the job's memory in bytes, FreeMem the free memory of each NUMA node. Both are
	// optional, and only matter if MemFences is set. Parts of the machine with enough memory then
	// come first. If the chosen nodes have too little, Mems gets additional ones.
	Mem     int64
	FreeMem map[int]int64

	// Wants are the devices that the job asks for. No device counts for two wants.
	Wants []Want
	// Devices are the node's devices, with MIG instances in place of the GPU that they are part of.
	// Their order decides between equal choices.
	Devices []topology.Device
	// Held is how many other jobs hold a device, by its ID.
	Held map[string]int
	// JobsPerDevice is how many jobs may hold a device; 0 means 1.
	JobsPerDevice int
	// KeepDevices holds the IDs of devices that the job already has. It keeps as many of them as
	// its wants allow, as with Keep.
	KeepDevices []string
}

// Assignment is the result of a placement.
type Assignment struct {
	CPUs kernfs.IDSet
	Mems kernfs.IDSet // NUMA nodes for cpuset.mems; never a node without memory, always the memory-only ones
	// Devices are IDs, in the order of Request.Devices; nil without any.
	Devices []string
}

// ShortageError means that a request exceeds what is available.
type ShortageError struct {
	Resource   string // as PBS calls it: "ncpus", "ngpus", "blocks"
	Want, Have int64
	Note       string // if devices of a certain kind are short, which kind: "2 of 8 match nvidia:A100"
}

func (e *ShortageError) Error() string {
	text := fmt.Sprintf("%s requested (%d) exceeds %s available (%d)", e.Resource, e.Want, e.Resource, e.Have)
	if e.Note != "" {
		text += ": " + e.Note
	}
	return text
}

// Place chooses cpus, NUMA nodes and devices of node for req. NCPUs of 0 gives no cpus. Place fails
// with a *ShortageError if fewer than NCPUs cpus are free, or fewer devices of a kind than the job
// wants. It never fails because of memory or distance.
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
		m.reserve(picked)
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
