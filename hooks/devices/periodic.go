package main

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/disk"
	"github.com/hookhost/hookhost/internal/inventory"
)

// ExechostStartup scans for devices, and waits no longer than probe_timeout for the result. Every
// live job gets its filter, and the files of jobs that are gone are removed. PBS is told how many
// devices it can give away.
func (h *hook) ExechostStartup(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	h.await(ctx, h.keeper.refresh(h.life, &h.background))
	h.counting.Do(func() {
		if h.account != nil && h.policy.Devices.DiscoverGPUs && h.policy.Devices.Accounting {
			h.background.Go(h.countProcesses)
		}
	})
	list, err := h.common() // for doctor too, where there is no job
	errs := []error{err, h.keeper.rewrite()}
	if err == nil {
		for id := range req.JobList {
			errs = append(errs, h.reassert(ctx, id, list, true))
		}
	}
	// what is left says something wrong of a job that is gone, and keeps nobody from anything
	if err := h.sweep(ctx, req.JobList); err != nil {
		h.log.Warn(err)
	}
	inv := h.keeper.current()
	out := &hostapi.Outcome{
		Vnodes: h.policy.vnodes(h.node, inv, req.Node, h.countBlocks(inv)),
		Jobs:   h.updates(req.JobList),
	}
	h.mu.Lock()
	h.told = out.Vnodes
	h.mu.Unlock()
	return out, errors.Join(errs...)
}

// ExechostPeriodic puts the filters of jobs back where somebody took them away. ExechostPeriodic
// scans for devices in the background, and tells PBS when an earlier scan has found a change.
func (h *hook) ExechostPeriodic(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	out := &hostapi.Outcome{Jobs: h.updates(req.JobList)}
	if req.Partial {
		return out, nil
	}
	h.keeper.refresh(h.life, &h.background)
	err := errors.Join(h.follow(ctx), h.keeper.rewrite())
	inv := h.keeper.current()
	blocks := h.countBlocks(inv)
	h.mu.Lock()
	defer h.mu.Unlock()
	if now := h.policy.vnodes(h.node, inv, req.Node, blocks); now != nil && !reflect.DeepEqual(now, h.told) {
		out.Vnodes, h.told = now, now
	}
	return out, err
}

// await waits for a scan for probe_timeout, and a quarter of the event's time at most.
func (h *hook) await(ctx context.Context, done <-chan struct{}) {
	limit := time.Duration(h.policy.Devices.ProbeTimeout)
	if end, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(end)/4)
	}
	enough := time.NewTimer(limit)
	defer enough.Stop()
	select {
	case <-done:
		return
	case <-enough.C:
	case <-ctx.Done():
	}
	h.keeper.late(limit)
}

// countProcesses turns on NVIDIA's accounting mode, which reports live by.
func (h *hook) countProcesses() {
	err := h.account(h.life, time.Duration(h.policy.Devices.ProbeTimeout))
	if err != nil && !errors.Is(err, inventory.ErrNoNVML) && h.life.Err() == nil {
		h.log.Infof("GPU accounting mode is not on, so reports tell less of GPUs: %v", err)
	}
}

// updates returns the variables of attached processes by job, as begin and resize have told them,
// and the points of the jobs' devices. The host uses the variables for a job whose record was lost.
func (h *hook) updates(list map[string]*hostapi.Job) map[string]*hostapi.JobUpdate {
	jobs := map[string]*hostapi.JobUpdate{}
	for id := range list {
		j, err := h.tree.Job(id)
		if err != nil {
			continue
		}
		if g, err := inventory.GrantOf(j); err == nil && g != nil {
			jobs[id] = &hostapi.JobUpdate{AttachEnv: h.environment(id, g)}
			h.draw(j, g)
			if list := devicesUsed(g, since{}, nil, h.now()); h.addSeries(id, g, list) {
				jobs[id].Usage = &hostapi.HostUsage{Devices: list}
			}
		}
	}
	return jobs
}

// reassert sees to it that a live job has its filter, which opens list beside what the job was
// given. A job without a cgroup is hook cgroup's to tell of. A job that began before devices were
// enabled is left alone, since it may use what a filter would close. The log says so at a start.
func (h *hook) reassert(ctx context.Context, id string, list common, starts bool) error {
	j, err := h.tree.Job(id)
	if err != nil {
		return err
	}
	g, err := inventory.GrantOf(j)
	if errors.Is(err, cgroup.ErrNotFound) {
		return nil
	}
	if err != nil {
		return hostapi.Errorf(hostapi.KindNode, "job %s: %w", id, err)
	}
	if g == nil {
		if starts {
			h.logOf(id).Info("it began before devices were enabled, and keeps what it can open")
		}
		return nil
	}
	if _, err := h.confined(j, g, list); err != nil && j.Exists() { // else it has ended meanwhile
		return err
	}
	return nil
}

// follow makes sure of the filters of all live jobs. A device that a driver brings while they run
// is closed to them as to those that begin later. follow does nothing while the devices are not
// known. No job is given a device then, and a live job need not lose what it could open.
func (h *hook) follow(ctx context.Context) error {
	list, err := h.common()
	if err != nil {
		return err
	}
	h.mu.Lock()
	unsure := h.unsure
	h.mu.Unlock()
	if unsure {
		return nil
	}
	ids, err := h.tree.JobIDs()
	if err != nil {
		return fmt.Errorf("filters of jobs: %w", err)
	}
	var errs []error
	for _, id := range ids {
		errs = append(errs, h.reassert(ctx, id, list, false))
	}
	return errors.Join(errs...)
}

// sweep removes the files of jobs that are neither in the list nor have a cgroup, and those that
// were never finished.
func (h *hook) sweep(ctx context.Context, list map[string]*hostapi.Job) error {
	alive := func() (map[string]bool, error) {
		ids, err := h.tree.JobIDs()
		if err != nil {
			return nil, fmt.Errorf("sweep files of jobs: %w", err)
		}
		jobs := map[string]bool{}
		for _, id := range ids {
			jobs[id] = true
		}
		for id := range list {
			jobs[id] = true
		}
		return jobs, nil
	}
	var errs []error
	for _, dir := range []string{h.keeper.dir, h.cdi.dir, h.mapping.dir} {
		if dir != "" {
			errs = append(errs, disk.RemoveUnfinished(dir, time.Minute))
		}
	}
	files, err := h.cdi.files()
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	jobs, err := alive()
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	return errors.Join(append(errs, h.cdi.sweep(files, jobs), h.mapping.sweep(ctx, alive))...)
}
