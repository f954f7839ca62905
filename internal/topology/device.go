package topology

import (
	"fmt"
	"slices"
)

// Device is a device, or a part of one (a MIG instance), that is assigned as a whole.
type Device struct {
	// ID is unique on the node and does not change at a reboot. It is the UUID, else the PCI
	// address, else the path of the first node.
	ID string `json:"id"`
	// the resource in requests: "ngpus", or the name of a configured one, such as "fpga"
	Resource string `json:"resource"`
	Vendor   string `json:"vendor,omitempty"` // a row of inventory's vendors; "" for a configured one
	Model    string `json:"model,omitempty"`  // as the driver names it: "NVIDIA A100-SXM4-40GB"
	Memory   int64  `json:"memory,omitempty"` // bytes; 0 if unknown
	UUID     string `json:"uuid,omitempty"`   // as the vendor writes it: "GPU-...", "MIG-..."
	PCI      string `json:"pci,omitempty"`    // 0000:07:00.0; a MIG instance has its GPU's
	// UUID of the GPU that a MIG instance is part of; that GPU is not in the pool
	Parent string `json:"parent,omitempty"`
	// of a MIG instance: ids of its GPU instance and compute instance, "3.0"
	Instance string `json:"instance,omitempty"`
	// Index is the number of the device in the vendor's programs when these see all of the vendor's
	// devices. nvidia and intel count GPUs from 0 in the order of their PCI addresses, and a MIG
	// instance has its GPU's number. amd counts from 0 in the order of amdkfd's nodes. habana uses
	// the module id. tpu and tenstorrent use the number of the node, or for a tpu in /dev/vfio the
	// order of the PCI addresses. Configured devices are numbered from 0 for each resource.
	Index int `json:"index"`
	NUMA  int `json:"numa"` // the nearest NUMA node; -1 if the kernel does not know it
	// Nodes are the device nodes that its holder may open. No one else may, except holders of a
	// sibling (instances of one GPU share that GPU's node).
	Nodes []DeviceNode `json:"nodes"`
	// Links counts, by ID, the links to another device of the vendor that bypass the PCI bus:
	// NVLink, xGMI, or Ethernet on a board.
	Links map[string]int `json:"links,omitempty"`
	// Env is set in the programs of a job that holds the device. If a job has several devices of a
	// resource, their values are joined by commas.
	Env map[string]string `json:"env,omitempty"`
}

// Overlaps reports whether d and e are one device, or one of them is a part of the other. Two jobs
// must not have such devices. It does not compare only IDs, because a GPU's ID is its PCI address
// until its UUID is known. Instances of one GPU share the GPU's node, but differ in the nodes of
// their capabilities.
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

// within reports whether d has nodes and e has all of them.
func (d Device) within(e Device) bool {
	return len(d.Nodes) > 0 && !slices.ContainsFunc(d.Nodes, func(n DeviceNode) bool { return !e.has(n) })
}

// has reports whether n is one of d's nodes, regardless of its path.
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

// String returns the node in the format of devices.allow: "c 195:0".
func (n DeviceNode) String() string {
	kind := "c"
	if n.Block {
		kind = "b"
	}
	return fmt.Sprintf("%s %d:%d", kind, n.Major, n.Minor)
}
