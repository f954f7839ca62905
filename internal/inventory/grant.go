package inventory

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/topology"
)

// Extended attributes of a job's cgroup. Each has one writer, so that no hook locks another out.
const (
	grantMark   = "trusted.hookhost.devices"         // the Grant, by hook cgroup
	appliedMark = "trusted.hookhost.devices_applied" // Serial of what the filter follows, by hook devices
)

// maxGrant is below what the kernel takes for an attribute (XATTR_SIZE_MAX, 64 KiB). A hundred MIG
// instances fit, and many more devices that have one node.
const maxGrant = 60 << 10

// Grant returns what a job gets that is given the devices ids. The grant has them in the
// inventory's order, and the nodes that the holders of their vendors' devices share. An ID that is
// not in the inventory is an error.
func (inv *Inventory) Grant(ids []string) (*Grant, error) {
	g := &Grant{Devices: make([]topology.Device, 0, len(ids))}
	wanted := make(map[string]bool, len(ids))
	for _, id := range ids {
		wanted[id] = true
	}
	vendors := map[string]bool{}
	for _, d := range inv.Devices {
		if wanted[d.ID] {
			delete(wanted, d.ID)
			d.Links = nil
			g.Devices = append(g.Devices, d)
			vendors[d.Vendor] = true
		}
	}
	if len(wanted) > 0 {
		return nil, fmt.Errorf("grant devices %q: not in the inventory", slices.Sorted(maps.Keys(wanted)))
	}
	for _, v := range slices.Sorted(maps.Keys(vendors)) {
		g.Shared = append(g.Shared, inv.Shared[v]...)
	}
	return g, nil
}

// Mark notes on the job's cgroup that g is what the job was given, in place of an earlier grant.
// The note stays for as long as the cgroup. A grant too large for an extended attribute is an
// error, and the earlier one stays.
func (g *Grant) Mark(m Marker) error {
	kept := *g
	kept.Devices, kept.Leaving = slices.Clone(g.Devices), slices.Clone(g.Leaving)
	for _, list := range [][]topology.Device{kept.Devices, kept.Leaving} {
		for i := range list {
			list[i].Links = nil
		}
	}
	b, err := json.Marshal(kept)
	if err != nil {
		return fmt.Errorf("keep grant: %w", err)
	}
	if len(b) > maxGrant {
		return fmt.Errorf("keep grant of %d devices: %d bytes, at most %d can be kept on a cgroup", len(g.Devices),
			len(b), maxGrant)
	}
	if err := m.SetMark(grantMark, b); err != nil {
		return fmt.Errorf("keep grant: %w", err)
	}
	return nil
}

// Applied notes on the job's cgroup that its filter follows g: devices that g says are leaving have
// left. Applied costs nothing where none are.
func (g *Grant) Applied(m Marker) error {
	if len(g.Leaving) == 0 {
		return nil
	}
	if err := m.SetMark(appliedMark, strconv.AppendInt(nil, int64(g.Serial), 10)); err != nil {
		return fmt.Errorf("note applied grant: %w", err)
	}
	return nil
}

// GrantOf returns what the job was given, without devices that have left; nil without an error when
// its cgroup says nothing of devices. An error leaves open what the job holds: whoever gives
// devices away must not take them for free.
func GrantOf(m Marker) (*Grant, error) {
	b, err := m.Mark(grantMark)
	if errors.Is(err, unix.ENODATA) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read grant: %w", err)
	}
	g := &Grant{}
	if err := json.Unmarshal(b, g); err != nil {
		return nil, fmt.Errorf("read grant: %w", err)
	}
	if len(g.Leaving) == 0 {
		return g, nil
	}
	b, err = m.Mark(appliedMark)
	if errors.Is(err, unix.ENODATA) {
		return g, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read applied grant: %w", err)
	}
	applied, err := strconv.Atoi(string(b))
	if err != nil {
		return nil, fmt.Errorf("read applied grant: %w", err)
	}
	if applied >= g.Serial {
		g.Leaving = nil
	}
	return g, nil
}
