package topology

import (
	"fmt"
	"slices"
)

// Device is a device, or a part of one (a MIG instance), that jobs are given as a whole.
type Device struct {
	// ID is unique on the node and the same after a reboot: the UUID, else the PCI address, else
	// the path of the first node.
	ID string `json:"id"`
	// what a job asks for: "ngpus", or the name of a configured one, such as "fpga"
	Resource string `json:"resource"`
	Vendor   string `json:"vendor,omitempty"` // nvidia, amd, intel or habana; "" for a configured one
	Model    string `json:"model,omitempty"`  // as the driver names it: "NVIDIA A100-SXM4-40GB"
	Memory   int64  `json:"memory,omitempty"` // bytes; 0 where nobody tells
	UUID     string `json:"uuid,omitempty"`   // as the vendor writes it: "GPU-...", "MIG-..."
	PCI      string `json:"pci,omitempty"`    // 0000:07:00.0; a MIG instance has its GPU's
	// UUID of the GPU that a MIG instance is part of; that GPU is not in the pool
	Parent string `json:"parent,omitempty"`
	// of a MIG instance: ids of its GPU instance and compute instance, "3.0"
	Instance string `json:"instance,omitempty"`
	// Index is the number that the vendor's programs know the device by when they see all of the
	// vendor's. nvidia and intel count GPUs in the order of their PCI addresses, from 0, and a MIG
	// instance has its GPU's. amd counts in the order of amdkfd's nodes, from 0. habana has the
	// module id. A configured device has its number among those of its resource, from 0.
	Index int `json:"index"`
	NUMA  int `json:"numa"` // the NUMA node it is next to; -1 where the kernel knows none
	// Nodes are what its holder may open, and nobody without it or a sibling (instances of one GPU
	// share that GPU's node).
	Nodes []DeviceNode `json:"nodes"`
	// Links tells by ID how well another device of the vendor can be reached without the PCI bus:
	// NVLinks, xGMI links.
	Links map[string]int `json:"links,omitempty"`
	// Env is set in the programs of a job that holds it; of several devices of one resource the
	// values are joined by commas.
	Env map[string]string `json:"env,omitempty"`
}

// Overlaps reports whether d and e are one device, or one of them is a part of the other: no two
// jobs may have both. Overlaps does not go by the ID alone, which is the PCI address of a GPU until
// its UUID is known. Instances of one GPU share the GPU's node and differ in those of their
// capabilities.
func (d Device) Overlaps(e Device) bool {
	if d.ID == e.ID || d.Parent != "" && (d.Parent == e.ID || d.Parent == e.UUID) ||
		e.Parent != "" && (e.Parent == d.ID || e.Parent == d.UUID) {
		return true
	}
	if d.PCI != "" && d.PCI == e.PCI && (d.Parent == "") != (e.Parent == "") {
		return true
	}
	if d.Parent != "" && d.Parent == e.Parent {
		return d.within(e) || e.within(d)
	}
	return slices.ContainsFunc(d.Nodes, e.has)
}

// within reports whether e has all nodes of d, which are some.
func (d Device) within(e Device) bool {
	return len(d.Nodes) > 0 && !slices.ContainsFunc(d.Nodes, func(n DeviceNode) bool { return !e.has(n) })
}

// has reports whether n is one of d's nodes, whatever its path.
func (d Device) has(n DeviceNode) bool {
	return slices.ContainsFunc(d.Nodes, func(m DeviceNode) bool {
		return m.Block == n.Block && m.Major == n.Major && m.Minor == n.Minor
	})
}

// DeviceNode is a node in /dev.
type DeviceNode struct {
	Path  string `json:"path"` // /dev/nvidia0
	Block bool   `json:"block,omitempty"`
	Major uint32 `json:"major"`
	Minor uint32 `json:"minor"`
}

// String returns the node as devices.allow names it: "c 195:0".
func (n DeviceNode) String() string {
	kind := "c"
	if n.Block {
		kind = "b"
	}
	return fmt.Sprintf("%s %d:%d", kind, n.Major, n.Minor)
}
