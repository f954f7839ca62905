package metrics

import (
	"strings"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
)

// reading is a job as it was read at a scrape.
type reading struct {
	job *hostapi.Job
	api.PresentJob
}

// figure is a figure of a job.
type figure struct {
	help   string
	labels []string // of each sample, after those of its set
	// samples calls add for each sample. A figure that is not known has none.
	samples func(r *reading, add func(value float64, labels ...string))
}

var (
	info = figure{"A job's owner, queue and project, on its mother superior.",
		[]string{"username", "queue", "project"},
		func(r *reading, add func(float64, ...string)) {
			if r.job.MotherSuperior {
				add(1, label(r.job.Owner.User), label(r.job.Queue), label(r.job.Project))
			}
		}}
	left = one("How long the job may still run; absent without a limit.", func(r *reading) *float64 { return r.Left })
	cpus = one("Cpus that the job was granted.", func(r *reading) *int {
		if r.NCPUs == 0 {
			return nil
		}
		return &r.NCPUs
	})
	cpuTime    = one("Cpu time of the job.", func(r *reading) *float64 { return r.UsesHere.CPUSeconds })
	userTime   = one("Cpu time of the job's programs.", func(r *reading) *float64 { return r.UsesHere.UserSeconds })
	systemTime = one("Cpu time of the kernel for the job.",
		func(r *reading) *float64 { return r.UsesHere.SystemSeconds })
	mem  = one("Anonymous and shared memory of the job.", func(r *reading) *int64 { return r.UsesHere.MemBytes })
	anon = one("Anonymous memory of the job.", func(r *reading) *int64 {
		return sum(r.UsesHere.MemBytes, r.UsesHere.ShmemBytes, -1)
	})
	shmem = one("Shared memory of the job.", func(r *reading) *int64 { return r.UsesHere.ShmemBytes })
	// pbs_exporter splits this into active and inactive page cache.
	cache = one("Page cache of files, without shared memory, of the job.",
		func(r *reading) *int64 { return r.UsesHere.CacheBytes })
	cacheAndShmem = one("Page cache of the job, shared memory included.", func(r *reading) *int64 {
		return sum(r.UsesHere.CacheBytes, r.UsesHere.ShmemBytes, 1)
	})
	charged = one("All memory that counts against the job's limit, page cache and the kernel's memory included.",
		func(r *reading) *int64 { return r.UsesHere.ChargedBytes })
	memLimit = one("The job's limit of memory; absent without one.",
		func(r *reading) *int64 { return r.UsesHere.MemLimitBytes })
	memFailures = one("How often the job needed memory beyond its limit.",
		func(r *reading) *int64 { return r.UsesHere.MemFailures })
	oomKillsOf = one("Processes of the job that the kernel killed because memory ran out.",
		func(r *reading) *int64 { return r.UsesHere.OOMKills })
	threads = one("Threads of the job, those of single-threaded processes included.",
		func(r *reading) *int64 { return r.UsesHere.Pids })
	bytesRead    = one("Bytes that the job read from disks.", func(r *reading) *int64 { return r.UsesHere.ReadBytes })
	bytesWritten = one("Bytes that the job wrote to disks.", func(r *reading) *int64 { return r.UsesHere.WriteBytes })

	gpuUsage = ofDevices("Share of the time since the job got the GPU in which something ran on it, as last measured.",
		func(d *hostapi.DeviceUsage) *float64 {
			if d.UtilizationPercent == nil {
				return nil
			}
			return new(*d.UtilizationPercent / 100)
		})
	gpuMemory = ofDevices("The most GPU memory that one process of the job held, as last measured.",
		func(d *hostapi.DeviceUsage) *int64 { return d.MemPeakBytes })
	gpuEnergy = ofDevices("Energy that the GPU used while the job had it, as last measured.",
		func(d *hostapi.DeviceUsage) *float64 { return d.EnergyJoules })
	// ceems finds a MIG instance by its GPU's UUID and a number, which are not known here.
	gpuHeld = figure{"1 for each GPU that the job holds.", []string{"gpuuuid", "index"},
		func(r *reading, add func(float64, ...string)) {
			for _, d := range r.Devices {
				if d.Resource == "ngpus" && !strings.HasPrefix(d.ID, "MIG-") {
					add(1, label(d.ID), label(d.PCI))
				}
			}
		}}
)

// one is a figure with one sample, without labels.
func one[T int | int64 | float64](help string, of func(*reading) *T) figure {
	return figure{help: help, samples: func(r *reading, add func(float64, ...string)) {
		if value := of(r); value != nil {
			add(float64(*value))
		}
	}}
}

// ofDevices is a figure with one sample for each of a job's devices.
func ofDevices[T int64 | float64](help string, of func(*hostapi.DeviceUsage) *T) figure {
	return figure{help, []string{"uuid"}, func(r *reading, add func(float64, ...string)) {
		for i := range r.Devices {
			if value := of(&r.Devices[i]); value != nil {
				add(float64(*value), label(r.Devices[i].ID))
			}
		}
	}}
}

// sum returns a + sign*b, or nil if one of them is not known.
func sum(a, b *int64, sign int64) *int64 {
	if a == nil || b == nil {
		return nil
	}
	return new(*a + sign**b)
}

// maxLabel bounds the bytes of a label whose text comes from outside.
const maxLabel = 128

// label returns text as a label's value. The registry refuses text that is not UTF-8.
func label(text string) string { return hostapi.Printable(hostapi.Clip(text, maxLabel)) }
