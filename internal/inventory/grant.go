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

// Extended attributes of a job's cgroup. Each has only one writer, so the hooks need no lock
// between them.
const (
	grantMark   = "trusted.hookhost.devices"         // the Grant, written by hook cgroup
	appliedMark = "trusted.hookhost.devices_applied" // Serial of the grant in the filter, written by hook devices
)

// maxGrant is less than the kernel's limit for an attribute (XATTR_SIZE_MAX, 64 KiB). It is enough
// for a hundred MIG instances, and for many more devices with one node.
const maxGrant = 60 << 10

// Grant returns the grant of a job that gets the devices ids. It lists them in the inventory's
// order, and adds the nodes that their vendors' devices share. An ID that is not in the inventory
// is an error.
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

// Mark stores g on the job's cgroup as the job's grant, and replaces an earlier one. It stays until
// the cgroup is removed. If a grant is too large for an extended attribute, Mark fails and the
// earlier one stays.
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

// Applied records on the job's cgroup that its filter now follows g, so that the leaving devices
// are free. It does nothing if no devices are leaving.
func (g *Grant) Applied(m Marker) error {
	if len(g.Leaving) == 0 {
		return nil
	}
	if err := m.SetMark(appliedMark, strconv.AppendInt(nil, int64(g.Serial), 10)); err != nil {
		return fmt.Errorf("note applied grant: %w", err)
	}
	return nil
}

// GrantOf returns the job's grant without the devices that have left. It returns nil without an
// error if the cgroup has no grant. After an error the job's devices are unknown, so no device may
// be considered free.
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
