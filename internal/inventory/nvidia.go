package inventory

// NVIDIA is what the program that asks NVML (cmd/nvml) prints for `inventory`, as JSON.
type NVIDIA struct {
	Driver string      `json:"driver"` // version
	GPUs   []NVIDIAGPU `json:"gpus"`   // never nil
}

// NVIDIAGPU is one GPU as NVML, or /proc/driver/nvidia, tells of it.
type NVIDIAGPU struct {
	UUID   string `json:"uuid"`  // "GPU-..."
	Model  string `json:"model"` // "NVIDIA A100-SXM4-40GB"
	PCI    string `json:"pci"`   // 0000:07:00.0, as sysfs names it
	Minor  uint32 `json:"minor"` // of /dev/nvidiaN
	Memory int64  `json:"memory,omitempty"`
	// MIG: the GPU is in MIG mode and can be had by its instances only.
	MIG       bool           `json:"mig,omitempty"`
	Instances []MIGInstance  `json:"instances,omitempty"`
	Links     map[string]int `json:"links,omitempty"` // active NVLinks to other GPUs, by UUID
	// NVSwitch: all of its links lead to a switch, by which it reaches every other such GPU.
	NVSwitch int    `json:"nvswitch,omitempty"` // number of those links
	Error    string `json:"error,omitempty"`    // why something of it is not known
}

// MIGInstance is a compute instance of a GPU in MIG mode.
type MIGInstance struct {
	UUID   string `json:"uuid"`  // "MIG-..."
	Model  string `json:"model"` // "NVIDIA A100-SXM4-40GB MIG 1g.5gb"
	Memory int64  `json:"memory,omitempty"`
	GI     int    `json:"gi"` // GPU instance id
	CI     int    `json:"ci"` // compute instance id within it
}

// NVIDIAUsage is what the program prints for `usage UUID...`: totals of each device since it was
// switched on or last reset. A value that NVML does not have is absent.
type NVIDIAUsage struct {
	Devices map[string]NVIDIACounters `json:"devices"` // by UUID
}

// NVIDIACounters are totals of one device. The processes are those that NVML's accounting mode
// remembers, running or ended.
type NVIDIACounters struct {
	EnergyMillijoules *uint64         `json:"energy_mj,omitempty"`
	Processes         []NVIDIAProcess `json:"processes,omitempty"`
	Error             string          `json:"error,omitempty"`
}

// NVIDIASamples is what the program prints for `sample MICROSECONDS UUID...`. A value that NVML
// does not have is absent.
type NVIDIASamples struct {
	Devices map[string]NVIDIASample `json:"devices"` // by UUID
}

// NVIDIASample is what a device does. GPUPercent is a mean since the time that the caller gave, as
// far as the driver remembers, which may be less than half a minute.
type NVIDIASample struct {
	GPUPercent        *float64 `json:"gpu_percent,omitempty"` // of the time, a kernel ran
	MemBytes          *uint64  `json:"mem_bytes,omitempty"`   // in use now, the driver's own included
	EnergyMillijoules *uint64  `json:"energy_mj,omitempty"`   // since it was switched on or last reset
	PowerMilliwatts   *uint32  `json:"power_mw,omitempty"`    // now
	Error             string   `json:"error,omitempty"`
}

// NVIDIAProcess is one process that has used the device (nvmlDeviceGetAccountingStats).
type NVIDIAProcess struct {
	PID          uint32  `json:"pid"`
	StartMicros  uint64  `json:"start_us"` // since 1970
	Milliseconds uint64  `json:"ms"`       // that it had a context; 0 while it runs
	Running      bool    `json:"running,omitempty"`
	GPUPercent   *uint32 `json:"gpu_percent,omitempty"` // of that time, a kernel ran
	MemPeakBytes *uint64 `json:"mem_peak_bytes,omitempty"`
}
