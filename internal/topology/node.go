// Package topology reads which cpus, cores, sockets and NUMA nodes this machine has.
//
// The package owns /sys/devices/system/cpu (Documentation/ABI/stable/sysfs-devices-system-cpu),
// /sys/devices/system/node (Documentation/ABI/stable/sysfs-devices-node), the totals of
// /proc/meminfo, and the kernel's own limits of tasks. A Node is a snapshot: nothing changes it
// after Scan. Cpus that are offline are not in it. Facts that a kernel does not give are degraded,
// not guessed. Every cpu is a core of its own in socket 0 when there are no topology files. A
// machine that has no NUMA is one node 0 with all the memory.
package topology

import "github.com/hookhost/hookhost/internal/kernfs"

// Node is one compute node: a machine, not a NUMA node.
type Node struct {
	CPUs      []CPU        // online cpus, ascending by ID
	Online    kernfs.IDSet // the same cpus as a set
	NUMA      []NUMANode   // ascending by ID; never empty
	MemTotal  int64        // bytes, as /proc/meminfo has it
	SwapTotal int64        // bytes
	// Tasks is how many processes and threads the kernel can have: kernel.pid_max, or
	// kernel.threads-max where that is less (Documentation/admin-guide/sysctl/kernel.rst). 0 where
	// it does not tell.
	Tasks   int64
	Threads int // online threads of the core that has the most of them; 1 without hyperthreads
}

// CPU is one hardware thread, which is what the kernel calls a cpu.
type CPU struct {
	ID int
	// Core is the lowest online cpu of the same core. Unlike the kernel's core_id it is unique in
	// the machine.
	Core     int
	Socket   int          // physical_package_id; 0 where the kernel knows none
	NUMA     int          // ID of its NUMANode
	Siblings kernfs.IDSet // the online cpus of its core, itself included
}

// NUMANode is one NUMA node.
type NUMANode struct {
	ID   int
	CPUs kernfs.IDSet // online cpus; empty for a memory-only node
	// MemTotal is in bytes; 0 for a node without memory and where the kernel does not tell.
	MemTotal int64
	// HasMemory reports whether cpuset.mems may name the node: the kernel refuses one without
	// memory.
	HasMemory bool
}
