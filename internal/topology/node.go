// Package topology reads which cpus, cores, sockets and NUMA nodes this machine has.
//
// The package owns /sys/devices/system/cpu (Documentation/ABI/stable/sysfs-devices-system-cpu),
// /sys/devices/system/node (Documentation/ABI/stable/sysfs-devices-node), the totals of
// /proc/meminfo, and the kernel's own limits of tasks. A Node is a snapshot: nothing changes it
// after Scan. Cpus that are offline are not in it. If a kernel does not provide a fact, Scan uses
// the simplest value and does not guess. Without topology files, every cpu is a separate core in
// socket 0. A machine without NUMA is one node 0 with all the memory.
package topology

import "github.com/hookhost/hookhost/internal/kernfs"

// Node is one compute node: a machine, not a NUMA node.
type Node struct {
	CPUs      []CPU        // online cpus, ascending by ID
	Online    kernfs.IDSet // the same cpus as a set
	NUMA      []NUMANode   // ascending by ID; never empty
	MemTotal  int64        // bytes, as in /proc/meminfo
	SwapTotal int64        // bytes
	// Tasks is how many processes and threads the kernel can have: kernel.pid_max, or
	// kernel.threads-max if that is less (Documentation/admin-guide/sysctl/kernel.rst). It is 0 if
	// unknown.
	Tasks   int64
	Threads int // online threads of the core with the most; 1 without hyperthreading
}

// CPU is one hardware thread, which the kernel calls a cpu.
type CPU struct {
	ID int
	// Core is the lowest online cpu of the same core. Unlike the kernel's core_id it is unique in
	// the machine.
	Core     int
	Socket   int          // physical_package_id; 0 if unknown
	NUMA     int          // ID of its NUMANode
	Siblings kernfs.IDSet // the online cpus of its core, itself included
}

// NUMANode is one NUMA node.
type NUMANode struct {
	ID   int
	CPUs kernfs.IDSet // online cpus; empty for a memory-only node
	// MemTotal is in bytes. It is 0 for a node without memory, or if unknown.
	MemTotal int64
	// HasMemory reports whether cpuset.mems may contain the node: the kernel refuses nodes without
	// memory.
	HasMemory bool
}
