package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/inventory"
)

// A job's use of its GPUs is the difference between two readings of NVML. The first is taken in the
// background after the job got its GPUs. For the second, the epilogue waits no longer than
// usageLimit.

const usageLimit = time.Second

// sinceMark is the extended attribute of a job's cgroup that stores the readings from when the job
// got its NVIDIA devices, as JSON.
const sinceMark = "trusted.hookhost.devices.since"

// since has the readings from when a job got its devices, by UUID.
type since map[string]had

type had struct {
	Micros          int64   `json:"us"`                  // since 1970
	EnergyMillijoul *uint64 `json:"energy_mj,omitempty"` // nil if unknown
}

// countedUUIDs returns the UUIDs of the devices that NVML can count for one job.
func countedUUIDs(g *inventory.Grant) []string {
	var list []string
	if g == nil {
		return nil
	}
	for _, d := range byVendor(g, "nvidia") {
		if d.UUID != "" {
			list = append(list, d.UUID)
		}
	}
	return list
}

// devicesUsed describes the devices of a grant and how the job used each of them from got until
// now. after is NVML's answer, or nil. Unknown values are left out.
func devicesUsed(g *inventory.Grant, got since, after *inventory.NVIDIAUsage, now time.Time) []hostapi.DeviceUsage {
	if g == nil {
		return nil
	}
	var list []hostapi.DeviceUsage
	for _, d := range g.Devices {
		u := hostapi.DeviceUsage{ID: d.ID, Resource: d.Resource, Model: d.Model, PCI: d.PCI}
		if h, ok := got[d.UUID]; ok && d.UUID != "" && after != nil {
			if c, ok := after.Devices[d.UUID]; ok {
				used(&u, h, c, now)
			}
		}
		list = append(list, u)
	}
	return list
}

// used fills in the counters of one device.
func used(u *hostapi.DeviceUsage, h had, c inventory.NVIDIACounters, now time.Time) {
	// a lower value means that the driver was reloaded
	if e, before := c.EnergyMillijoules, h.EnergyMillijoul; e != nil && before != nil && *e >= *before {
		joules := float64(*e-*before) / 1000
		u.EnergyJoules = &joules
	}
	if c.Error != "" && len(c.Processes) == 0 { // accounting mode may be off, so that no processes were counted
		return
	}
	wall := now.Sub(time.UnixMicro(h.Micros))
	var busy float64 // milliseconds
	var peak int64
	timed, sized := true, true
	for _, p := range c.Processes {
		if int64(p.StartMicros) < h.Micros {
			continue
		}
		ms := float64(p.Milliseconds)
		if p.Running { // NVML sets the time only after a process has ended
			ms = max(ms, float64(now.UnixMicro()-int64(p.StartMicros))/1000)
		}
		if p.GPUPercent != nil {
			busy += ms * float64(*p.GPUPercent) / 100
		} else {
			timed = false
		}
		if p.MemPeakBytes != nil {
			peak = max(peak, int64(*p.MemPeakBytes))
		} else {
			sized = false
		}
	}
	if timed && wall > 0 {
		percent := min(100, busy/wall.Seconds()/10)
		u.UtilizationPercent = &percent
	}
	if sized {
		u.MemPeakBytes = &peak
	}
}

// noteSince records on the job's cgroup that the job has these devices from now on. In the
// background it adds their counters at that time. Devices that the job already had keep their
// entries, and those that it gave up lose them. noteSince costs one write.
func (h *hook) noteSince(j *cgroup.Job, g *inventory.Grant) {
	uuids := countedUUIDs(g)
	// a device's counters include all jobs on it
	if len(uuids) == 0 || h.ask == nil || h.policy.Devices.JobsPerDevice > 1 {
		return
	}
	h.marking.Lock()
	defer h.marking.Unlock()
	before, err := sinceOf(j)
	if err != nil {
		h.logOf(j.ID()).Warnf("the use of its GPUs will not be reported: %v", err)
		return
	}
	got, fresh := since{}, []string{}
	for _, id := range uuids {
		if old, ok := before[id]; ok {
			got[id] = old
			continue
		}
		got[id] = had{Micros: h.now().UnixMicro()}
		fresh = append(fresh, id)
	}
	if err := got.mark(j); err != nil {
		h.logOf(j.ID()).Warnf("the use of its GPUs will not be reported: %v", err)
		return
	}
	if len(fresh) > 0 {
		h.background.Go(func() { h.noteEnergy(j, fresh) })
	}
}

// noteEnergy adds the energy that the devices have used so far. If the job has ended meanwhile,
// that is no longer needed.
func (h *hook) noteEnergy(j *cgroup.Job, uuids []string) {
	u, err := h.ask(h.life, time.Duration(h.policy.Devices.ProbeTimeout), uuids...)
	if err != nil {
		h.logOf(j.ID()).Infof("the energy of its GPUs will not be reported: %v", err)
		return
	}
	h.marking.Lock()
	defer h.marking.Unlock()
	got, err := sinceOf(j)
	if err != nil {
		return
	}
	for _, id := range uuids {
		if s, ok := got[id]; ok {
			s.EnergyMillijoul = u.Devices[id].EnergyMillijoules
			got[id] = s
		}
	}
	if err := got.mark(j); err != nil && !errors.Is(err, cgroup.ErrNotFound) {
		h.logOf(j.ID()).Warn(err)
	}
}

// sinceOf returns what noteSince has recorded, or an empty map.
func sinceOf(j *cgroup.Job) (since, error) {
	b, err := j.Mark(sinceMark)
	if errors.Is(err, unix.ENODATA) {
		return since{}, nil
	}
	if err != nil {
		return nil, err
	}
	s := since{}
	return s, json.Unmarshal(b, &s)
}

func (s since) mark(j *cgroup.Job) error {
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return j.SetMark(sinceMark, b)
}

// measure returns how the job used its devices, provided NVML answers within usageLimit.
func (h *hook) measure(ctx context.Context, j *cgroup.Job, g *inventory.Grant) []hostapi.DeviceUsage {
	got, err := sinceOf(j)
	if err != nil {
		h.logOf(j.ID()).Warnf("the use of its GPUs is not reported: %v", err)
	}
	var after *inventory.NVIDIAUsage
	uuids := countedUUIDs(g) // none if a resize removed all of them
	if len(got) > 0 && len(uuids) > 0 && h.ask != nil {
		if after, err = h.ask(ctx, usageLimit, uuids...); err != nil {
			h.logOf(j.ID()).Warnf("the use of its GPUs is not reported: %v", err)
		}
	}
	list := devicesUsed(g, got, after, h.now())
	h.endSeries(j.ID(), g, got, after, list)
	h.addSeries(j.ID(), g, list)
	return list
}
