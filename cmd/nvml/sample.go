//go:build cgo

package main

import (
	"encoding/binary"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/hookhost/hookhost/internal/inventory"
)

// samples returns the current activity of devices. A device that fails has its Error, and the
// values that could be read.
func (l *library) samples(since uint64, uuids []string) *inventory.NVIDIASamples {
	all := &inventory.NVIDIASamples{Devices: map[string]inventory.NVIDIASample{}}
	for _, uuid := range uuids {
		all.Devices[uuid] = l.sample(since, uuid)
	}
	return all
}

func (l *library) sample(since uint64, uuid string) (s inventory.NVIDIASample) {
	// got reports whether a call succeeded. A MIG instance has only memory.
	got := func(ret nvml.Return, doing string) bool {
		if absent(ret) || ret == nvml.ERROR_INVALID_ARGUMENT && strings.HasPrefix(uuid, "MIG-") {
			return false
		}
		if err := failed(ret, doing); err != nil && s.Error == "" {
			s.Error = err.Error()
		}
		return ret == nvml.SUCCESS
	}
	device, ret := l.DeviceGetHandleByUUID(uuid)
	if !got(ret, "open "+uuid) {
		return s
	}
	if memory, ret := device.GetMemoryInfo(); got(ret, "read memory") {
		s.MemBytes = &memory.Used
	}
	if l.has("nvmlDeviceGetTotalEnergyConsumption") { // since Volta
		if energy, ret := device.GetTotalEnergyConsumption(); got(ret, "read energy") {
			s.EnergyMillijoules = &energy
		}
	}
	if l.has("nvmlDeviceGetPowerUsage") {
		if power, ret := device.GetPowerUsage(); got(ret, "read power") {
			s.PowerMilliwatts = &power
		}
	}
	if l.has("nvmlDeviceGetSamples") {
		kind, samples, ret := device.GetSamples(nvml.GPU_UTILIZATION_SAMPLES, since)
		if ret != nvml.ERROR_NOT_FOUND && got(ret, "read utilization") { // NOT_FOUND: no samples since then
			s.GPUPercent = mean(kind, samples)
		}
	}
	return s
}

// mean returns the mean of samples, or nil if there are none of a known type.
func mean(kind nvml.ValueType, samples []nvml.Sample) *float64 {
	if kind != nvml.VALUE_TYPE_UNSIGNED_INT || len(samples) == 0 {
		return nil
	}
	sum, count := 0.0, 0.0
	for _, sample := range samples {
		if sample.TimeStamp == 0 { // the driver had room for more than there were
			continue
		}
		sum, count = sum+float64(binary.NativeEndian.Uint32(sample.SampleValue[:])), count+1
	}
	if count == 0 {
		return nil
	}
	sum /= count
	return &sum
}
