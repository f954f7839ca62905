// Package config is the node's configuration: what PBS has sent to it, and above that the file
// /etc/hookhost/hookhost.toml. Both have the same form.
//
// The whole file has one schema, here, so that an unknown key is an error with its line whoever it was meant for and
// so that `config check` and `config show` need no hook's program. Each hook's own folder decides what the values mean. Nothing
// configured is a working node: Default holds every value. Names follow the keys of OpenPBS's pbs_cgroups where
// one exists (openpbs pbs_cgroups.CF).
package config

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
)

// Path is where the file is unless HOOKHOST_CONFIG or --config says otherwise.
const Path = "/etc/hookhost/hookhost.toml"

// File is the whole file. Its zero value is not a configuration: start from Default.
type File struct {
	Host     Host     `toml:"host" json:"host" comment:"The daemon."`
	Cgroup   Cgroup   `toml:"cgroup" json:"cgroup" comment:"Where jobs' cgroups are and how they end."`
	Vnodes   Vnodes   `toml:"vnodes" json:"vnodes" comment:"What PBS is told of this host."`
	CPU      CPU      `toml:"cpu" json:"cpu" comment:"Share and quota of cpu time."`
	Cpuset   Cpuset   `toml:"cpuset" json:"cpuset" comment:"Which cpus and NUMA nodes a job gets."`
	Memory   Memory   `toml:"memory" json:"memory" comment:"mem."`
	Memsw    Memsw    `toml:"memsw" json:"memsw" comment:"vmem: memory plus swap."`
	Hugetlb  Hugetlb  `toml:"hugetlb" json:"hugetlb" comment:"hpmem: huge pages."`
	Pids     Pids     `toml:"pids" json:"pids" comment:"How many tasks a job may have."`
	IO       IO       `toml:"io" json:"io" comment:"Block devices. cgroup v2 only."`
	Devices  Devices  `toml:"devices" json:"devices" comment:"Which devices a job may open: those it was given, and a base list."`
	Rlimits  Rlimits  `toml:"rlimits" json:"rlimits" comment:"Resource limits of a job's processes (getrlimit(2)): SOFT or SOFT:HARD, in the unit of getrlimit; unlimited; empty: as they are. A job asks for others with -l rlimit_nofile=N and so on."`
	Walltime Walltime `toml:"walltime" json:"walltime" comment:"What becomes of jobs that run out of walltime or cput. Time in which a job is suspended does not count."`
	Sister   Sister   `toml:"sister" json:"sister" comment:"The hookhosts of other hosts, over TLS."`
	MPI      MPI      `toml:"mpi" json:"mpi" comment:"What MPI launchers find in a job on several hosts."`
	OpenPBS  OpenPBS  `toml:"openpbs" json:"openpbs" comment:"Where pbs_mom of this host has its files."`
	Shim     Shim     `toml:"shim" json:"shim" comment:"The hook that pbs_mom runs, which reads the configuration that PBS sends: hookhost openpbs config."`

	// Controllers of which a job has a cgroup and hookhost sets no limit.
	Blkio     Placing `toml:"blkio" json:"blkio" comment:"A job has a cgroup in the controller blkio, which is io on cgroup v2. Limits are in [io]."`
	NetCls    Placing `toml:"net_cls" json:"net_cls" comment:"A job has a cgroup in net_cls, so that its packets can be told by class. cgroup v1 only: packets of a v2 cgroup are matched by its path."`
	NetPrio   Placing `toml:"net_prio" json:"net_prio" comment:"The same in net_prio. cgroup v1 only."`
	PerfEvent Placing `toml:"perf_event" json:"perf_event" comment:"The same in perf_event, for perf --cgroup. On cgroup v2 every job's cgroup is."`
	RDMA      Placing `toml:"rdma" json:"rdma" comment:"The same in rdma. With cgroup v2 and systemd it also has to be in enable_controllers of [cgroup]."`

	Device []Device `toml:"device,omitempty" json:"device,omitempty" comment:"Devices that are not found by themselves."`

	layers []Layer // that it was parsed from
	here   Here    // that its conditions were resolved for
}

// Cgroup configures the tree that jobs live in.
type Cgroup struct {
	Prefix      string   `toml:"prefix" json:"prefix" comment:"Jobs are in PREFIX.service/jobid (v1) and PREFIX.service/jobs (v2)."`
	Mount       string   `toml:"mount" json:"mount" comment:"Where cgroups are mounted; empty: as the mount table says."`
	Systemd     string   `toml:"systemd" json:"systemd" comment:"auto: where systemd runs, it is asked for PREFIX.service as a unit of its own with Delegate=yes. require: and a node without fails. off: plain directories."`
	SystemdWait Duration `toml:"systemd_timeout" json:"systemd_timeout" comment:"How long systemd may take to start the unit."`
	// EnableControllers goes beyond the tree that is delegated to jobs: see the comment that config show prints.
	EnableControllers []string `toml:"enable_controllers" json:"enable_controllers" comment:"Controllers to enable for the whole node, in the root of the cgroup v2 tree, beside those that systemd enables: hugetlb, io, ... Without systemd, those that the configuration needs are enabled anyway."`
	// FavorDynmods is the whole kernel's, and off: cgroup.Tree.FavorDynmods says what it costs.
	FavorDynmods bool     `toml:"favordynmods" json:"favordynmods" comment:"Set the option favordynmods of the cgroup v2 mount (Linux 6.0): a process is moved into a job, as by attach, without waiting for the kernel; fork, exec and exit take a little longer on the whole node. It stays until the next boot: false does not take it back."`
	KillTimeout  Duration `toml:"kill_timeout" json:"kill_timeout" comment:"How long the end of a job goes on killing before it gives up."`
	KillGrace    Duration `toml:"kill_grace" json:"kill_grace" comment:"SIGTERM this long before SIGKILL to what a job left behind; 0s: SIGKILL at once."`
}

// Vnodes configures what exechost_startup tells PBS of this host, and what it does when a cgroup cannot be removed.
type Vnodes struct {
	PerNUMANode           bool     `toml:"vnode_per_numa_node" json:"vnode_per_numa_node" comment:"A vnode host[n] for each NUMA node."`
	PropagateVntype       bool     `toml:"propagate_vntype_to_server" json:"propagate_vntype_to_server"`
	OnlineOfflinedNodes   bool     `toml:"online_offlined_nodes" json:"online_offlined_nodes" comment:"Put the host's vnodes back on line once every left-over cgroup is gone."`
	OnlineMinDelay        Duration `toml:"online_nodes_min_delay" json:"online_nodes_min_delay" comment:"How long vnodes stay offline at least."`
	PeriodicResourceUsage bool     `toml:"periodic_resc_update" json:"periodic_resc_update" comment:"Tell MoM what each job has used so far at exechost_periodic."`
	CommentConfigRefused  bool     `toml:"comment_config_refused" json:"comment_config_refused" comment:"Add to the comment of the host's vnode that a configuration was refused, as long as it is."`
}

// CPU configures the cpu controller.
type CPU struct {
	Enabled                bool     `toml:"enabled" json:"enabled"`
	EnforcePerPeriodQuota  bool     `toml:"enforce_per_period_quota" json:"enforce_per_period_quota" comment:"Limit a job to ncpus cpus' worth of time even where others are idle."`
	CfsPeriod              Duration `toml:"cfs_period" json:"cfs_period"`
	CfsQuotaFudgeFactor    float64  `toml:"cfs_quota_fudge_factor" json:"cfs_quota_fudge_factor"`
	ZeroCPUsSharesFraction float64  `toml:"zero_cpus_shares_fraction" json:"zero_cpus_shares_fraction" comment:"Share of a job with ncpus=0, in cpus."`
	ZeroCPUsQuotaFraction  float64  `toml:"zero_cpus_quota_fraction" json:"zero_cpus_quota_fraction" comment:"Quota of a job with ncpus=0, in cpus; cfs_quota_fudge_factor multiplies it."`
}

// Cpuset configures the cpuset controller and placement.
type Cpuset struct {
	Enabled         bool   `toml:"enabled" json:"enabled"`
	ExcludeCPUs     string `toml:"exclude_cpus" json:"exclude_cpus" comment:"Cpus that no job gets, as a list: 0,8-9."`
	MemFences       bool   `toml:"mem_fences" json:"mem_fences" comment:"Allow memory only on the NUMA nodes of the job's cpus."`
	AllowZeroCPUs   bool   `toml:"allow_zero_cpus" json:"allow_zero_cpus"`
	UseHyperthreads bool   `toml:"use_hyperthreads" json:"use_hyperthreads" comment:"Count each hardware thread as a cpu."`
	NCPUsAreCores   bool   `toml:"ncpus_are_cores" json:"ncpus_are_cores" comment:"With use_hyperthreads: one ncpus is a core with all its threads."`
	Placement       string `toml:"placement" json:"placement" comment:"pack: fill sockets one by one. spread: the emptiest socket first."`
	Isolated        bool   `toml:"isolated" json:"isolated" comment:"Take a job's cpus out of the kernel's load balancing (cpuset.cpus.partition). cgroup v2, Linux 6.7 or newer."`

	MemHardwall      bool `toml:"mem_hardwall" json:"mem_hardwall" comment:"The kernel's own memory for a job is on the job's NUMA nodes, too. cgroup v1 only: on v2 just the memory of its programs is."`
	MemorySpreadPage bool `toml:"memory_spread_page" json:"memory_spread_page" comment:"The page cache of a job is spread over its NUMA nodes. cgroup v1 only."`
}

// Pids configures the pids controller.
type Pids struct {
	Enabled bool  `toml:"enabled" json:"enabled"`
	Max     int64 `toml:"max" json:"max" comment:"Tasks (processes and threads) a job may have; 0: no limit. A job asks for less with -l pids=N."`
}

// Placing configures a controller in which a job only has a cgroup.
type Placing struct {
	Enabled bool `toml:"enabled" json:"enabled"`
}

// Default returns the configuration of a node where nothing is configured.
func Default() *File {
	return &File{
		Host: Host{Enabled: true, LogLevel: "info", Start: Duration(30 * time.Second)},
		Cgroup: Cgroup{Prefix: "pbs_jobs", Systemd: "auto", SystemdWait: Duration(10 * time.Second), EnableControllers: []string{},
			KillTimeout: Duration(10 * time.Second)},
		Vnodes: Vnodes{PropagateVntype: true, OnlineOfflinedNodes: true, OnlineMinDelay: Duration(30 * time.Second),
			PeriodicResourceUsage: true},
		CPU: CPU{Enabled: true, CfsPeriod: Duration(100 * time.Millisecond), CfsQuotaFudgeFactor: 1.03,
			ZeroCPUsSharesFraction: 0.002, ZeroCPUsQuotaFraction: 0.2},
		Cpuset: Cpuset{Enabled: true, AllowZeroCPUs: true, Placement: "pack"},
		Memory: Memory{Enabled: true, EnforceDefault: true, ReservePercent: 2, Hidden: 1 << 20, Swappiness: -1, Enforce: "cgroup",
			OOMGroup: true, ManageRlimitAS: true},
		Memsw:   Memsw{Enabled: true, EnforceDefault: true, Hidden: 1 << 20},
		Hugetlb: Hugetlb{EnforceDefault: true, Hidden: 1 << 20},
		Pids:    Pids{Enabled: true},
		IO:      IO{Max: []string{}},
		Devices: Devices{Enabled: true, Allow: []any{}, DiscoverGPUs: true, ProbeTimeout: Duration(10 * time.Second), Accounting: true,
			JobsPerDevice: 1, CDIDir: "/var/run/cdi"},
		Walltime: DefaultWalltime(),
		Sister:   DefaultSister(),
		MPI:      DefaultMPI(),
		OpenPBS:  DefaultOpenPBS(),
		Shim:     DefaultShim(),
	}
}

// Here returns what the conditions of the configuration were resolved for.
func (f *File) Here() Here { return f.here }

// TOML returns the file with every value and its comment, as `config show` prints it. Parse reads it back.
func (f *File) TOML() ([]byte, error) {
	var b bytes.Buffer
	if err := toml.NewEncoder(&b).SetIndentTables(false).Encode(f); err != nil {
		return nil, err
	}
	if len(f.Device) == 0 {
		b.WriteString(deviceExample)
	}
	return b.Bytes(), nil
}

// oneLine turns the parser's errors into one line that says where.
func oneLine(err error) error {
	var strict *toml.StrictMissingError
	if errors.As(err, &strict) && len(strict.Errors) > 0 {
		e := strict.Errors[0]
		line, _ := e.Position()
		return fmt.Errorf("line %d: unknown key %q", line, strings.Join(e.Key(), "."))
	}
	var decode *toml.DecodeError
	if errors.As(err, &decode) {
		line, _ := decode.Position()
		if key := strings.Join(decode.Key(), "."); key != "" {
			return fmt.Errorf("line %d: %s: %s", line, key, strings.TrimPrefix(decode.Error(), "toml: "))
		}
		return fmt.Errorf("line %d: %s", line, strings.TrimPrefix(decode.Error(), "toml: "))
	}
	return err
}
