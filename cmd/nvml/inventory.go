//go:build cgo

package main

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/hookhost/hookhost/internal/inventory"
)

// inventory lists the GPUs. A GPU that does not answer is included, with its Error.
func (l *library) inventory() (*inventory.NVIDIA, error) {
	driver, ret := l.SystemGetDriverVersion()
	if err := failed(ret, "read driver version"); err != nil {
		return nil, err
	}
	count, ret := l.DeviceGetCount()
	if err := failed(ret, "count GPUs"); err != nil {
		return nil, err
	}
	found := &inventory.NVIDIA{Driver: driver, GPUs: make([]inventory.NVIDIAGPU, count)}
	devices := make([]nvml.Device, count)
	byPCI := map[string]string{}
	for i := range found.GPUs {
		g := &gpu{NVIDIAGPU: &found.GPUs[i]}
		device, ret := l.DeviceGetHandleByIndex(i)
		if ret != nvml.SUCCESS {
			g.fault(ret, fmt.Sprintf("open GPU %d", i))
			continue
		}
		devices[i] = device
		l.describe(g, device)
		if g.UUID != "" && g.PCI != "" {
			byPCI[g.PCI] = g.UUID
		}
	}
	for i, device := range devices {
		if device != nil {
			l.links(&gpu{NVIDIAGPU: &found.GPUs[i]}, device, byPCI)
		}
	}
	return found, nil
}

// gpu is a GPU that is being described.
type gpu struct{ *inventory.NVIDIAGPU }

// fault records the first error. A GPU that fell off the bus fails at every call.
func (g *gpu) fault(ret nvml.Return, doing string) {
	if err := failed(ret, doing); err != nil && g.Error == "" {
		g.Error = err.Error()
	}
}

func (l *library) describe(g *gpu, device nvml.Device) {
	var ret nvml.Return
	g.UUID, ret = device.GetUUID()
	g.fault(ret, "read UUID")
	pci, ret := device.GetPciInfo()
	if ret == nvml.SUCCESS {
		g.PCI = address(pci)
	}
	g.fault(ret, "read PCI address")
	minor, ret := device.GetMinorNumber()
	if ret == nvml.SUCCESS {
		g.Minor = uint32(minor)
	}
	g.fault(ret, "read minor number")
	g.Model, ret = device.GetName()
	g.fault(ret, "read name")
	// GPUs that share the machine's memory (Grace, Tegra) have no separate memory.
	memory, ret := device.GetMemoryInfo()
	if ret == nvml.SUCCESS {
		g.Memory = int64(memory.Total)
	} else if !absent(ret) {
		g.fault(ret, "read memory")
	}
	l.instances(g, device)
}

// instances adds the MIG instances. All of these functions came with driver 450.
func (l *library) instances(g *gpu, device nvml.Device) {
	if !l.has("nvmlDeviceGetMigDeviceHandleByIndex") {
		return
	}
	current, _, ret := device.GetMigMode()
	if ret != nvml.SUCCESS {
		if !absent(ret) {
			g.fault(ret, "read MIG mode")
		}
		return
	}
	if g.MIG = current == nvml.DEVICE_MIG_ENABLE; !g.MIG {
		return
	}
	most, ret := device.GetMaxMigDeviceCount()
	g.fault(ret, "count MIG devices")
	for i := range most {
		part, ret := device.GetMigDeviceHandleByIndex(i)
		if ret == nvml.ERROR_NOT_FOUND {
			continue
		}
		if ret == nvml.SUCCESS {
			ret = g.instance(part)
		}
		g.fault(ret, fmt.Sprintf("read MIG device %d", i))
	}
}

// instance adds a MIG instance, unless something about it is unknown: half of one would be useless.
func (g *gpu) instance(device nvml.Device) nvml.Return {
	var m inventory.MIGInstance
	var memory nvml.Memory
	for _, read := range []func() (ret nvml.Return){
		func() (ret nvml.Return) { m.UUID, ret = device.GetUUID(); return },
		func() (ret nvml.Return) { m.GI, ret = device.GetGpuInstanceId(); return },
		func() (ret nvml.Return) { m.CI, ret = device.GetComputeInstanceId(); return },
		func() (ret nvml.Return) { m.Model, ret = device.GetName(); return },
		func() (ret nvml.Return) { memory, ret = device.GetMemoryInfo(); return },
	} {
		if ret := read(); ret != nvml.SUCCESS {
			return ret
		}
	}
	m.Memory = int64(memory.Total)
	g.Instances = append(g.Instances, m)
	return nvml.SUCCESS
}

// links counts the active NVLinks. NVML does not say which of the numbers up to NVLINK_MAX_LINKS a
// GPU has. For the others it returns INVALID_ARGUMENT or NOT_SUPPORTED, as for all numbers of a GPU
// without NVLink.
func (l *library) links(g *gpu, device nvml.Device, byPCI map[string]string) {
	if !l.has("nvmlDeviceGetNvLinkState") || !l.has("nvmlDeviceGetNvLinkRemotePciInfo_v2") {
		return
	}
	typed := l.has("nvmlDeviceGetNvLinkRemoteDeviceType")
	for link := range nvml.NVLINK_MAX_LINKS {
		state, ret := device.GetNvLinkState(link)
		if ret != nvml.SUCCESS && !absent(ret) && ret != nvml.ERROR_INVALID_ARGUMENT {
			g.fault(ret, fmt.Sprintf("read NVLink %d", link))
			return
		}
		if ret != nvml.SUCCESS || state != nvml.FEATURE_ENABLED {
			continue
		}
		if typed {
			if remote, ret := device.GetNvLinkRemoteDeviceType(link); ret == nvml.SUCCESS &&
				remote == nvml.NVLINK_DEVICE_TYPE_SWITCH {
				g.NVSwitch++
				continue
			}
		}
		pci, ret := device.GetNvLinkRemotePciInfo(link)
		if ret != nvml.SUCCESS {
			continue // it leads out of this machine
		}
		if uuid, ok := byPCI[address(pci)]; ok {
			if g.Links == nil {
				g.Links = map[string]int{}
			}
			g.Links[uuid]++
		}
	}
}

// address returns the name in /sys/bus/pci/devices. NVML's own text has eight digits for the
// domain, and its function is always 0.
func address(pci nvml.PciInfo) string {
	return fmt.Sprintf("%04x:%02x:%02x.0", pci.Domain, pci.Bus, pci.Device)
}
