package inventory

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/internal/topology"
)

const intelVendor = 0x8086

// intelModels has names that neither i915 nor xe shows in sysfs. Other GPUs are named by their PCI
// ID.
var intelModels = map[uint16]string{
	0x0bd5: "Intel Data Center GPU Max 1550",
	0x0bda: "Intel Data Center GPU Max 1100",
	0x56c0: "Intel Data Center GPU Flex 170",
	0x56c1: "Intel Data Center GPU Flex 140",
}

// intel finds Intel's discrete GPUs: the DRM devices of i915 and xe. It leaves out the GPU in the
// processor, which is on the root bus (0000:00:02.0) and is not used for computing. It also leaves
// out virtual functions.
func (s *scan) intel(context.Context) found {
	sys := s.roots.Sys
	renders, err := numbered(sys, "class/drm", "renderD")
	if err != nil {
		return found{sources: []Source{{Name: "intel", Error: err.Error()}}}
	}
	var f found
	var failed problems
	for _, render := range renders {
		dir := "class/drm/" + render + "/device"
		pci, ok := readPCI(sys, dir)
		if !ok || pci.vendor != intelVendor || pci.driver != "i915" && pci.driver != "xe" {
			continue
		}
		if strings.HasPrefix(pci.address, "0000:00:") || sys.Exists(dir+"/physfn") {
			continue
		}
		nodes, err := drmNodes(sys, render)
		if err != nil {
			failed.add("%s: %v", pci.address, err)
			continue
		}
		f.devices = append(f.devices, topology.Device{
			Resource: ngpus, Vendor: "intel", Model: cmp.Or(intelModels[pci.device], "Intel "+pci.id()),
			PCI:  pci.address,
			NUMA: numaOf(sys, dir), Nodes: nodes, Memory: s.intelMemory(dir, nodes),
		})
	}
	slices.SortFunc(f.devices, func(a, b topology.Device) int { return strings.Compare(a.PCI, b.PCI) })
	for i := range f.devices {
		f.devices[i].Index = i
	}
	f.sources = []Source{{Name: "intel", Count: len(f.devices), Error: failed.String()}}
	return f
}

// intelMemory returns the local memory of the GPU in dir. The driver xe shows it for each tile
// (tileN/physical_vram_size_bytes). The i915 that Intel ships for its data center GPUs shows it for
// the card (lmem_total_bytes). The kernel's i915 does not show it.
func (s *scan) intelMemory(dir string, nodes []topology.DeviceNode) int64 {
	var total uint64
	tiles, err := numbered(s.roots.Sys, dir, "tile")
	if err == nil {
		for _, tile := range tiles {
			// Hexadecimal with 0x.
			total += hexOrDecimal(text(s.roots.Sys, dir+"/"+tile+"/physical_vram_size_bytes"))
		}
	}
	for _, n := range nodes {
		if card, ok := strings.CutPrefix(n.Path, "/dev/dri/card"); ok && total == 0 {
			total = hexOrDecimal(text(s.roots.Sys, "class/drm/card"+card+"/lmem_total_bytes"))
		}
	}
	return int64(min(total, 1<<62))
}
