package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/inventory"
	"github.com/hookhost/hookhost/internal/topology"
)

// ExecjobBegin puts the filter on the job's cgroup, whether or not the job was given a device. It
// also writes the files for container runtimes and the DCGM exporter. It does not query any driver,
// because the grant and the inventory already exist.
func (h *hook) ExecjobBegin(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	j, g, err := h.granted(req)
	if err != nil {
		return nil, err
	}
	if g == nil {
		return nil, noGrant(j)
	}
	if err := outdated(g, h.keeper.current()); err != nil {
		return nil, hostapi.Errorf(hostapi.KindBusy, "job %s: %w", j.ID(), err)
	}
	if g, err = h.confine(j); err != nil {
		return nil, err
	}
	if g == nil {
		return nil, noGrant(j)
	}
	notes := h.publishGrant(ctx, j, g)
	h.noteSince(j, g)
	h.draw(j, g)
	return &hostapi.Outcome{Usage: describe(g), Notes: notes, AttachEnv: h.environment(j.ID(), g)}, nil
}

func noGrant(j *cgroup.Job) error {
	return hostapi.Errorf(hostapi.KindNode,
		"job %s: its cgroup does not say what devices it was given: hook cgroup must run before hook devices, "+
			"with devices enabled", j.ID())
}

// outdated fails if a granted device is gone or now has other numbers. Drivers assign most numbers
// anew at each boot. Hook cgroup may have used the inventory of the previous boot, so the numbers
// may belong to another device now.
func outdated(g *inventory.Grant, inv *inventory.Inventory) error {
	if inv == nil {
		if len(g.Devices) > 0 {
			return errors.New("the devices of this host are not known yet")
		}
		return nil
	}
	var shared []topology.DeviceNode
	for _, d := range g.Devices {
		i := slices.IndexFunc(inv.Devices, func(e topology.Device) bool { return e.ID == d.ID })
		if i < 0 || !slices.Equal(inv.Devices[i].Nodes, d.Nodes) {
			return fmt.Errorf("the devices of this host have changed: it was given %s %s as it was before", d.Resource,
				d.ID)
		}
		shared = append(shared, inv.Shared[d.Vendor]...)
	}
	for _, n := range g.Shared {
		if !slices.Contains(shared, n) {
			return fmt.Errorf("the devices of this host have changed: it was given %s (%s) as it was before", n.Path, n)
		}
	}
	return nil
}

// ExecjobResize updates the filter to the devices that the job now holds, according to the grant
// that hook cgroup stored. A device that the job has open stays open, because no kernel can revoke
// that. A job that began before devices were enabled is left alone.
func (h *hook) ExecjobResize(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	j, g, err := h.granted(req)
	if err != nil {
		return nil, err
	}
	var gave []topology.Device
	if g != nil {
		gave = g.Leaving
		if g, err = h.confine(j); err != nil {
			return nil, hostapi.Errorf(hostapi.KindOf(err), "the devices that the job had before stay in force: %w",
				err)
		}
	}
	if g == nil {
		return &hostapi.Outcome{}, nil
	}
	notes := h.publishGrant(ctx, j, g)
	h.noteSince(j, g)
	h.draw(j, g)
	return &hostapi.Outcome{Usage: describe(g, gave...), Notes: notes, AttachEnv: h.environment(j.ID(), g)}, nil
}

// publishGrant writes the job's CDI specification and the DCGM exporter's files, and returns notes
// for the job's owner. Errors do not make the job fail: its containers do not find its devices
// then, or a label is missing.
func (h *hook) publishGrant(ctx context.Context, j *cgroup.Job, g *inventory.Grant) (notes []string) {
	err := h.mappingChanges.change(ctx, j.ID(), func() error { return h.mapping.write(h.life, j.ID(), g) })
	if err != nil {
		h.logOf(j.ID()).Warn(err)
	}
	err = h.cdiChanges.change(ctx, j.ID(), func() error {
		err := h.cdi.write(j.ID(), g, vendors(h.keeper.current()))
		if err != nil { // an older one would name devices that the job no longer has
			err = errors.Join(err, h.cdi.remove(j.ID()))
		}
		return err
	})
	if err == nil {
		return nil
	}
	h.logOf(j.ID()).Warn(err)
	if len(g.Devices) == 0 {
		return nil
	}
	return []string{"containers of the job do not find its devices: its CDI specification could not be written"}
}

// unpublish removes these files of a job. If one cannot be removed, it still tries the other. It is
// idempotent. A directory whose lock is held is no error, because the file is removed later.
func (h *hook) unpublish(ctx context.Context, id string) error {
	var errs []error
	for _, err := range []error{
		h.cdiChanges.change(ctx, id, func() error { return h.cdi.remove(id) }),
		h.mappingChanges.change(ctx, id, func() error { return h.mapping.remove(h.life, id) }),
	} {
		if errors.Is(err, errHeld) {
			h.logOf(id).Warn(err)
		} else {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// describe lists the job's devices for reports, including those that it has given back.
func describe(g *inventory.Grant, gave ...topology.Device) *hostapi.HostUsage {
	u := &hostapi.HostUsage{}
	add := func(d topology.Device, returned bool) {
		u.Devices = append(u.Devices, hostapi.DeviceUsage{ID: d.ID, Resource: d.Resource, Model: d.Model, PCI: d.PCI,
			Returned: returned})
	}
	for _, d := range gave {
		add(d, true)
	}
	for _, d := range g.Devices { // last, so that the devices that the job has now take precedence
		add(d, false)
	}
	if len(u.Devices) == 0 {
		return nil
	}
	return u
}
