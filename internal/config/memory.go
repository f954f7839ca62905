package config

import "github.com/hookhost/hookhost/internal/pbs"

// Memory configures the memory controller.
type Memory struct {
	Enabled               bool     `toml:"enabled" json:"enabled"`
	Default               pbs.Size `toml:"default" json:"default" comment:"Limit of a job that asked for no mem; 0b: what the host can give to jobs."`
	EnforceDefault        bool     `toml:"enforce_default" json:"enforce_default"`
	ExclhostIgnoreDefault bool     `toml:"exclhost_ignore_default" json:"exclhost_ignore_default" comment:"A job with place=exclhost is as if enforce_default were false."`
	ReservePercent        float64  `toml:"reserve_percent" json:"reserve_percent" comment:"Part of the host's memory that jobs do not get."`
	ReserveAmount         pbs.Size `toml:"reserve_amount" json:"reserve_amount" comment:"Kept from jobs on top of reserve_percent."`
	Hidden                pbs.Size `toml:"vnode_hidden" json:"vnode_hidden" comment:"Kept from what PBS is told, so that the last job fits."`
	Swappiness            int      `toml:"swappiness" json:"swappiness" comment:"0 to 100; -1: as the kernel has it. cgroup v1 only."`
	Enforce               string   `toml:"enforce" json:"enforce" comment:"cgroup: the kernel limits mem, page cache included. rss: a job is killed whose anonymous and shared memory exceeds mem; page cache is not counted, and the kernel limits each job to what all jobs together may have. both."`
	SoftLimit             bool     `toml:"soft_limit" json:"soft_limit" comment:"mem is not enforced but protected: when the node runs out of memory, the kernel first reclaims what jobs have beyond their mem (memory.soft_limit_in_bytes, on cgroup v2 memory.low). The limit is vmem, and mem where [memsw] is not enabled."`
	OOMGroup              bool     `toml:"oom_group" json:"oom_group" comment:"When the kernel kills for lack of memory, it kills the whole job. cgroup v2 only; a job asks for other with -l oom_group=false."`
	HighPercent           float64  `toml:"high_percent" json:"high_percent" comment:"Throttle a job that uses more than this part of its mem (memory.high); 0: off. cgroup v2 only."`
	ServicesLow           pbs.Size `toml:"services_low" json:"services_low" comment:"Memory of the node's own services (system.slice) that is not reclaimed for jobs (memory.low); 0b: off. cgroup v2 with systemd only."`
	ManageRlimitAS        bool     `toml:"manage_rlimit_as" json:"manage_rlimit_as" comment:"With vmem enforced: RLIMIT_AS of a job's processes is pvmem, or unlimited."`
}

// Memsw configures memory plus swap.
type Memsw struct {
	Enabled               bool     `toml:"enabled" json:"enabled"`
	Default               pbs.Size `toml:"default" json:"default" comment:"Swap on top of mem for a job that asked for no vmem."`
	EnforceDefault        bool     `toml:"enforce_default" json:"enforce_default"`
	ExclhostIgnoreDefault bool     `toml:"exclhost_ignore_default" json:"exclhost_ignore_default" comment:"A job with place=exclhost is as if enforce_default were false."`
	ReservePercent        float64  `toml:"reserve_percent" json:"reserve_percent" comment:"Part of the host's swap that jobs do not get."`
	ReserveAmount         pbs.Size `toml:"reserve_amount" json:"reserve_amount"`
	Hidden                pbs.Size `toml:"vnode_hidden" json:"vnode_hidden" comment:"Kept from what PBS is told, on top of memory.vnode_hidden."`
	ManageCgswap          bool     `toml:"manage_cgswap" json:"manage_cgswap" comment:"PBS is told of the swap of each vnode, as the resource cgswap. Install its hook at the server: hookhost openpbs install --cgswap."`
}

// Hugetlb configures huge pages. hpmem is of the kernel's default size; hpmem_2mb, hpmem_1gb and so on name theirs.
type Hugetlb struct {
	Enabled               bool     `toml:"enabled" json:"enabled"`
	Default               pbs.Size `toml:"default" json:"default" comment:"Limit of a job that asked for no hpmem."`
	EnforceDefault        bool     `toml:"enforce_default" json:"enforce_default" comment:"false: such a job may have what there is."`
	ExclhostIgnoreDefault bool     `toml:"exclhost_ignore_default" json:"exclhost_ignore_default" comment:"A job with place=exclhost is as if enforce_default were false."`
	ReservePercent        float64  `toml:"reserve_percent" json:"reserve_percent" comment:"Part of the host's huge pages that jobs do not get."`
	ReserveAmount         pbs.Size `toml:"reserve_amount" json:"reserve_amount"`
	Hidden                pbs.Size `toml:"vnode_hidden" json:"vnode_hidden" comment:"Kept from what PBS is told."`
}
