package main

import (
	"slices"

	"github.com/hookhost/hookhost/internal/inventory"
	"github.com/hookhost/hookhost/internal/topology"
)

// regrant returns the grant that replaces had if the job now gets gets. For had, nil means no
// grant. For gets, it means no devices. If nothing changes, the result is had. Devices that the job
// gives up stay reserved until hook devices has removed them from the filter.
func regrant(had, gets *inventory.Grant) *inventory.Grant {
	if had == nil {
		return gets
	}
	if gets == nil {
		gets = &inventory.Grant{Devices: []topology.Device{}}
	}
	if sameIDs(had.Devices, gets.Devices) && slices.Equal(had.Blocks, gets.Blocks) {
		return had
	}
	g := *gets
	g.Serial = had.Serial + 1
	g.Leaving = without(slices.Concat(had.Devices, had.Leaving), g.Devices)
	return &g
}

func sameIDs(a, b []topology.Device) bool {
	return slices.EqualFunc(a, b, func(d, e topology.Device) bool { return d.ID == e.ID })
}

// both returns the devices and blocks of the two grants together. A nil grant is empty.
func both(had, gets *inventory.Grant) *inventory.Grant {
	if had == nil {
		return gets
	}
	if gets == nil {
		return had
	}
	g := *had
	g.Devices = slices.Concat(had.Devices, without(gets.Devices, had.Devices))
	g.Blocks = slices.Clip(had.Blocks)
	for _, b := range gets.Blocks {
		if !slices.Contains(g.Blocks, b) {
			g.Blocks = append(g.Blocks, b)
		}
	}
	return &g
}

// without returns the devices of list that are not in others.
func without(list, others []topology.Device) []topology.Device {
	return slices.DeleteFunc(slices.Clone(list), func(d topology.Device) bool {
		return slices.ContainsFunc(others, func(e topology.Device) bool { return e.ID == d.ID })
	})
}
