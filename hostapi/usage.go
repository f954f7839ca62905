package hostapi

// HostUsage is a job's usage on one host. A nil field was not measured there; it is never reported
// as 0.
type HostUsage struct {
	CPUs  string `json:"cpus,omitempty"` // the kernel's list format: "0-3,8"
	Mems  string `json:"mems,omitempty"` // NUMA nodes, same format
	NCPUs int    `json:"ncpus"`

	CPUTSeconds   *float64 `json:"cput_seconds,omitempty"`
	UserSeconds   *float64 `json:"user_seconds,omitempty"`
	SystemSeconds *float64 `json:"system_seconds,omitempty"`

	// MemBytes is the greatest anonymous plus shared memory in any sample. If no sample saw any, or
	// the job ran out of memory, it is the peak of the cgroup. Of a sister under pbs_mom, it may be
	// MoM's figure. MemSource says which.
	MemBytes  *int64 `json:"mem_bytes,omitempty"`
	MemSource string `json:"mem_source,omitempty"`
	// VmemBytes is the peak of memory plus swap, page cache included, if the kernel reports it.
	VmemBytes       *int64 `json:"vmem_bytes,omitempty"`
	CgroupPeakBytes *int64 `json:"cgroup_peak_bytes,omitempty"` // page cache and kernel memory included
	MemLimitBytes   *int64 `json:"mem_limit_bytes,omitempty"`   // nil when nothing limits the job
	OOMKills        *int64 `json:"oom_kills,omitempty"`
	PidsPeak        *int64 `json:"pids_peak,omitempty"`

	HugetlbPeakBytes *int64 `json:"hugetlb_peak_bytes,omitempty"`
	MajorFaults      *int64 `json:"major_faults,omitempty"` // pages that the job had to wait for

	// ThrottledSeconds is how long the job's cpu quota kept it from running, summed over cpus.
	ThrottledSeconds *float64 `json:"throttled_seconds,omitempty"`
	// Pressure is how long the job's tasks waited for cpu, memory and io (the kernel's PSI totals).
	Pressure *Pressure `json:"pressure,omitempty"`

	// EnergyJoules is the job's share of the energy used by the node's processors and their memory.
	EnergyJoules *float64 `json:"energy_joules,omitempty"`
	// Billing is the charge for the resources that the job held on all its hosts, in units of the
	// configured weights. Only the mother superior reports it.
	Billing *float64 `json:"billing,omitempty"`

	// Series is the job's usage here over time. An answer has the points since the previous one.
	Series *Series `json:"series,omitempty"`

	// Devices are the devices that the job was given here, with their usage as far as it was
	// measured.
	Devices []DeviceUsage `json:"devices,omitempty"`

	// Ranks are the MPI ranks that were seen here, by world and rank, at most MaxRanks.
	Ranks []RankUsage `json:"ranks,omitempty"`

	// Strays counts the owner's processes outside of every job that were found and left alone.
	Strays int `json:"strays,omitempty"`

	// ProcessesAttached counts the processes that execjob_attach brought in.
	ProcessesAttached int `json:"processes_attached"`

	Kill *KillReport `json:"kill,omitempty"` // nil until the job was killed or found empty
}

// MaxRanks bounds the ranks recorded for a host.
const MaxRanks = 4096

// RankUsage is one rank of an MPI program. Its usage is measured only if the rank has a separate
// cgroup (per_task).
type RankUsage struct {
	World string `json:"world,omitempty"` // distinguishes the mpiruns of one job, if the library names it
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
	Returned bool   `json:"returned,omitempty"` // a resize took the device from the job

	// share of the time since the job got it during which something ran on it
	UtilizationPercent *float64 `json:"utilization_percent,omitempty"`
	MemPeakBytes       *int64   `json:"mem_peak_bytes,omitempty"` // the most memory on the device that one process held
	EnergyJoules       *float64 `json:"energy_joules,omitempty"`

	Series *Series `json:"series,omitempty"` // the job's usage of it over time
}

// KillReport describes how the job's last processes ended.
type KillReport struct {
	Signal     string  `json:"signal"`     // the last signal sent: "none", "SIGTERM" or "SIGKILL"
	Seconds    float64 `json:"seconds"`    // from the first signal to the last process gone
	Stragglers int     `json:"stragglers"` // processes still alive when the leading program had ended
}

// Pressure holds wait times in seconds, as totalled in the kernel's pressure files. "some" counts
// while at least one task waited, "full" while all runnable tasks waited. A nil field was not
// counted.
type Pressure struct {
	CPUSome    *float64 `json:"cpu_some_seconds,omitempty"`
	MemorySome *float64 `json:"memory_some_seconds,omitempty"`
	MemoryFull *float64 `json:"memory_full_seconds,omitempty"`
	IOSome     *float64 `json:"io_some_seconds,omitempty"`
	IOFull     *float64 `json:"io_full_seconds,omitempty"`
}
