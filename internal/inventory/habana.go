package inventory

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/topology"
)

const habanaVendor = 0x1da3

// habanaMemory has the memory in GiB by the model that the driver names, because it does not show
// the memory (dstackai/gpuhunt, constraints.py).
var habanaMemory = map[string]int64{"GAUDI": 32, "GAUDI SEC": 32, "GAUDI2": 96, "GAUDI3": 128}

// habana finds Gaudi accelerators in /sys/class/accel/accelN (Linux 6.4, and Habana's driver since
// 1.13). With older drivers they are in /sys/class/habanalabs/hlN. Each has a control node, which
// tools open without occupying the device.
//
// Index is the module_id if the driver shows it, which is the number for HABANA_VISIBLE_MODULES.
// The number for HABANA_VISIBLE_DEVICES is N, at the end of the first node's path.
func (s *scan) habana(context.Context) found {
	var f found
	var failed problems
	for _, c := range []struct{ dir, node, control, dev string }{
		{"class/accel", "accel", "accel_controlD", "/dev/accel/"},
		{"class/habanalabs", "hl", "hl_controlD", "/dev/"},
	} {
		list, err := numbered(s.roots.Sys, c.dir, c.node)
		if err != nil {
			failed.add("%v", err)
			continue
		}
		for _, name := range list {
			d, err := readHabana(s.roots.Sys, c.dir, name, c.control+strings.TrimPrefix(name, c.node), c.dev)
			if err != nil {
				failed.add("%v", err)
			} else if d != nil {
				f.devices = append(f.devices, *d)
			}
		}
		if len(f.devices) > 0 {
			break // one driver shows all devices in the same class
		}
	}
	slices.SortStableFunc(f.devices, func(a, b topology.Device) int { return a.Index - b.Index })
	f.sources = []Source{{Name: "habana", Count: len(f.devices), Error: failed.String()}}
	return f
}

// readHabana returns the accelerator. It returns nil for other vendors, because the class accel is
// not only Habana's.
func readHabana(sys *kernfs.FS, class, name, control, dev string) (*topology.Device, error) {
	dir := class + "/" + name + "/device"
	pci, ok := readPCI(sys, dir)
	if !ok || pci.vendor != habanaVendor {
		return nil, nil
	}
	d := &topology.Device{Resource: ngpus, Vendor: "habana", PCI: pci.address, NUMA: numaOf(sys, dir),
		Model: "Habana " + pci.id()}
	for _, n := range []string{name, control} {
		node, err := sysNode(sys, class+"/"+n, dev+n)
		if err != nil {
			return nil, err
		}
		d.Nodes = append(d.Nodes, node)
	}
	// Documentation/ABI/testing/sysfs-driver-habanalabs: "GAUDI2" and similar.
	if t := text(sys, dir+"/device_type"); t != "" {
		d.Model, d.Memory = t, habanaMemory[t]<<30
	}
	d.Index, _ = strconv.Atoi(strings.TrimLeft(name, "acelh"))
	if id, err := strconv.Atoi(text(sys, dir+"/module_id")); err == nil && id >= 0 {
		d.Index = id
	}
	return d, nil
}
