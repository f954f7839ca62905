package inventory

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/topology"
)

// Numbering returns the facts on which the numbers of this machine's devices depend. These are
// "boot ID", and "c 195 nvidia" for each driver and major in /proc/devices. Most drivers get their
// major when they are loaded, and it may differ each time.
func Numbering(roots kernfs.Roots) ([]string, error) {
	boot, err := roots.Proc.ReadFile("sys/kernel/random/boot_id")
	if err != nil {
		return nil, fmt.Errorf("numbers of devices: %w", err)
	}
	b, err := roots.Proc.ReadFile("devices")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("numbers of devices: %w", err)
	}
	list := []string{"boot " + strings.TrimSpace(string(boot))}
	kind := "c"
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, "Block devices") {
			kind = "b"
		}
		if major, name, ok := strings.Cut(strings.TrimSpace(line), " "); ok && strings.Trim(major, "0123456789") == "" {
			list = append(list, kind+" "+major+" "+name)
		}
	}
	return list, nil
}

// number stores the lines of Numbering that concern the inventory's nodes, or nothing if Numbering
// fails.
func (inv *Inventory) number(roots kernfs.Roots) {
	now, err := Numbering(roots)
	if err != nil {
		return
	}
	majors := map[string]bool{}
	add := func(nodes []topology.DeviceNode) {
		for _, n := range nodes {
			kind := "c"
			if n.Block {
				kind = "b"
			}
			majors[fmt.Sprintf("%s %d", kind, n.Major)] = true
		}
	}
	for _, d := range inv.Devices {
		add(d.Nodes)
	}
	for _, nodes := range inv.Shared {
		add(nodes)
	}
	for i, line := range now {
		f := strings.Fields(line)
		if i == 0 || majors[f[0]+" "+f[1]] {
			inv.Numbering = append(inv.Numbering, line)
		}
	}
}

// Numbered reports whether the inventory's numbers still belong to the same devices, given the
// current result of Numbering. It is false if the inventory does not say on what its numbers
// depend.
func (inv *Inventory) Numbered(now []string) bool {
	return len(inv.Numbering) > 0 &&
		!slices.ContainsFunc(inv.Numbering, func(line string) bool { return !slices.Contains(now, line) })
}
