//go:build cgo

package main

import (
	"math"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/hookhost/hookhost/internal/inventory"
)

// usage returns the usage of devices. A device that fails has its Error, and the values that could
// be read.
func (l *library) usage(uuids []string) *inventory.NVIDIAUsage {
	u := &inventory.NVIDIAUsage{Devices: map[string]inventory.NVIDIACounters{}}
	for _, uuid := range uuids {
		u.Devices[uuid] = l.counters(uuid)
	}
	return u
}

func (l *library) counters(uuid string) (c inventory.NVIDIACounters) {
	fault := func(ret nvml.Return, doing string) {
		// NVML measures neither energy nor processes of a MIG instance, and some drivers call the
		// request invalid.
		if absent(ret) || ret == nvml.ERROR_INVALID_ARGUMENT && strings.HasPrefix(uuid, "MIG-") {
			return
		}
		if err := failed(ret, doing); err != nil && c.Error == "" {
			c.Error = err.Error()
		}
	}
	device, ret := l.DeviceGetHandleByUUID(uuid)
	if err := failed(ret, "open "+uuid); err != nil {
		c.Error = err.Error()
		return c
	}
	if l.has("nvmlDeviceGetTotalEnergyConsumption") { // since Volta
		energy, ret := device.GetTotalEnergyConsumption()
		if ret == nvml.SUCCESS {
			c.EnergyMillijoules = &energy
		}
		fault(ret, "read energy")
	}
	// NOT_SUPPORTED means that accounting mode is off.
	pids, ret := device.GetAccountingPids()
	fault(ret, "list accounted processes")
	for _, pid := range pids {
		stats, ret := device.GetAccountingStats(uint32(pid))
		switch ret {
		case nvml.SUCCESS:
			c.Processes = append(c.Processes, process(uint32(pid), stats))
		case nvml.ERROR_NOT_FOUND: // its place in the ring went to another process meanwhile
		default:
			fault(ret, "read accounted process")
		}
	}
	return c
}

// process leaves out values that NVML marks as not available: all bits set, as wide as the value or
// as an unsigned int.
func process(pid uint32, s nvml.AccountingStats) inventory.NVIDIAProcess {
	p := inventory.NVIDIAProcess{PID: pid, StartMicros: s.StartTime, Milliseconds: s.Time, Running: s.IsRunning != 0}
	if s.GpuUtilization != math.MaxUint32 {
		p.GPUPercent = &s.GpuUtilization
	}
	if s.MaxMemoryUsage != math.MaxUint64 && s.MaxMemoryUsage != math.MaxUint32 {
		p.MemPeakBytes = &s.MaxMemoryUsage
	}
	return p
}
