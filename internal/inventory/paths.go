package inventory

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/topology"
)

// configured finds the devices that the administrator has described. Each matching path is one
// device, even if several patterns match it. Index counts the devices of a resource in the order of
// their paths. If a node already belongs to another device, that is an error, because two jobs
// could get it. taken has the resources of the nodes that other sources found.
func configured(sys *kernfs.FS, o Options, taken map[string]string) found {
	var f found
	var failed, notes problems
	seen := map[string]bool{}
	next := map[string]int{}
	for _, c := range o.Devices {
		var paths []string
		for _, pattern := range c.Paths {
			matches, err := o.Glob(pattern)
			switch {
			case err != nil:
				failed.add("%s: pattern %q: %v", c.Resource, pattern, err)
			case len(matches) == 0:
				notes.add("%s: nothing matches %s", c.Resource, pattern)
			}
			paths = append(paths, matches...)
		}
		slices.SortFunc(paths, byNumber)
		for _, path := range slices.Compact(paths) {
			if seen[path] {
				continue
			}
			seen[path] = true
			node, err := o.Node(path)
			if err != nil {
				failed.add("%s: %v", c.Resource, err)
				continue
			}
			if other, ok := taken[node.String()]; ok {
				failed.add("%s: %s (%v) is a device of %s already", c.Resource, path, node, other)
				continue
			}
			taken[node.String()] = c.Resource
			index := next[c.Resource]
			next[c.Resource]++
			d := topology.Device{Resource: c.Resource, Model: c.Model, Index: index, NUMA: -1,
				Nodes: []topology.DeviceNode{node}}
			d.PCI, d.NUMA = behind(sys, node)
			if len(c.Env) > 0 {
				d.Env = map[string]string{}
				replace := strings.NewReplacer("{path}", path, "{index}", strconv.Itoa(index))
				for name, value := range c.Env {
					d.Env[name] = replace.Replace(value)
				}
			}
			f.devices = append(f.devices, d)
		}
	}
	f.sources = []Source{{Name: configuredSource, Count: len(f.devices), Note: notes.String(), Error: failed.String()}}
	return f
}

// behind returns the PCI address and the NUMA node of a node's device, as far as sysfs has them.
func behind(sys *kernfs.FS, node topology.DeviceNode) (pci string, numa int) {
	kind := "char"
	if node.Block {
		kind = "block"
	}
	dir := fmt.Sprintf("dev/%s/%d:%d/device", kind, node.Major, node.Minor)
	d, _ := readPCI(sys, dir)
	return d.address, numaOf(sys, dir)
}
