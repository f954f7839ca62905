package inventory

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/topology"
)

const pciDir = "bus/pci/devices"

// pciDevice is a PCI function according to its uevent file (pci_uevent of
// drivers/pci/pci-driver.c).
type pciDevice struct {
	address string // 0000:07:00.0
	class   uint32 // 0x030200
	vendor  uint16
	device  uint16
	// the device of the board that the function is on
	subsystem uint16
	driver    string // "" if none is bound
}

// id returns the vendor and device in the format of lspci -n.
func (d pciDevice) id() string { return fmt.Sprintf("%04x:%04x", d.vendor, d.device) }

// isDisplay reports whether it is a display controller (PCI class 3). That includes GPUs without a
// display.
func (d pciDevice) isDisplay() bool { return d.class>>16 == 0x03 }

// pciDevices returns the machine's PCI functions, sorted by address.
func pciDevices(sys *kernfs.FS) ([]pciDevice, error) {
	addresses, err := names(sys, pciDir)
	if err != nil {
		return nil, err
	}
	var list []pciDevice
	for _, a := range addresses {
		if d, ok := readPCI(sys, pciDir+"/"+a); ok {
			list = append(list, d)
		}
	}
	return list, nil
}

// readPCI reads the device in the directory dir. The result is false if it is gone or on another
// bus.
func readPCI(sys *kernfs.FS, dir string) (pciDevice, bool) {
	b, err := sys.ReadFile(dir + "/uevent")
	if err != nil {
		return pciDevice{}, false
	}
	return parsePCI(b)
}

// parsePCI parses the uevent file of a PCI function.
func parsePCI(b []byte) (pciDevice, bool) {
	var d pciDevice
	for line := range strings.Lines(string(b)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "DRIVER":
			d.driver = value
		case "PCI_SLOT_NAME":
			d.address, _ = pciAddress(value)
		case "PCI_CLASS": // hexadecimal without leading zeroes
			class, _ := strconv.ParseUint(value, 16, 32)
			d.class = uint32(class)
		case "PCI_ID": // 10DE:20B0
			vendor, device, _ := strings.Cut(value, ":")
			v, _ := strconv.ParseUint(vendor, 16, 16)
			n, _ := strconv.ParseUint(device, 16, 16)
			d.vendor, d.device = uint16(v), uint16(n)
		case "PCI_SUBSYS_ID":
			_, device, _ := strings.Cut(value, ":")
			n, _ := strconv.ParseUint(device, 16, 16)
			d.subsystem = uint16(n)
		}
	}
	return d, d.address != ""
}

// pciAddress converts an address to the format of sysfs (pci_setup_device: "%04x:%02x:%02x.%d").
// NVML writes the domain with eight digits, and letters may be in upper case.
func pciAddress(s string) (string, bool) {
	domain, rest, ok := strings.Cut(s, ":")
	bus, rest, ok2 := strings.Cut(rest, ":")
	slot, function, ok3 := strings.Cut(rest, ".")
	if !ok || !ok2 || !ok3 {
		return "", false
	}
	var n [4]uint64
	for i, part := range []struct {
		text string
		bits int
	}{{domain, 32}, {bus, 8}, {slot, 5}, {function, 3}} {
		v, err := strconv.ParseUint(part.text, 16, part.bits)
		if err != nil {
			return "", false
		}
		n[i] = v
	}
	return fmt.Sprintf("%04x:%02x:%02x.%d", n[0], n[1], n[2], n[3]), true
}

// numaOf returns the NUMA node of the device in the directory dir, or -1 if the kernel does not
// know it (NUMA_NO_NODE).
func numaOf(sys *kernfs.FS, dir string) int {
	n, err := strconv.Atoi(text(sys, dir+"/numa_node"))
	if err != nil {
		return -1
	}
	return max(n, -1)
}

// sysNode returns the node in /dev of the device in the directory dir, whose file dev contains the
// numbers. The path is the one in devtmpfs.
func sysNode(sys *kernfs.FS, dir, path string) (topology.DeviceNode, error) {
	b, err := sys.ReadFile(dir + "/dev")
	if err != nil {
		return topology.DeviceNode{}, err
	}
	major, minor, ok := parseNumbers(string(b))
	if !ok {
		return topology.DeviceNode{},
			&kernfs.ParseError{File: sys.Path(dir + "/dev"), Text: strings.TrimSpace(string(b)), Err: strconv.ErrSyntax}
	}
	return topology.DeviceNode{Path: path, Major: major, Minor: minor}, nil
}

// parseNumbers parses "226:128".
func parseNumbers(s string) (major, minor uint32, ok bool) {
	a, b, _ := strings.Cut(strings.TrimSpace(s), ":")
	ma, err := strconv.ParseUint(a, 10, 32)
	mi, err2 := strconv.ParseUint(b, 10, 32)
	return uint32(ma), uint32(mi), err == nil && err2 == nil
}

// drmNodes returns the nodes of the DRM device with that render node: the render node and its
// cardN, which sysfs lists beside it. The card controls only this device's displays, so it belongs
// to the holder just as the render node does.
func drmNodes(sys *kernfs.FS, render string) ([]topology.DeviceNode, error) {
	node, err := sysNode(sys, "class/drm/"+render, "/dev/dri/"+render)
	if err != nil {
		return nil, err
	}
	nodes := []topology.DeviceNode{node}
	dir := "class/drm/" + render + "/device/drm"
	cards, err := numbered(sys, dir, "card")
	if err != nil {
		return nil, err
	}
	for _, c := range cards {
		node, err := sysNode(sys, dir+"/"+c, "/dev/dri/"+c)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, node)
	}
	return nodes, nil
}

// charMajors returns the majors of the character devices in /proc/devices by name.
func charMajors(proc *kernfs.FS) (map[string]uint32, error) {
	b, err := proc.ReadFile("devices")
	if err != nil {
		return nil, err
	}
	majors := map[string]uint32{}
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "Block devices") {
			break
		}
		number, name, ok := strings.Cut(line, " ")
		if n, err := strconv.ParseUint(number, 10, 32); ok && err == nil {
			majors[name] = uint32(n)
		}
	}
	return majors, nil
}

// hexOrDecimal returns the number in s, with or without 0x. Without a number it returns 0.
func hexOrDecimal(s string) uint64 {
	n, _ := strconv.ParseUint(s, 0, 64)
	return n
}
