package main

import (
	"cmp"
	"fmt"
	"slices"

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

// resolve finds out what the base list and devices.allow come to. Names that there is no node for are returned in missing, but
// for those of the base list, most of which are missing on most nodes; what is in the place of a node and is none is told there
// too. It fails for an entry that no node could be meant by.
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

// guarded returns the list without the rules by which any job could open a device that jobs are given one by one, and says what
// it left out. The list that OpenPBS ships, "c *:* rwm", is one such rule. To make nodes (m) opens nothing, and what the holders
// of a vendor's devices share is no device: nvidiactl alone is of no use.
//
// What the inventory does not have, because nobody has looked yet or a driver does not answer, is no reason to open it: a rule that
// may open one of those is left out too.
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

// with returns the rules of a job with that grant; nil is none. Its own devices have m too, as those of the base list have.
func (c common) with(g *inventory.Grant) []devfilter.Rule {
	var rules []devfilter.Rule
	for _, e := range c {
		rules = append(rules, e.rules...)
	}
	for _, n := range grantNodes(g) {
		rules = append(rules, devfilter.Rule{Kind: kindOf(n), Major: n.Major, Minor: n.Minor, Access: devfilter.Read | devfilter.Write | devfilter.Mknod})
	}
	return rules
}

func kindOf(n topology.DeviceNode) devfilter.Kind {
	if n.Block {
		return devfilter.Block
	}
	return devfilter.Char
}
