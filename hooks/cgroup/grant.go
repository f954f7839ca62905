package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/inventory"
	"github.com/hookhost/hookhost/internal/placement"
	"github.com/hookhost/hookhost/internal/topology"
)

// Cpus and devices are chosen together under the hook's lock, because each choice depends on the
// other. Hook devices maintains the inventory of the node's devices. A job's grant is stored on its
// cgroup, where hook devices reads it and enforces it.

// resources returns the names of the resources that configured devices use.
func (p *policy) resources() []string {
	var names []string
	for _, d := range p.Device {
		if !slices.Contains(names, d.Resource) {
			names = append(names, d.Resource)
		}
	}
	return names
}

// asksForDevices reports whether the job's assignment depends on devices.
func (a ask) asksForDevices() bool {
	return a.blocks > 0 || slices.ContainsFunc(a.wants, func(w placement.Want) bool { return w.Count > 0 })
}

// readDevices reads which devices the node has and which jobs hold them.
func (h *hook) readDevices(there *host, a ask, others []holding) error {
	switch {
	case !h.policy.Devices.Enabled:
		return nil
	case !a.asksForDevices():
		h.readAround(there)
		return nil
	}
	inv, err := h.inventory()
	if errors.Is(err, fs.ErrNotExist) {
		return hostapi.Errorf(hostapi.KindBusy, "hook devices has not reported the devices of this host yet")
	}
	if err != nil {
		return hostapi.Errorf(hostapi.KindBusy, "%w", err) // hook devices rewrites it at its next exechost_periodic
	}
	there.devices = inv
	for i, o := range others {
		if !o.unread && (o.grant == nil || len(o.grant.Leaving) == 0) {
			continue
		}
		g, err := inventory.GrantOf(o.job) // hook devices may since have released the devices that the job gave up
		if err != nil && !errors.Is(err, cgroup.ErrNotFound) {
			// Without its grant, the job may hold any device.
			return hostapi.Errorf(hostapi.KindNode, "devices of job %s: %w", o.id, err)
		}
		others[i].grant = both(g, o.grant) // the devices that a resize is adding are not on the cgroup yet
	}
	return nil
}

// readAround is for jobs that request no devices. It reads where devices are, so that such a job
// leaves the cpus near free devices to others. Errors do not matter here.
func (h *hook) readAround(there *host) {
	if len(there.node.NUMA) < 2 || !h.policy.Cpuset.Enabled {
		return
	}
	inv, err := h.inventory()
	if err != nil || len(inv.Devices) == 0 {
		return
	}
	there.around = inv.Devices
}

// awaitInventory waits for the first scan of the node's devices, which hook devices makes when it
// starts. If the state directory is new, a job may begin before that scan is finished. Polling is
// enough, because the file always exists afterwards.
func (h *hook) awaitInventory(ctx context.Context, a ask) {
	if !h.policy.Devices.Enabled || !a.asksForDevices() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, firstLook)
	defer cancel()
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, 250*time.Millisecond) {
		if _, err := h.inventory(); !errors.Is(err, fs.ErrNotExist) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// firstLook is how long the first scan takes if the drivers answer promptly. If one does not, begin
// fails and the job has to wait.
const firstLook = 5 * time.Second

// addDevices adds the job's devices to a placement request.
func (p *policy) addDevices(req *placement.Request, h host, a ask, others []holding) {
	if h.devices == nil {
		req.Devices, req.Held, req.JobsPerDevice = h.around, heldDevices(h.around, others), p.Devices.JobsPerDevice
		return
	}
	req.Wants, req.Devices, req.JobsPerDevice = a.wants, h.pool(a.hadGrant), p.Devices.JobsPerDevice
	req.Held = heldDevices(req.Devices, others)
	if a.hadGrant != nil {
		for _, d := range a.hadGrant.Devices {
			req.KeepDevices = append(req.KeepDevices, d.ID)
		}
	}
}

// heldDevices returns how many jobs hold each device of the pool, by ID. A job holds a device if it
// has the device, a part of it, or the whole that it is part of.
func heldDevices(pool []topology.Device, jobs []holding) map[string]int {
	held := map[string]int{}
	for _, d := range pool {
		for _, o := range jobs {
			mine := func(e topology.Device) bool { return d.Overlaps(e) }
			if o.grant != nil && slices.ContainsFunc(slices.Concat(o.grant.Devices, o.grant.Leaving), mine) {
				held[d.ID]++
			}
		}
	}
	return held
}

// withDevices places cpus and devices. If PBS chose the NUMA nodes for the cpus, cpus are placed
// first and devices near them.
func (p *policy) withDevices(node *topology.Node, req placement.Request, a ask) (placement.Assignment, error) {
	if req.NCPUs == 0 {
		return placement.Place(node, req)
	}
	wants := req.Wants
	byVnode := p.Vnodes.PerNUMANode && len(a.numa) > 0
	if byVnode {
		req.Wants = nil
	}
	got, err := p.placed(node, req, a)
	if err != nil || !byVnode || len(wants) == 0 {
		return got, err
	}
	req.Wants, req.Allowed = wants, got.CPUs
	near, err := placement.Place(node, req)
	got.Devices = near.Devices
	return got, err
}

// neverEnough is the error for a request that even the empty host could not meet. If a source of
// devices failed, the job is not to blame, because the host's devices are not fully known.
func neverEnough(err error, inv *inventory.Inventory) error {
	var short *placement.ShortageError
	if inv == nil || !errors.As(err, &short) || short.Resource == "ncpus" {
		return beyond("%w", err)
	}
	var failed []string
	for _, s := range inv.Sources {
		vendor, ofDevices := inventory.VendorOf(s.Name) // the others concern all devices, such as an outdated scan
		if s.Error != "" && (!ofDevices || (vendor != "") == (short.Resource == "ngpus")) {
			failed = append(failed, fmt.Sprintf("%s: %s", s.Name, s.Error))
		}
	}
	if len(failed) == 0 {
		return beyond("%w", err)
	}
	return hostapi.Errorf(hostapi.KindBusy, "%w; not all devices of this host are known: %s", err,
		strings.Join(failed, "; "))
}

// grant returns the grant to store on the cgroup of a job that gets these devices. It is nil if the
// job requested none.
func (a ask) grant(h host, ids []string, blocks *blockShare) (*inventory.Grant, error) {
	if h.devices == nil {
		return nil, nil
	}
	all := *h.devices
	all.Devices = h.pool(a.hadGrant)
	g, err := all.Grant(ids)
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindInternal, "%w", err)
	}
	if len(h.lost(a.hadGrant)) > 0 { // for lost devices, the companions are not known either
		for _, n := range a.hadGrant.Shared {
			if !slices.Contains(g.Shared, n) {
				g.Shared = append(g.Shared, n)
			}
		}
	}
	if blocks != nil {
		g.Blocks = blocks.numbers
	}
	return g, nil
}

// nameOf returns a readable name for the device: that of its node, or the ID of a part of a GPU.
func nameOf(d topology.Device) string {
	if d.Parent != "" || len(d.Nodes) == 0 {
		return d.ID
	}
	return path.Base(d.Nodes[0].Path)
}
