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

// entry is one entry of the base list or of devices.allow, with what it comes to on this node.
type entry struct {
	text  string
	base  bool // of the base list
	rules []devfilter.Rule
}

// common are the devices that every job may open.
type common []entry

// resolve finds out what the base list and devices.allow come to. Names that there is no node for
// are in missing, and so is what is in the place of a node and is none. Names of the base list are
// left out there, since most of them are missing on most nodes. resolve fails for an entry that no
// node could be meant by.
func (p *policy) resolve(look devfilter.Lookup) (list common, missing []string, err error) {
	var problem error
	tolerant := func(name string) (nodes []devfilter.Node, _ error) {
		nodes, problem = look(name)
		return nodes, nil
	}
	base := devfilter.Base(p.Devices.Fuse)
	for i, e := range slices.Concat(base, p.Devices.Allow) {
		problem = nil
		rules, unknown, err := devfilter.Resolve([]any{e}, tolerant)
		if err != nil {
			_, _, whole := devfilter.Resolve(p.Devices.Allow, tolerant) // says which entry it is
			return nil, nil, fmt.Errorf("devices.%w", cmp.Or(whole, err))
		}
		switch {
		case problem != nil:
			missing = append(missing, problem.Error())
		case i >= len(base):
			missing = append(missing, unknown...)
		}
		list = append(list, entry{text: devfilter.Show(e), base: i < len(base), rules: rules})
	}
	return list, missing, nil
}

// guarded returns the list without the rules by which any job could open a device that jobs are
// given one by one. leftOut names these. The list that OpenPBS ships, "c *:* rwm", is one such
// rule. To make nodes (m) opens nothing. A node that the holders of a vendor's devices share is no
// device: nvidiactl alone is of no use.
//
// A device may be missing in the inventory since nobody has looked yet, or a driver does not
// answer. A rule that may open one of those is left out too.
func (c common) guarded(inv *inventory.Inventory, beside unseen) (kept common, leftOut []string) {
	for _, e := range c {
		var rules, out []devfilter.Rule
		var why string
		for _, r := range e.rules {
			what := beside.opened(r, e.base)
			if d, n, ok := opens(r, inv); ok {
				what = fmt.Sprintf("would let every job open %s (%s), which is %s %s", n.Path, n, d.Resource, d.ID)
			} else if what == "" {
				rules = append(rules, r)
				continue
			}
			if out = append(out, r); why == "" {
				why = e.text + " " + what
			}
		}
		if len(out) > 0 {
			list := "devices.allow"
			if e.base {
				list = "base list"
			}
			leftOut = append(leftOut, fmt.Sprintf("%s: %s: left out: %q", list, why, out))
		}
		e.rules = rules
		kept = append(kept, e)
	}
	return kept, leftOut
}

// opens returns the first device of the inventory that the rule lets everybody open.
func opens(r devfilter.Rule, inv *inventory.Inventory) (topology.Device, topology.DeviceNode, bool) {
	if inv == nil {
		return topology.Device{}, topology.DeviceNode{}, false
	}
	for _, d := range inv.Devices {
		for _, n := range d.Nodes {
			for _, a := range []devfilter.Access{devfilter.Read, devfilter.Write} {
				if devfilter.Allows([]devfilter.Rule{r}, kindOf(n), n.Major, n.Minor, a) {
					return d, n, true
				}
			}
		}
	}
	return topology.Device{}, topology.DeviceNode{}, false
}

// with returns the rules of a job with that grant; nil is none. Its own devices have m too, as
// those of the base list have.
func (c common) with(g *inventory.Grant) []devfilter.Rule {
	var rules []devfilter.Rule
	for _, e := range c {
		rules = append(rules, e.rules...)
	}
	for _, n := range grantNodes(g) {
		rules = append(rules, devfilter.Rule{Kind: kindOf(n), Major: n.Major, Minor: n.Minor,
			Access: devfilter.Read | devfilter.Write | devfilter.Mknod})
	}
	return rules
}

func kindOf(n topology.DeviceNode) devfilter.Kind {
	if n.Block {
		return devfilter.Block
	}
	return devfilter.Char
}

// unseen are the devices that jobs are given one by one and that the inventory does not have. Such
// devices are there before anybody has looked, or after a driver did not answer. A rule that may
// open one of them is left out until more is known.
type unseen struct {
	why        string            // it is not known which GPUs there are; "" where it is
	majors     []uint32          // of the drivers of GPUs; nil: any
	configured []topology.Device // as they are in /dev now: to ask that asks no driver
}

// unseenBy tells what of the node's devices inv (nil: nothing is known) may not have. majors is
// asked only where that is GPUs.
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
						Nodes: []topology.DeviceNode{{Path: path, Block: n.Kind == devfilter.Block, Major: n.Major,
							Minor: n.Minor}}})
				}
			}
		}
	}
	return u
}

// unknown says why nothing is known of what some of these sources find; "" where something is, be
// it that there is nothing.
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

// opened says what a rule, of the base list or not, would let every job open; "" for nothing. In
// the base list there is no GPU.
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
