package main

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/inventory"
	"github.com/hookhost/hookhost/internal/series"
	"github.com/hookhost/hookhost/internal/topology"
)

// charts hold the points of the jobs' NVIDIA devices that the host may not have received yet. Each
// point requires running a program that queries the driver. So one call covers all devices that are
// due, and there are no calls while no job has such a device. The goroutine exists only while one
// has.
type charts struct {
	mu      sync.Mutex
	jobs    map[string]*jobChart // by job id
	drawing bool                 // the goroutine is running
	changed chan struct{}        // signals a change of jobs; has room for one
}

// jobChart holds the points of one job.
type jobChart struct {
	begun, due time.Time
	devices    map[string]*deviceChart // by UUID: the devices that the job holds
}

// deviceChart holds the points of one device of a job.
type deviceChart struct {
	points *series.Recorder
	energy *uint64   // millijoules at the time at; nil if unknown
	at     time.Time // time of the previous point, or when the job got the device
}

func newCharts() *charts {
	return &charts{jobs: map[string]*jobChart{}, changed: make(chan struct{}, 1)}
}

// draw adds points for the NVIDIA devices of a job's grant from now on, and stops for the job's
// other devices. Devices that several jobs may hold have no series, because NVML counts all their
// jobs together.
//
// A job without a cgroup has no series either. Hook cgroup has ended it since the periodic got its
// list, and erase may already have run.
func (h *hook) draw(j *cgroup.Job, g *inventory.Grant) {
	id := j.ID()
	interval := time.Duration(h.policy.Series.Interval)
	uuids := countedUUIDs(g)
	h.charts.mu.Lock()
	defer h.charts.mu.Unlock()
	if h.sample == nil || interval <= 0 || h.policy.Devices.JobsPerDevice > 1 || len(uuids) == 0 || !j.Exists() {
		delete(h.charts.jobs, id)
		return
	}
	now := h.now()
	c := h.charts.jobs[id]
	if c == nil {
		pause, slack := series.Pause(interval, 0, now)
		c = &jobChart{begun: now, due: now.Add(pause + slack), devices: map[string]*deviceChart{}}
		h.charts.jobs[id] = c
		h.charts.rouse()
	}
	for uuid := range c.devices {
		if !slices.Contains(uuids, uuid) {
			delete(c.devices, uuid)
		}
	}
	for _, uuid := range uuids {
		if c.devices[uuid] == nil {
			c.devices[uuid] = &deviceChart{at: now, points: series.NewRecorder(hostapi.ColumnUtilizationPercent,
				hostapi.ColumnDeviceMemBytes, hostapi.ColumnPowerWatts)}
		}
	}
	if !h.charts.drawing {
		h.charts.drawing = true
		h.background.Go(h.drawAll)
	}
}

// erase removes the chart of a job that has ended.
func (h *hook) erase(id string) {
	h.charts.mu.Lock()
	defer h.charts.mu.Unlock()
	delete(h.charts.jobs, id)
	h.charts.rouse()
}

// rouse makes the goroutine check again. The caller holds mu.
func (c *charts) rouse() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// drawAll adds points as long as any job has a device.
func (h *hook) drawAll() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		asked := h.now()
		due, uuids, since, over := h.charts.next(asked)
		switch {
		case over:
			return
		case len(uuids) > 0:
			h.addPoints(asked, uuids, since)
			continue
		}
		timer.Reset(due.Sub(h.now()))
		select {
		case <-timer.C:
		case <-h.charts.changed:
		case <-h.life.Done():
			return
		}
	}
}

// next returns the devices that are due for a point, and the time since which the driver's samples
// count. Without such devices it returns when one will be due. over means that there are no jobs,
// so the goroutine ends.
func (c *charts) next(now time.Time) (due time.Time, uuids []string, since time.Time, over bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.jobs) == 0 {
		c.drawing = false
		return due, nil, since, true
	}
	since = now
	for _, job := range c.jobs {
		if due.IsZero() || job.due.Before(due) {
			due = job.due
		}
		if job.due.After(now) {
			continue
		}
		for uuid, d := range job.devices {
			uuids = append(uuids, uuid)
			if d.at.Before(since) {
				since = d.at
			}
		}
	}
	slices.Sort(uuids)
	return due, uuids, since, false
}

// addPoints asks about the devices that were due at the time asked, and adds a point to each. If
// the driver does not answer, the point is lost, and the next one covers the whole time. The driver
// may take seconds to answer. A job that becomes due meanwhile is handled next.
func (h *hook) addPoints(asked time.Time, uuids []string, since time.Time) {
	answer, err := h.sample(h.life, time.Duration(h.policy.Devices.ProbeTimeout), since, uuids...)
	now := h.now()
	h.charts.mu.Lock()
	defer h.charts.mu.Unlock()
	h.noteSampled(err)
	for _, job := range h.charts.jobs {
		if job.due.After(asked) {
			continue
		}
		pause, slack := series.Pause(time.Duration(h.policy.Series.Interval), now.Sub(job.begun), now)
		job.due = now.Add(pause + slack)
		for uuid, d := range job.devices {
			if answer == nil || !slices.Contains(uuids, uuid) {
				continue
			}
			if s, told := answer.Devices[uuid]; told && now.Unix() > d.points.Last() {
				d.add(now, now.Unix(), s)
			}
		}
	}
}

// noteSampled logs a failure unless the previous sample failed too. The caller holds charts.mu.
func (h *hook) noteSampled(err error) {
	if err != nil && !h.unsampled && h.life.Err() == nil {
		h.log.Infof("the series of jobs have gaps: %v", err)
	}
	h.unsampled = err != nil
}

// add adds a point from the driver's current sample.
func (d *deviceChart) add(now time.Time, second int64, s inventory.NVIDIASample) {
	d.points.Add(second, known(s.GPUPercent), known(s.MemBytes), d.watts(now, s))
	d.energy, d.at = s.EnergyMillijoules, now
}

// watts returns the mean power since the previous point. If that is not known, it returns the
// current power, if the driver reports it.
func (d *deviceChart) watts(now time.Time, s inventory.NVIDIASample) float64 {
	if e := s.EnergyMillijoules; e != nil && d.energy != nil && *e >= *d.energy && now.After(d.at) {
		return float64(*e-*d.energy) / 1000 / now.Sub(d.at).Seconds()
	}
	if s.PowerMilliwatts != nil {
		return float64(*s.PowerMilliwatts) / 1000
	}
	return math.NaN()
}

func known[N uint32 | uint64 | float64](value *N) float64 {
	if value == nil {
		return math.NaN()
	}
	return float64(*value)
}

// addSeries adds the points that the host may not have yet to the description of a job's devices.
// It reports whether there were any.
func (h *hook) addSeries(id string, g *inventory.Grant, list []hostapi.DeviceUsage) (some bool) {
	h.charts.mu.Lock()
	defer h.charts.mu.Unlock()
	c := h.charts.jobs[id]
	if c == nil {
		return false
	}
	for i := range list {
		at := slices.IndexFunc(g.Devices, func(o topology.Device) bool { return o.ID == list[i].ID })
		if at < 0 {
			continue
		}
		if d := c.devices[g.Devices[at].UUID]; d != nil {
			list[i].Series = d.points.Answer()
			some = some || list[i].Series != nil
		}
	}
	return some
}

// endSeries adds the last point for the devices of a job's grant, which list describes. It does not
// ask NVML again: the epilogue has already asked for the energy. If a job has no point yet, this
// one covers the job's whole time.
func (h *hook) endSeries(
	id string, g *inventory.Grant, got since, after *inventory.NVIDIAUsage, list []hostapi.DeviceUsage,
) {
	h.charts.mu.Lock()
	defer h.charts.mu.Unlock()
	c := h.charts.jobs[id]
	if c == nil || after == nil {
		return
	}
	now := h.now()
	for uuid, d := range c.devices {
		counted, told := after.Devices[uuid]
		if !told {
			continue
		}
		s := inventory.NVIDIASample{EnergyMillijoules: counted.EnergyMillijoules}
		if d.points.Last() == 0 {
			d.energy = got[uuid].EnergyMillijoul
			for _, u := range list {
				if u.ID == idOf(g, uuid) {
					s.GPUPercent = u.UtilizationPercent
				}
			}
		}
		d.add(now, max(now.Unix(), d.points.Last()+1), s)
	}
}

func idOf(g *inventory.Grant, uuid string) string {
	for _, d := range g.Devices {
		if d.UUID == uuid {
			return d.ID
		}
	}
	return ""
}

// sampler is the type of inventory.AskNVMLSample for a given program.
type sampler func(ctx context.Context, limit time.Duration, since time.Time, uuids ...string) (
	*inventory.NVIDIASamples, error)
