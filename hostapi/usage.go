package hostapi

// HostUsage is what a job used on one host. A nil field was not measured there; it is never reported as 0.
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

	// ProcessesAttached counts the processes taken in by execjob_attach.
	ProcessesAttached int `json:"processes_attached"`

	Kill *KillReport `json:"kill,omitempty"` // nil until the job was killed or found empty
}

// KillReport tells how the job's last processes ended.
type KillReport struct {
	Signal     string  `json:"signal"`     // the last signal sent: "none", "SIGTERM" or "SIGKILL"
	Seconds    float64 `json:"seconds"`    // from the first signal to the last process gone
	Stragglers int     `json:"stragglers"` // processes alive when the leading program had ended
}
