package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/internal/devfilter"
	"github.com/hookhost/hookhost/internal/inventory"
	"github.com/hookhost/hookhost/internal/topology"
)

// unseen are the devices that jobs are given one by one and that the inventory does not have: nobody has looked yet, or a driver
// did not answer, and nothing is known of an earlier time. A rule that may open one of them is left out until more is known.
type unseen struct {
	why        string            // it is not known which GPUs there are; "" where it is
	majors     []uint32          // of the drivers of GPUs; nil: any
	configured []topology.Device // as they are in /dev now: to ask that asks no driver
}

// unseenBy tells what of the node's devices inv (nil: nothing is known) may not have. majors is asked only where that is GPUs.
func (p *policy) unseenBy(inv *inventory.Inventory, look devfilter.Lookup, majors func() ([]uint32, error)) unseen {
	var u unseen
	if inv == nil {
		inv = &inventory.Inventory{}
	}
	if p.Devices.DiscoverGPUs {
		if u.why = unknown(inv, "nvml", "nvidia", "amd", "intel", "habana"); u.why != "" {
			u.majors, _ = majors() // without an answer it may be any
		}
	}
	if len(p.Device) > 0 && unknown(inv, "device") != "" {
		for _, d := range p.Device {
			for _, path := range d.Paths {
				nodes, _ := look(strings.TrimPrefix(path, "/dev/")) // what cannot be looked at cannot be opened
				for _, n := range nodes {
					u.configured = append(u.configured, topology.Device{ID: path, Resource: d.Resource,
						Nodes: []topology.DeviceNode{{Path: path, Block: n.Kind == devfilter.Block, Major: n.Major, Minor: n.Minor}}})
				}
			}
		}
	}
	return u
}

// unknown says why nothing is known of what some of these sources find; "" where something is, be it that there is nothing.
func unknown(inv *inventory.Inventory, names ...string) string {
	asked := false
	for _, name := range names {
		s := sourceOf(inv, name)
		asked = asked || s.Name != ""
		if s.Error == "" || name == "nvml" && sourceOf(inv, "nvidia").Name != "" { // which stands in for it
			continue
		}
		if !slices.ContainsFunc(inv.Devices, func(d topology.Device) bool { return d.Vendor == vendorOf[name] }) {
			return name + ": " + s.Error
		}
	}
	if asked {
		return ""
	}
	return cmp.Or(sourceOf(inv, lateSource).Error, "nobody has looked yet")
}

// opened says what a rule, of the base list or not, would let every job open; "" for nothing. In the base list there is no GPU.
func (u unseen) opened(r devfilter.Rule, base bool) string {
	if r.Access&(devfilter.Read|devfilter.Write) == 0 {
		return ""
	}
	if d, n, ok := opens(r, &inventory.Inventory{Devices: u.configured}); ok {
		return fmt.Sprintf("would let every job open %s (%s), which is %s", n.Path, n, d.Resource)
	}
	if u.why == "" || base || r.Kind == devfilter.Block || !u.mayBeGPU(r.Major, r.Minor) {
		return ""
	}
	return fmt.Sprintf("may let every job open GPUs, and it is not known which there are (%s)", u.why)
}

func (u unseen) mayBeGPU(major, minor uint32) bool {
	if major == devfilter.Any {
		return true
	}
	return (u.majors == nil || slices.Contains(u.majors, major)) && !inventory.IsNoGPU(major, minor)
}
