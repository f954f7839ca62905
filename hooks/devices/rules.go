package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/internal/devrule"
	"github.com/hookhost/hookhost/internal/inventory"
	"github.com/hookhost/hookhost/internal/topology"
)

// entry is one entry of the base list or of devices.allow, with the rules that result from it on
// this node.
type entry struct {
	text  string
	base  bool // from the base list
	rules []devrule.Rule
}

// common are the devices that every job may open.
type common []entry

// resolve turns the base list and devices.allow into rules. missing has the names that do not exist
// and those that exist but are not device nodes. For the base list it has only the latter, since
// most of its names are missing on most nodes. resolve fails if an entry cannot name any device
// node.
func (p *policy) resolve(look devrule.Lookup) (list common, missing []string, err error) {
	var problem error
	tolerant := func(name string) (nodes []devrule.Node, _ error) {
		nodes, problem = look(name)
		return nodes, nil
	}
	base := devrule.Base(p.Devices.Fuse)
	for i, e := range slices.Concat(base, p.Devices.Allow) {
		problem = nil
		rules, unknown, err := devrule.Resolve([]any{e}, tolerant)
		if err != nil {
			_, _, whole := devrule.Resolve(p.Devices.Allow, tolerant) // names the faulty entry
			return nil, nil, fmt.Errorf("devices.%w", cmp.Or(whole, err))
		}
		switch {
		case problem != nil:
			missing = append(missing, problem.Error())
		case i >= len(base):
			missing = append(missing, unknown...)
		}
		list = append(list, entry{text: devrule.Show(e), base: i < len(base), rules: rules})
	}
	return list, missing, nil
}

// guarded returns the list without rules that would let every job open a device that is given to
// jobs. leftOut describes these rules. The list that OpenPBS ships, "c *:* rwm", is one of them.
// Permission to create nodes (m) opens nothing. A node shared by all of a vendor's devices does not
// count as a device: nvidiactl alone is useless.
//
// A device may be missing in the inventory because there was no scan yet, or because a driver does
// not answer. Rules that might open such a device are left out too.
func (c common) guarded(inv *inventory.Inventory, beside unseen) (kept common, leftOut []string) {
	for _, e := range c {
		var rules, out []devrule.Rule
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

// opens returns the first device of the inventory that the rule would let every job open.
func opens(r devrule.Rule, inv *inventory.Inventory) (topology.Device, topology.DeviceNode, bool) {
	if inv == nil {
		return topology.Device{}, topology.DeviceNode{}, false
	}
	for _, d := range inv.Devices {
		for _, n := range d.Nodes {
			for _, a := range []devrule.Access{devrule.Read, devrule.Write} {
				if devrule.Allows([]devrule.Rule{r}, kindOf(n), n.Major, n.Minor, a) {
					return d, n, true
				}
			}
		}
	}
	return topology.Device{}, topology.DeviceNode{}, false
}

// with returns the rules of a job with that grant, which may be nil. The job's devices also get m,
// like those in the base list.
func (c common) with(g *inventory.Grant) []devrule.Rule {
	var rules []devrule.Rule
	for _, e := range c {
		rules = append(rules, e.rules...)
	}
	for _, n := range grantNodes(g) {
		rules = append(rules, devrule.Rule{Kind: kindOf(n), Major: n.Major, Minor: n.Minor,
			Access: devrule.Read | devrule.Write | devrule.Mknod})
	}
	return rules
}

func kindOf(n topology.DeviceNode) devrule.Kind {
	if n.Block {
		return devrule.Block
	}
	return devrule.Char
}

// unseen are devices that are given to jobs but may be missing in the inventory. That happens
// before the first scan, or if a driver did not answer. Rules that might open them are left out
// until more is known.
type unseen struct {
	why        string            // why it is not known which GPUs there are; "" if it is known
	majors     []uint32          // of GPU drivers; nil: any
	configured []topology.Device // from /dev as it is now, which needs no driver
}

// unseenBy returns which of the node's devices may be missing in inv. A nil inv means that nothing
// is known. majors is called only if GPUs may be missing.
func (p *policy) unseenBy(inv *inventory.Inventory, look devrule.Lookup, majors func() ([]uint32, error)) unseen {
	var u unseen
	if inv == nil {
		inv = &inventory.Inventory{}
	}
	if p.Devices.DiscoverGPUs {
		if u.why = unknown(inv, inventory.GPUSources()...); u.why != "" {
			u.majors, _ = majors() // without an answer, any major number is possible
		}
	}
	if len(p.Device) > 0 && unknown(inv, "device") != "" {
		for _, d := range p.Device {
			for _, path := range d.Paths {
				nodes, _ := look(strings.TrimPrefix(path, "/dev/")) // a device that cannot be examined cannot be opened
				for _, n := range nodes {
					u.configured = append(u.configured, topology.Device{ID: path, Resource: d.Resource,
						Nodes: []topology.DeviceNode{{Path: path, Block: n.Kind == devrule.Block, Major: n.Major,
							Minor: n.Minor}}})
				}
			}
		}
	}
	return u
}

// unknown returns why nothing is known about the devices of one of these sources. It returns "" if
// they are known, even if there are none.
func unknown(inv *inventory.Inventory, names ...string) string {
	asked := false
	for _, name := range names {
		s := sourceOf(inv, name)
		asked = asked || s.Name != ""
		if s.Error == "" || name == "nvml" && sourceOf(inv, "nvidia").Name != "" { // nvidia replaces nvml
			continue
		}
		vendor, _ := inventory.VendorOf(name)
		if !slices.ContainsFunc(inv.Devices, func(d topology.Device) bool { return d.Vendor == vendor }) {
			return name + ": " + s.Error
		}
	}
	if asked {
		return ""
	}
	return cmp.Or(sourceOf(inv, lateSource).Error, "there was no scan yet")
}

// opened describes the devices that a rule would let every job open, or returns "". Rules of the
// base list never open GPUs.
func (u unseen) opened(r devrule.Rule, base bool) string {
	if r.Access&(devrule.Read|devrule.Write) == 0 {
		return ""
	}
	if d, n, ok := opens(r, &inventory.Inventory{Devices: u.configured}); ok {
		return fmt.Sprintf("would let every job open %s (%s), which is %s", n.Path, n, d.Resource)
	}
	if u.why == "" || base || r.Kind == devrule.Block || !u.mayBeGPU(r.Major, r.Minor) {
		return ""
	}
	return fmt.Sprintf("may let every job open GPUs that are not known (%s)", u.why)
}

func (u unseen) mayBeGPU(major, minor uint32) bool {
	if major == devrule.Any {
		return true
	}
	return (u.majors == nil || slices.Contains(u.majors, major)) && !inventory.IsNoGPU(major, minor)
}
