package inventory

// NVIDIA is the JSON output of the program that asks NVML (cmd/nvml) for `inventory`.
type NVIDIA struct {
	Driver string      `json:"driver"` // version
	GPUs   []NVIDIAGPU `json:"gpus"`   // never nil
}

// NVIDIAGPU is one GPU according to NVML or /proc/driver/nvidia.
type NVIDIAGPU struct {
	UUID   string `json:"uuid"`  // "GPU-..."
	Model  string `json:"model"` // "NVIDIA A100-SXM4-40GB"
	PCI    string `json:"pci"`   // 0000:07:00.0, as in sysfs
	Minor  uint32 `json:"minor"` // of /dev/nvidiaN
	Memory int64  `json:"memory,omitempty"`
	// MIG: the GPU is in MIG mode, and only its instances can be used.
	MIG       bool           `json:"mig,omitempty"`
	Instances []MIGInstance  `json:"instances,omitempty"`
	Links     map[string]int `json:"links,omitempty"` // active NVLinks to other GPUs, by UUID
	// NVSwitch: all of its links lead to a switch, through which it reaches every other such GPU.
	NVSwitch int    `json:"nvswitch,omitempty"` // number of these links
	Error    string `json:"error,omitempty"`    // why part of it is not known
}

// MIGInstance is a compute instance of a GPU in MIG mode.
type MIGInstance struct {
	UUID   string `json:"uuid"`  // "MIG-..."
	Model  string `json:"model"` // "NVIDIA A100-SXM4-40GB MIG 1g.5gb"
	Memory int64  `json:"memory,omitempty"`
	GI     int    `json:"gi"` // GPU instance id
	CI     int    `json:"ci"` // compute instance id within it
}

// NVIDIAUsage is the program's output for `usage UUID...`: totals of each device since power-on or
// the last reset. A value that NVML does not have is absent.
type NVIDIAUsage struct {
	Devices map[string]NVIDIACounters `json:"devices"` // by UUID
}

// NVIDIACounters are the totals of one device. The processes are those that NVML's accounting mode
// remembers, whether running or ended.
type NVIDIACounters struct {
	EnergyMillijoules *uint64         `json:"energy_mj,omitempty"`
	Processes         []NVIDIAProcess `json:"processes,omitempty"`
	Error             string          `json:"error,omitempty"`
}

// NVIDIASamples is the program's output for `sample MICROSECONDS UUID...`. A value that NVML does
// not have is absent.
type NVIDIASamples struct {
	Devices map[string]NVIDIASample `json:"devices"` // by UUID
}

// NVIDIASample is the current use of a device. GPUPercent is a mean since the time given by the
// caller, as far as the driver remembers, which may be less than half a minute.
type NVIDIASample struct {
	GPUPercent        *float64 `json:"gpu_percent,omitempty"` // share of the time in which a kernel ran
	MemBytes          *uint64  `json:"mem_bytes,omitempty"`   // in use now, including the driver's memory
	EnergyMillijoules *uint64  `json:"energy_mj,omitempty"`   // since power-on or the last reset
	PowerMilliwatts   *uint32  `json:"power_mw,omitempty"`    // now
	Error             string   `json:"error,omitempty"`
}

// NVIDIAProcess is one process that has used the device (nvmlDeviceGetAccountingStats).
type NVIDIAProcess struct {
	PID          uint32  `json:"pid"`
	StartMicros  uint64  `json:"start_us"` // since 1970
	Milliseconds uint64  `json:"ms"`       // how long it had a context; 0 while it runs
	Running      bool    `json:"running,omitempty"`
	GPUPercent   *uint32 `json:"gpu_percent,omitempty"` // share of that time in which a kernel ran
	MemPeakBytes *uint64 `json:"mem_peak_bytes,omitempty"`
}
