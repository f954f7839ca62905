package main

import (
	"slices"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/inventory"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/topology"
)

// host describes what jobs can get: the node, and those of its cpus and NUMA nodes that are
// available to jobs.
type host struct {
	node  *topology.Node
	cpus  kernfs.IDSet                 // without those of exclude_cpus
	mems  kernfs.IDSet                 // empty if the kernel has no cpusets
	has   func(controller string) bool // see cgroup.Tree.Has
	tasks int64                        // limit for all jobs together; 0 if not known or [pids] is not enabled
	v2    bool                         // the controllers are on v2
	quota *float64                     // cpu time for all jobs together, in cpus; nil means all cpus

	hugePages topology.HugePages // empty unless [hugetlb] is enabled

	devices *inventory.Inventory // nil if the job requests none
	around  []topology.Device    // only if the job requests none: it should leave the cpus near these devices free
}

// survey reads what all jobs together may use.
func (h *hook) survey() (there host, err error) {
	there = host{node: h.node(), has: h.tree.Has, v2: h.tree.Mode() == cgroup.ModeV2}
	for _, r := range resources {
		if r.offer == nil {
			continue
		}
		if err := r.offer(h, &there); err != nil {
			return host{}, hostapi.Errorf(hostapi.KindNode, "survey cgroups: %w", err)
		}
	}
	return there, nil
}

// pool returns the devices that a job can be given: those that were found and those that it already
// has. If one of its devices was not found this time, the job keeps it. In that case devices are
// left out that were found in the same place under another name.
func (h host) pool(had *inventory.Grant) []topology.Device {
	if h.devices == nil {
		return nil
	}
	pool := h.devices.Devices
	lost := h.lost(had)
	if len(lost) == 0 {
		return pool
	}
	pool = slices.DeleteFunc(slices.Clone(pool), func(e topology.Device) bool {
		mine := slices.ContainsFunc(had.Devices, func(d topology.Device) bool { return d.ID == e.ID })
		return !mine && slices.ContainsFunc(lost, e.Overlaps)
	})
	return append(pool, lost...)
}

// lost returns the devices of a grant that were not found this time.
func (h host) lost(had *inventory.Grant) []topology.Device {
	if had == nil {
		return nil
	}
	return without(had.Devices, h.devices.Devices)
}
