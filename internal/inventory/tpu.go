package inventory

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/topology"
)

const (
	googleVendor = 0x1ae0
	networkClass = 0x02 // of Google's network interfaces, which DPDK may use through VFIO
)

// tpuKind is a generation of Google's TPUs.
type tpuKind struct {
	model     string
	memory    int64 // GiB of a chip
	functions int   // PCI functions of a chip, whose addresses follow each other
}

// tpuKinds has the generations by PCI device and subsystem, where 0 means any (tpu-info's
// device.py). A chip of TPU7x has two functions (ray-project/ray, pull request 65105).
var tpuKinds = map[[2]uint16]tpuKind{
	{0x0027, 0x004e}: {"Google TPU v2", 16, 1},
	{0x0027, 0x004f}: {"Google TPU v3", 32, 1},
	{0x005e, 0}:      {"Google TPU v4", 32, 1},
	{0x0062, 0}:      {"Google TPU v5p", 95, 1},
	{0x0063, 0}:      {"Google TPU v5e", 16, 1},
	{0x006f, 0}:      {"Google TPU v6e", 32, 1},
	{0x0076, 0}:      {"Google TPU7x", 192, 2},
}

// tpuFunction is a PCI function of a TPU. It has no nodes if it cannot be used.
type tpuFunction struct {
	pci   pciDevice
	kind  tpuKind
	nodes []topology.DeviceNode
}

// tpu finds Google's TPUs. Until v4 they have a node of Google's driver, /dev/accelN, and Index is
// N. Later ones are used through VFIO, with the node /dev/vfio/GROUP for each function. Their Index
// counts chips in the order of their PCI addresses.
func (s *scan) tpu(context.Context) found {
	sys := s.roots.Sys
	var failed, notes problems
	functions, err := tpuFunctions(sys, &failed, &notes)
	if err != nil {
		return found{sources: []Source{{Name: "tpu", Error: err.Error()}}}
	}
	var f found
	vfio := false
	for index, chip := range tpuChips(functions) {
		first := chip[0]
		if len(chip) < first.kind.functions {
			failed.add("%s: a %s has %d PCI functions, and %d was found", first.pci.address, first.kind.model,
				first.kind.functions, len(chip))
			continue
		}
		if slices.ContainsFunc(chip, func(f tpuFunction) bool { return len(f.nodes) == 0 }) {
			continue
		}
		var nodes []topology.DeviceNode
		for _, function := range chip {
			nodes = append(nodes, function.nodes...)
		}
		if n, ok := strings.CutPrefix(nodes[0].Path, "/dev/accel"); ok {
			index, _ = strconv.Atoi(n)
		} else {
			vfio = true
		}
		f.devices = append(f.devices, topology.Device{
			Resource: ngpus, Vendor: "tpu", Model: first.kind.model, Memory: first.kind.memory << 30,
			PCI: first.pci.address, Index: index, NUMA: numaOf(sys, pciDir+"/"+first.pci.address), Nodes: nodes,
		})
	}
	if vfio {
		container, err := sysNode(sys, "class/misc/vfio", "/dev/vfio/vfio")
		if err != nil {
			return found{sources: []Source{{Name: "tpu", Error: err.Error()}}}
		}
		f.shared = []topology.DeviceNode{container}
	}
	f.sources = []Source{{Name: "tpu", Count: len(f.devices), Note: notes.String(), Error: failed.String()}}
	return f
}

// tpuFunctions returns the PCI functions of TPUs in the order of their addresses. Other
// accelerators also have nodes named accel or in /dev/vfio, so only Google's PCI IDs count.
func tpuFunctions(sys *kernfs.FS, failed, notes *problems) ([]tpuFunction, error) {
	all, err := pciDevices(sys)
	if err != nil {
		return nil, err
	}
	groups, err := vfioGroups(sys)
	if err != nil {
		return nil, err
	}
	var functions []tpuFunction
	for _, pci := range all {
		if pci.vendor != googleVendor {
			continue
		}
		kind, known := tpuKinds[[2]uint16{pci.device, 0}]
		if !known {
			kind, known = tpuKinds[[2]uint16{pci.device, pci.subsystem}]
		}
		nodes, err := accelNodes(sys, pci)
		if known && len(nodes) == 0 && err == nil {
			nodes, err = vfioNodes(sys, pci, groups)
		}
		switch {
		case err != nil:
			failed.add("%s: %v", pci.address, err)
		case known && len(nodes) == 0:
			notes.add("%s (%s) has no device node: it needs Google's driver, or vfio-pci and an IOMMU group",
				pci.address, pci.id())
		case len(nodes) == 0 && pci.driver == "vfio-pci" && pci.class>>16 != networkClass:
			notes.add("%s (%s) has the driver vfio-pci, and is not a TPU that is known", pci.address, pci.id())
		}
		if !known {
			if len(nodes) == 0 {
				continue
			}
			kind = tpuKind{model: "Google " + pci.id(), functions: 1}
		}
		functions = append(functions, tpuFunction{pci, kind, nodes})
	}
	return functions, nil
}

// tpuChips divides functions into chips. The last chip of a kind may lack functions.
func tpuChips(functions []tpuFunction) (chips [][]tpuFunction) {
	for i, f := range functions {
		last := len(chips) - 1
		if i > 0 && functions[i-1].kind == f.kind && len(chips[last]) < f.kind.functions {
			chips[last] = append(chips[last], f)
		} else {
			chips = append(chips, []tpuFunction{f})
		}
	}
	return chips
}

// accelNodes returns the node of Google's driver for the function, or nothing if there is none.
func accelNodes(sys *kernfs.FS, pci pciDevice) ([]topology.DeviceNode, error) {
	dir := pciDir + "/" + pci.address + "/accel"
	list, err := numbered(sys, dir, "accel")
	if err != nil || len(list) == 0 {
		return nil, err
	}
	node, err := sysNode(sys, dir+"/"+list[0], "/dev/"+list[0])
	if err != nil {
		return nil, err
	}
	return []topology.DeviceNode{node}, nil
}
