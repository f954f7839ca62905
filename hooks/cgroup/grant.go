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

// Cpus and devices are chosen together, here and under the tree's lock, since each choice depends on the other. What there is
// stands in the inventory, which the hook devices keeps up to date; what a job was given stands on its cgroup, where that
// hook finds what to put in force.

// resources are those of the devices that the configuration describes.
func (p *policy) resources() []string {
	var names []string
	for _, d := range p.Device {
		if !slices.Contains(names, d.Resource) {
			names = append(names, d.Resource)
		}
	}
	return names
}

// asksForDevices tells whether what the job gets depends on devices.
func (a ask) asksForDevices() bool {
	return a.blocks > 0 || slices.ContainsFunc(a.wants, func(w placement.Want) bool { return w.Count > 0 })
}

// tellDevices finds out what devices there are and who holds them.
func (h *hook) tellDevices(there *host, a ask, others []holding) error {
	switch {
	case !h.policy.Devices.Enabled:
		return nil
	case !a.asksForDevices():
		h.lookAround(there, others)
		return nil
	}
	inv, err := h.inventory()
	if errors.Is(err, fs.ErrNotExist) {
		return hostapi.Errorf(hostapi.KindBusy, "the hook devices has not told yet what devices this host has")
	}
	if err != nil {
		return hostapi.Errorf(hostapi.KindBusy, "%w", err) // hook devices writes it anew at its next exechost_periodic
	}
	there.devices = inv
	for i := range others {
		g, err := inventory.GrantOf(others[i].job)
		if errors.Is(err, cgroup.ErrNotFound) {
			continue
		}
		if err != nil { // what it holds is not known, and is not to be given away
			return hostapi.Errorf(hostapi.KindNode, "devices of job %s: %w", others[i].id, err)
		}
		others[i].grant = g
	}
	return nil
}

// lookAround tells a job that asks for no devices where they are, so that it leaves cpus near those that are free. What cannot be
// read does not matter to it.
func (h *hook) lookAround(there *host, others []holding) {
	if len(there.node.NUMA) < 2 || !h.policy.Cpuset.Enabled {
		return
	}
	inv, err := h.inventory()
	if err != nil || len(inv.Devices) == 0 {
		return
	}
	there.around = inv.Devices
	for i := range others {
		if g, err := inventory.GrantOf(others[i].job); err == nil {
			others[i].grant = g
		}
	}
}

// awaitInventory waits for the first look at the node's devices, which is made when the hook devices starts: with a new state
// directory a job may come before it is over. It polls, since that happens once in the life of a state directory: afterwards the
// file is always there.
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

// firstLook is how long the first look takes where drivers answer at once. A job that comes while one does not is told to wait.
const firstLook = 5 * time.Second

// pool are the devices that a job can be given: those that were found, and those that it has. One of its own that was not found
// this time stays its own, in place of what was found of it under another name.
func (h host) pool(had *inventory.Grant) []topology.Device {
	if h.devices == nil {
		return nil
	}
	pool := h.devices.Devices
	lost := h.lost(had)
	if len(lost) == 0 {
		return pool
	}
	pool = slices.DeleteFunc(slices.Clone(pool), func(e topology.Device) bool {
		mine := slices.ContainsFunc(had.Devices, func(d topology.Device) bool { return d.ID == e.ID })
		return !mine && slices.ContainsFunc(lost, e.Overlaps)
	})
	return append(pool, lost...)
}

// lost are the devices of a grant that were not found this time.
func (h host) lost(had *inventory.Grant) []topology.Device {
	if had == nil {
		return nil
	}
	return without(had.Devices, h.devices.Devices)
}

// addDevices adds to a request what of it concerns devices.
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

// heldDevices tells by ID how many of the jobs hold a device of the pool, or a part of it, or what it is a part of.
func heldDevices(pool []topology.Device, jobs []holding) map[string]int {
	held := map[string]int{}
	for _, d := range pool {
		for _, o := range jobs {
			mine := func(e topology.Device) bool { return d.Overlaps(e) }
			if o.grant != nil && slices.ContainsFunc(slices.Concat(o.grant.Devices, o.grant.Coming, o.grant.Leaving), mine) {
				held[d.ID]++
			}
		}
	}
	return held
}

// withDevices places cpus and devices. Where PBS has said which NUMA nodes the cpus are of, those come first and the devices are
// chosen for them.
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

// neverEnough is the error for what the host has not even when it is empty. Where a source of devices failed, it is not known
// what the host has, and the job is not to blame.
func neverEnough(err error, inv *inventory.Inventory) error {
	var short *placement.ShortageError
	if inv == nil || !errors.As(err, &short) || short.Resource == "ncpus" {
		return beyond("%w", err)
	}
	var failed []string
	for _, s := range inv.Sources {
		other := slices.Contains(gpuSources, s.Name)
		if short.Resource == "ngpus" {
			other = s.Name == configuredSource
		}
		if s.Error != "" && !other {
			failed = append(failed, fmt.Sprintf("%s: %s", s.Name, s.Error))
		}
	}
	if len(failed) == 0 {
		return beyond("%w", err)
	}
	return hostapi.Errorf(hostapi.KindBusy, "%w; what there is could not be found out: %s", err, strings.Join(failed, "; "))
}

// configuredSource is the inventory's source for the devices of the configuration.
const configuredSource = "device"

// gpuSources are its sources for GPUs. There are others that concern all devices: one that says that nobody has looked of late.
var gpuSources = []string{"nvml", "nvidia", "amd", "intel", "habana"}

// grant returns what is kept on the cgroup of a job that gets these devices; nil for a job that asked for none.
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
	if len(h.lost(a.hadGrant)) > 0 { // then what goes with those that were not found is not known either
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

// onTheWay is what a job holds that goes from one grant to another: what it had (nil: nothing), and beside it what it is to get,
// which is not in its filter yet, whoever puts that in force meanwhile.
func onTheWay(had, gets *inventory.Grant) *inventory.Grant {
	u := inventory.Grant{Devices: []topology.Device{}}
	if had != nil {
		u = *had
	}
	u.Coming = without(gets.Devices, u.Devices)
	u.Blocks = slices.Clip(u.Blocks)
	for _, b := range gets.Blocks {
		if !slices.Contains(u.Blocks, b) {
			u.Blocks = append(u.Blocks, b)
		}
	}
	return &u
}

// without returns those of list that are not in others.
func without(list, others []topology.Device) []topology.Device {
	return slices.DeleteFunc(slices.Clone(list), func(d topology.Device) bool {
		return slices.ContainsFunc(others, func(e topology.Device) bool { return e.ID == d.ID })
	})
}

// regrant is a job's way from one grant to another, which is nil where nothing is to change. On the way nobody is given what it
// has not let go of, nor what it is to get. A hook that dies in between leaves it with what it had, and the rest withheld,
// until the event is repeated or the job ends.
//
// What stands on the cgroup is written under the tree's lock: hook devices changes it when it puts a filter in force, and at a
// startup that may be at any moment.
type regrant struct{ had, gets *inventory.Grant }

func newRegrant(had, gets *inventory.Grant) regrant {
	if gets == nil && had != nil {
		gets = &inventory.Grant{Devices: []topology.Device{}}
	}
	if had != nil && sameIDs(had.Devices, gets.Devices) && len(had.Coming) == 0 && slices.Equal(had.Blocks, gets.Blocks) {
		gets = nil
	}
	return regrant{had, gets}
}

func sameIDs(a, b []topology.Device) bool {
	return slices.EqualFunc(a, b, func(d, e topology.Device) bool { return d.ID == e.ID })
}

// begin keeps for the job what it gets.
func (r regrant) begin(ctx context.Context, j *cgroup.Job, lock *treeLock) error {
	return r.keep(ctx, j, lock, func(*inventory.Grant) *inventory.Grant { return onTheWay(r.had, r.gets) })
}

// finish gives it to the job, and takes from it what it gives up, which is nobody else's before hook devices has taken it out of
// the filter.
func (r regrant) finish(ctx context.Context, j *cgroup.Job, lock *treeLock) error {
	return r.keep(ctx, j, lock, func(now *inventory.Grant) *inventory.Grant {
		g := *r.gets
		if now != nil {
			g.Leaving = without(slices.Concat(now.Devices, now.Leaving), g.Devices)
		}
		return &g
	})
}

// undo gives it what it had.
func (r regrant) undo(ctx context.Context, j *cgroup.Job, lock *treeLock) error {
	return r.keep(ctx, j, lock, func(now *inventory.Grant) *inventory.Grant {
		if now == nil { // begin has not come to it
			return nil
		}
		g := inventory.Grant{Devices: []topology.Device{}}
		if r.had != nil {
			g = *r.had
		}
		// What finish has given it may be in the filter by now; what it had given up before may not be any more.
		g.Leaving = without(slices.Concat(now.Devices, now.Leaving), g.Devices)
		return &g
	})
}

// keep has change say what is to stand on the cgroup in place of what stands there; nil leaves it.
func (r regrant) keep(ctx context.Context, j *cgroup.Job, lock *treeLock, change func(now *inventory.Grant) *inventory.Grant) error {
	if r.gets == nil {
		return nil
	}
	if err := lock.again(ctx); err != nil {
		return err
	}
	now, err := inventory.GrantOf(j)
	if err == nil {
		if g := change(now); g != nil {
			err = g.Keep(j)
		}
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, cgroup.ErrNotFound): // it ends at this moment
		return hostapi.Errorf(hostapi.KindBusy, "resize job %s: %w", j.ID(), err)
	}
	return hostapi.Errorf(recordKind(err), "resize job %s: %w", j.ID(), err)
}

// holds names what the job holds of a resource: "nvidia0,nvidia3"; of blocks all that makes one not free.
func (o holding) holds(resource string) string {
	var names []string
	if resource == "blocks" && !o.limits.CPUs.IsEmpty() {
		names = append(names, o.limits.CPUs.String())
	}
	if o.grant != nil {
		for _, d := range o.grant.Devices {
			if resource == "blocks" || d.Resource == resource {
				names = append(names, nameOf(d))
			}
		}
		if resource == "blocks" && len(names) == 0 {
			for _, b := range o.grant.Blocks {
				names = append(names, fmt.Sprintf("block %d", b))
			}
		}
	}
	return strings.Join(names, ",")
}

// nameOf is the device's name for people: that of its node, but for a part of a GPU, which has the GPU's.
func nameOf(d topology.Device) string {
	if d.Parent != "" || len(d.Nodes) == 0 {
		return d.ID
	}
	return path.Base(d.Nodes[0].Path)
}
