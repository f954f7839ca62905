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

// ExechostStartup scans for devices, and waits for the result no longer than probe_timeout. It
// makes sure that every live job has its filter, and removes the files of jobs that are gone. It
// reports the number of devices to PBS.
func (h *hook) ExechostStartup(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	h.await(ctx, h.keeper.refresh(h.life, &h.background))
	h.counting.Do(func() {
		if h.account != nil && h.policy.Devices.DiscoverGPUs && h.policy.Devices.Accounting {
			h.background.Go(h.countProcesses)
		}
	})
	list, err := h.common() // even without jobs, since doctor shows it
	errs := []error{err, h.keeper.rewrite()}
	if err == nil {
		for id := range req.JobList {
			errs = append(errs, h.reassert(ctx, id, list, true))
		}
	}
	// outdated files are only misleading, so this is not an error
	if err := h.sweep(ctx, req.JobList); err != nil {
		h.log.Warn(err)
	}
	inv := h.keeper.current()
	out := &hostapi.Outcome{
		Vnodes: h.policy.vnodes(h.node, inv, req.Node, h.countBlocks(inv)),
		Jobs:   h.updates(req.JobList, nil),
	}
	h.mu.Lock()
	h.told = out.Vnodes
	h.mu.Unlock()
	return out, errors.Join(errs...)
}

// ExechostPeriodic restores filters that somebody removed. It scans for devices in the background,
// and informs PBS if an earlier scan found a change. The scan starts after the jobs' counters are
// read, because both ask NVML.
func (h *hook) ExechostPeriodic(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	if req.Partial {
		return &hostapi.Outcome{Jobs: h.updates(req.JobList, nil)}, nil
	}
	counters := h.countersOf(ctx, req.JobList)
	h.keeper.refresh(h.life, &h.background)
	out := &hostapi.Outcome{Jobs: h.updates(req.JobList, counters)}
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

// await waits for a scan, for probe_timeout but at most a quarter of the event's time.
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

// countProcesses turns on NVIDIA's accounting mode, which reports depend on.
func (h *hook) countProcesses() {
	err := h.account(h.life, time.Duration(h.policy.Devices.ProbeTimeout))
	if err != nil && !errors.Is(err, inventory.ErrNoNVML) && h.life.Err() == nil {
		h.log.Infof("turn on GPU accounting mode, without which reports say less about GPUs: %v", err)
	}
}

// updates returns the variables for attached processes by job, the same as begin and resize return.
// The host uses them for a job whose record was lost. It also returns the points of the jobs'
// devices, and how each job has used them so far if counters has NVML's answer.
func (h *hook) updates(list map[string]*hostapi.Job, counters *inventory.NVIDIAUsage) map[string]*hostapi.JobUpdate {
	jobs := map[string]*hostapi.JobUpdate{}
	for id := range list {
		j, g := h.jobGrant(id)
		if g == nil {
			continue
		}
		jobs[id] = &hostapi.JobUpdate{AttachEnv: h.environment(id, g)}
		h.draw(j, g)
		var got since
		if counters != nil {
			got, _ = sinceOf(j) // without it there are no figures
		}
		list := devicesUsed(g, got, counters, h.now())
		if h.addSeries(id, g, list) || len(got) > 0 {
			jobs[id].Usage = &hostapi.HostUsage{Devices: list}
		}
	}
	return jobs
}

// countersOf asks NVML about the devices of all jobs, for usageLimit at most. It returns nil if no
// job has a device that NVML counts, or if NVML does not answer. It does not ask NVML during a
// scan: a second program that hangs would leave the epilogue without figures.
func (h *hook) countersOf(ctx context.Context, list map[string]*hostapi.Job) *inventory.NVIDIAUsage {
	var uuids []string
	for id := range list {
		_, g := h.jobGrant(id)
		uuids = append(uuids, countedUUIDs(g)...)
	}
	if len(uuids) == 0 || h.ask == nil || h.policy.Devices.JobsPerDevice > 1 || h.keeper.scanning() {
		return nil
	}
	counters, err := h.ask(ctx, usageLimit, uuids...)
	if err != nil { // the epilogue asks again and logs it
		return nil
	}
	return counters
}

// jobGrant returns a job's grant, or nil if it has none.
func (h *hook) jobGrant(id string) (*cgroup.Job, *inventory.Grant) {
	j, err := h.tree.Job(id)
	if err != nil {
		return nil, nil
	}
	g, err := inventory.GrantOf(j)
	if err != nil {
		return nil, nil
	}
	return j, g
}

// reassert makes sure that a live job has its filter, which opens list and the devices of the job's
// grant. Hook cgroup reports jobs without a cgroup. A job that began before devices were enabled is
// left alone, since it may be using devices that a filter would close. If starts is set, the log
// mentions such a job.
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
	if _, err := h.confined(j, g, list); err != nil && j.Exists() { // otherwise it has just ended
		return err
	}
	return nil
}

// follow checks the filters of all live jobs. A device that a driver adds is closed to them, as it
// is to later jobs. follow does nothing as long as the devices are not known: no job gets a device
// then, and live jobs keep their access.
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

// sweep removes the files of jobs that are not in the list and have no cgroup, and unfinished
// files.
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
	if h.keeper.dir != "" {
		errs = append(errs, disk.RemoveUnfinished(h.keeper.dir, time.Minute))
	}
	return errors.Join(append(errs,
		h.cdiChanges.change(ctx, "", func() error {
			files, err := h.cdi.files()
			if err != nil {
				return err
			}
			jobs, err := alive()
			if err != nil {
				return err
			}
			return errors.Join(disk.RemoveUnfinished(h.cdi.dir, time.Minute), h.cdi.sweep(files, jobs))
		}),
		h.mappingChanges.change(ctx, "", func() error {
			return errors.Join(disk.RemoveUnfinished(h.mapping.dir, time.Minute), h.mapping.sweep(h.life, alive))
		}))...)
}
