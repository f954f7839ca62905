package hostapi

// HostUsage is what a job used on one host. A nil field was not measured there; it is never
// reported as 0.
type HostUsage struct {
	CPUs  string `json:"cpus,omitempty"` // the kernel's list format: "0-3,8"
	Mems  string `json:"mems,omitempty"` // NUMA nodes, same format
	NCPUs int    `json:"ncpus"`

	CPUTSeconds   *float64 `json:"cput_seconds,omitempty"`
	UserSeconds   *float64 `json:"user_seconds,omitempty"`
	SystemSeconds *float64 `json:"system_seconds,omitempty"`

	// MemBytes is the peak of anonymous plus shared memory, as MemSource says.
	MemBytes  *int64 `json:"mem_bytes,omitempty"`
	MemSource string `json:"mem_source,omitempty"`
	// VmemBytes is the peak of memory plus swap, page cache included, where the kernel tells it.
	VmemBytes       *int64 `json:"vmem_bytes,omitempty"`
	CgroupPeakBytes *int64 `json:"cgroup_peak_bytes,omitempty"` // page cache and kernel memory included
	MemLimitBytes   *int64 `json:"mem_limit_bytes,omitempty"`   // nil when nothing limits the job
	OOMKills        *int64 `json:"oom_kills,omitempty"`
	PidsPeak        *int64 `json:"pids_peak,omitempty"`

	HugetlbPeakBytes *int64 `json:"hugetlb_peak_bytes,omitempty"`
	MajorFaults      *int64 `json:"major_faults,omitempty"` // pages that had to be read before the job could go on

	// ThrottledSeconds is how long its cpu quota kept the job from running, summed over cpus.
	ThrottledSeconds *float64 `json:"throttled_seconds,omitempty"`
	// Pressure is how long the job's tasks waited for cpu, memory and io (the kernel's PSI totals).
	Pressure *Pressure `json:"pressure,omitempty"`

	// EnergyJoules is the job's part of what the node's processors and their memory have used.
	EnergyJoules *float64 `json:"energy_joules,omitempty"`
	// Billing is what the job is billed for what it held on all its hosts, in units of the
	// configured weights. The mother superior has it.
	Billing *float64 `json:"billing,omitempty"`

	// Series is what the job used here over time. An answer has the points since an earlier one.
	Series *Series `json:"series,omitempty"`

	// Devices are the devices that the job was given here, with what it did with them as far as it
	// was measured.
	Devices []DeviceUsage `json:"devices,omitempty"`

	// Ranks are the MPI ranks that were seen here, by world and rank, at most MaxRanks.
	Ranks []RankUsage `json:"ranks,omitempty"`

	// Strays counts the owner's processes outside of every job that were found and left alone.
	Strays int `json:"strays,omitempty"`

	// ProcessesAttached counts the processes taken in by execjob_attach.
	ProcessesAttached int `json:"processes_attached"`

	Kill *KillReport `json:"kill,omitempty"` // nil until the job was killed or found empty
}

// MaxRanks bounds the ranks that are kept of a host.
const MaxRanks = 4096

// RankUsage is one rank of an MPI program. The usage of a rank is not measured unless it has a
// cgroup of its own (per_task).
type RankUsage struct {
	World string `json:"world,omitempty"` // tells mpiruns of one job apart, where the library names it
	Rank  int    `json:"rank"`
	PID   int    `json:"pid"` // of its topmost process
	Comm  string `json:"comm,omitempty"`

	CPUTSeconds  *float64 `json:"cput_seconds,omitempty"`
	MemPeakBytes *int64   `json:"mem_peak_bytes,omitempty"` // page cache included
	OOMKills     *int64   `json:"oom_kills,omitempty"`
}

// DeviceUsage is one device of a job. A nil field was not measured.
type DeviceUsage struct {
	ID       string `json:"id"`       // the UUID, else the PCI address, else the path of its node
	Resource string `json:"resource"` // what the job asked for: "ngpus", "fpga"
	Model    string `json:"model,omitempty"`
	PCI      string `json:"pci,omitempty"`
	Returned bool   `json:"returned,omitempty"` // the job has it no more: a resize took it

	// of the time since the job got it, something ran on it
	UtilizationPercent *float64 `json:"utilization_percent,omitempty"`
	MemPeakBytes       *int64   `json:"mem_peak_bytes,omitempty"` // the most of its memory that one process held
	EnergyJoules       *float64 `json:"energy_joules,omitempty"`

	Series *Series `json:"series,omitempty"` // what the job did with it over time
}

// KillReport tells how the job's last processes ended.
type KillReport struct {
	Signal     string  `json:"signal"`     // the last signal sent: "none", "SIGTERM" or "SIGKILL"
	Seconds    float64 `json:"seconds"`    // from the first signal to the last process gone
	Stragglers int     `json:"stragglers"` // processes alive when the leading program had ended
}

// Pressure holds wait times in seconds, as the kernel's pressure files total them. "some" counts
// while at least one task waited, "full" while all that could have run did. A nil field was not
// counted.
type Pressure struct {
	CPUSome    *float64 `json:"cpu_some_seconds,omitempty"`
	MemorySome *float64 `json:"memory_some_seconds,omitempty"`
	MemoryFull *float64 `json:"memory_full_seconds,omitempty"`
	IOSome     *float64 `json:"io_some_seconds,omitempty"`
	IOFull     *float64 `json:"io_full_seconds,omitempty"`
}
