package main

import (
	"errors"
	"slices"

	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/inventory"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/topology"
)

// host is what jobs can get: the node, and the cpus and NUMA nodes that the parent of all jobs may
// use.
type host struct {
	node     *topology.Node
	cpus     kernfs.IDSet
	mems     kernfs.IDSet // empty if the kernel has no cpusets
	hasMem   bool
	hasMemsw bool
	hasPids  bool
	tasks    int64    // limit for all jobs together; 0 if none is known or [pids] is not enabled
	v2       bool     // the controllers are on v2
	quota    *float64 // cpu time for all jobs together, in cpus; nil: all cpus

	hugePages topology.HugePages // empty unless [hugetlb] is enabled

	devices *inventory.Inventory // nil if the job asks for none
	around  []topology.Device    // only if it asks for none: the devices near which it should leave cpus free
}

// survey reads what all jobs together may use.
func (h *hook) survey() (there host, err error) {
	there = host{
		node:     h.node(),
		cpus:     h.node().Online,
		hasMem:   h.tree.Has("memory"),
		hasMemsw: h.tree.Has("memsw"),
		hasPids:  h.tree.Has("pids"),
		v2:       h.tree.Mode() == cgroup.ModeV2,
	}
	if h.policy.Hugetlb.Enabled {
		if there.hugePages, err = topology.ScanHugePages(h.roots); err != nil {
			return host{}, err
		}
	}
	if h.policy.Pids.Enabled {
		if there.tasks, err = h.tasks(); err != nil {
			return host{}, err
		}
	}
	if h.policy.CPU.Enabled {
		quota, limited, err := h.tree.Quota()
		if err != nil {
			return host{}, err
		}
		if limited {
			there.quota = &quota
		}
	}
	cpus, err := h.tree.CPUs()
	if errors.Is(err, cgroup.ErrUnsupported) {
		return there, nil // no cpusets here
	}
	if err != nil {
		return host{}, err
	}
	there.cpus = cpus.Intersect(h.node().Online)
	there.mems, err = h.tree.Mems()
	return there, err
}

// tasks returns how many tasks all jobs together may have, by [pids] and by the cgroups above them.
// 0 means that no limit is known.
func (h *hook) tasks() (int64, error) {
	total := h.policy.Pids.Left(min(h.node().Tasks, config.MaxPids))
	above, err := h.tree.PidsAbove()
	if err != nil || above == nil {
		return total, err
	}
	if total == 0 {
		return *above, nil
	}
	return min(total, *above), nil
}

// pool returns the devices that a job can be given: the ones that were found and the ones that it
// already has. If one of its devices was not found this time, the job keeps it. Devices that were
// found in its place under another name are left out.
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
