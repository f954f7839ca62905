package pbscgroups

import (
	"slices"
	"strings"
)

// key is a key of the stock configuration and what it is in ours.
type key struct {
	name  string   // "cgroup.memory.default"
	stock string   // JSON that the stock code has where the file says nothing (parse_config_file); "" for nothing
	ours  []string // keys of hookhost.toml that it goes into
	note  string   // what differs, or why there is none in ours
	read  reader
}

// reader says what becomes of a value. nil: it goes into a condition, see switches.
type reader func(v value) (outcome, error)

const (
	patternLists = "exclude_hosts exclude_vntypes include_hosts run_only_on_hosts"

	alwaysFound = "hookhost finds the mounts of all controllers in the mount table"
)

const onlyV1Has = "cgroup v1 only; the v1 hierarchy may be mounted beside cgroup v2, and a node without it takes no job: doctor tells"

// controller is a section of the stock configuration.
type controller struct {
	name string
	ours string // section of hookhost.toml; "" for none
	note string // of its switch
	read reader // of its switch, where that is none of ours
}

// sections are those of the stock configuration, in its order.
var sections = []controller{
	{name: "cpu", ours: "cpu"},
	{name: "cpuacct", note: "the cpu time of a job is always counted", read: notNeeded},
	{name: "cpuset", ours: "cpuset"},
	{name: "devices", ours: "devices", note: "beside allow, jobs may open a base list: docs/devices.md"},
	{name: "memory", ours: "memory"},
	{name: "memsw", ours: "memsw", note: "with memory not enabled, a job that asks for no vmem has no limit, and in the stock hook all that the host has; without memsw, vnodes are told mem as their vmem"},
	{name: "hugetlb", ours: "hugetlb", note: "every size of huge pages that the kernel has, and in the stock hook those of 2 MB; vnodes are told hpmem only where this is on"},
	{name: "blkio", ours: "blkio", note: "on cgroup v2 it is io; limits of block devices are in [io]"},
	{name: "freezer", note: "jobs are frozen wherever the kernel can", read: notNeeded},
	{name: "net_cls", ours: "net_cls", note: onlyV1Has},
	{name: "net_prio", ours: "net_prio", note: onlyV1Has},
	{name: "perf_event", ours: "perf_event", note: "on cgroup v2 every cgroup is in it"},
	{name: "pids", ours: "pids", note: "with pids.max = 0 only a job that asks for -l pids=N has a limit"},
	{name: "rdma", ours: "rdma", note: "with cgroup v2 and systemd it also has to be in enable_controllers of [cgroup]"},
}

// keys are all that the stock hook reads (openpbs pbs_cgroups.PY), in the order of
// docs/openpbs-migration.md.
var keys = slices.Concat([]key{
	{name: "enabled", stock: "true", ours: []string{"host.enabled"}, note: "host.enabled is true where this and one controller at least are: elsewhere the stock hook does nothing at all"},
	{name: "exclude_hosts", stock: "[]", ours: []string{"host.enabled"}},
	{name: "exclude_vntypes", stock: "[]", ours: []string{"host.enabled"}},
	{name: "include_hosts", ours: []string{"host.enabled"}},
	{name: "run_only_on_hosts", stock: "[]", ours: []string{"host.enabled"}},
	{name: "cgroup_prefix", stock: `"pbs_jobs"`, ours: []string{"cgroup.prefix"}, read: prefix, note: "taken as it is, and in the stock hook escaped as by systemd-escape"},
	{name: "cgroup_lock_file", read: readAs(isText, notNeeded), note: "hookhost locks one job, or the tree for a moment, and never while it waits for the server"},
	{name: "periodic_resc_update", stock: "false", ours: []string{"vnodes.periodic_resc_update"}, read: set("vnodes.periodic_resc_update", truthOf)},
	{name: "vnode_per_numa_node", stock: "false", ours: []string{"vnodes.vnode_per_numa_node"}, read: set("vnodes.vnode_per_numa_node", truthOf), note: "NUMA nodes that have neither cpus nor memory are no vnodes"},
	{name: "online_offlined_nodes", stock: "false", ours: []string{"vnodes.online_offlined_nodes"}, read: set("vnodes.online_offlined_nodes", truthOf)},
	{name: "online_nodes_min_delay", stock: "30", ours: []string{"vnodes.online_nodes_min_delay"}, read: set("vnodes.online_nodes_min_delay", secondsOrText), note: "seconds become a duration; 24h at most"},
	{name: "use_hyperthreads", stock: "false", ours: []string{"cpuset.use_hyperthreads"}, read: set("cpuset.use_hyperthreads", truthOf)},
	{name: "ncpus_are_cores", stock: "false", ours: []string{"cpuset.ncpus_are_cores"}, read: set("cpuset.ncpus_are_cores", truthOf)},
	{name: "placement_type", stock: `"load_balanced"`, ours: []string{"cpuset.placement"}, read: placement, note: "load_balanced is spread, load_packed is pack; hookhost also prefers the smallest part of the machine that fits: docs/placement.md"},
	{name: "discover_gpus", stock: "true", ours: []string{"devices.discover_gpus"}, read: set("devices.discover_gpus", truthOf), note: "GPUs of AMD and Intel are found, too"},
	{name: "nvidia-smi", stock: `"/usr/bin/nvidia-smi"`, ours: []string{"devices.discover_gpus"}, read: nvidiaSMI, note: "NVIDIA's library is asked and no program run; empty, as in the stock hook, is discover_gpus = false"},
	{name: "kill_timeout", stock: "10", ours: []string{"cgroup.kill_timeout"}, read: set("cgroup.kill_timeout", seconds), note: "seconds become a duration; 100ms to 60s, so that it fits into the hook's alarm"},
	{name: "server_timeout", stock: "15", read: readAs(isNumber, notNeeded), note: "the server is asked by the shim, within the hook's alarm"},
	{name: "job_setup_timeout", stock: "30", read: readAs(isNumber, notNeeded), note: "hookhost knows its jobs from begin to end"},
	{name: "propagate_vntype_to_server", stock: "true", ours: []string{"vnodes.propagate_vntype_to_server"}, read: set("vnodes.propagate_vntype_to_server", truthOf)},
	{name: "manage_rlimit_as", stock: "true", ours: []string{"memory.manage_rlimit_as"}, read: set("memory.manage_rlimit_as", truthOf)},
}, switches(), []key{
	{name: "cgroup.cpu.cfs_period_us", stock: "100000", ours: []string{"cpu.cfs_period"}, read: set("cpu.cfs_period", microseconds), note: "microseconds become a duration; 1ms to 1s"},
	{name: "cgroup.cpu.cfs_quota_fudge_factor", stock: "1.03", ours: []string{"cpu.cfs_quota_fudge_factor"}, read: set("cpu.cfs_quota_fudge_factor", float)},
	{name: "cgroup.cpu.enforce_per_period_quota", stock: "false", ours: []string{"cpu.enforce_per_period_quota"}, read: set("cpu.enforce_per_period_quota", truthOf)},
	{name: "cgroup.cpu.zero_cpus_shares_fraction", stock: "0.002", ours: []string{"cpu.zero_cpus_shares_fraction"}, read: set("cpu.zero_cpus_shares_fraction", sharesFraction), note: "0.002 at least, which is the kernel's least, as in the stock hook"},
	{name: "cgroup.cpu.zero_cpus_quota_fraction", stock: "0.2", ours: []string{"cpu.zero_cpus_quota_fraction"}, read: set("cpu.zero_cpus_quota_fraction", float)},
	{name: "cgroup.cpuset.exclude_cpus", stock: "[]", ours: []string{"cpuset.exclude_cpus"}, read: set("cpuset.exclude_cpus", cpus)},
	{name: "cgroup.cpuset.mem_fences", stock: "true", ours: []string{"cpuset.mem_fences"}, read: set("cpuset.mem_fences", truthOf), note: "false by default in hookhost, as in the file that OpenPBS ships"},
	{name: "cgroup.cpuset.mem_hardwall", stock: "false", ours: []string{"cpuset.mem_hardwall"}, read: set("cpuset.mem_hardwall", truthOf), note: "cgroup v1 only; v2 confines the memory of programs alone"},
	{name: "cgroup.cpuset.memory_spread_page", stock: "false", ours: []string{"cpuset.memory_spread_page"}, read: set("cpuset.memory_spread_page", truthOf), note: "cgroup v1 only"},
	{name: "cgroup.cpuset.allow_zero_cpus", stock: "true", ours: []string{"cpuset.allow_zero_cpus"}, read: set("cpuset.allow_zero_cpus", truthOf)},
	{name: "cgroup.devices.allow", stock: "[]", ours: []string{"devices.allow"}, read: allow, note: `an entry by which any job could open a device that jobs are given one by one, as "c *:* rwm" on a host with GPUs, is left out there: docs/devices.md`},
	{name: "cgroup.memory.soft_limit", stock: "false", ours: []string{"memory.soft_limit"}, read: set("memory.soft_limit", truthOf), note: "on cgroup v2 by memory.low: docs/openpbs-migration.md"},
	{name: "cgroup.memory.default", stock: `"0MB"`, ours: []string{"memory.default"}, read: set("memory.default", size), note: "0 is all that the host can give, and in the stock hook a limit with which no job runs"},
	{name: "cgroup.memory.enforce_default", stock: "true", ours: []string{"memory.enforce_default"}, read: set("memory.enforce_default", truthOf)},
	{name: "cgroup.memory.exclhost_ignore_default", stock: "false", ours: []string{"memory.exclhost_ignore_default"}, read: set("memory.exclhost_ignore_default", truthOf)},
	{name: "cgroup.memory.reserve_percent", stock: "0", ours: []string{"memory.reserve_percent"}, read: set("memory.reserve_percent", whole), note: "2 by default in hookhost; a fraction is cut off, as in the stock hook"},
	{name: "cgroup.memory.reserve_amount", stock: `"0MB"`, ours: []string{"memory.reserve_amount"}, read: set("memory.reserve_amount", size)},
	{name: "cgroup.memory.vnode_hidden_mb", stock: "1", ours: []string{"memory.vnode_hidden"}, read: set("memory.vnode_hidden", megabytes), note: "MB become a size"},
	{name: "cgroup.memory.swappiness", stock: "1", ours: []string{"memory.swappiness"}, read: set("memory.swappiness", whole), note: "of each job, and in the stock hook of their parent; cgroup v1 only"},
	{name: "cgroup.memsw.default", stock: `"0MB"`, ours: []string{"memsw.default"}, read: set("memsw.default", size)},
	{name: "cgroup.memsw.enforce_default", stock: "true", ours: []string{"memsw.enforce_default"}, read: set("memsw.enforce_default", truthOf)},
	{name: "cgroup.memsw.exclhost_ignore_default", stock: "false", ours: []string{"memsw.exclhost_ignore_default"}, read: set("memsw.exclhost_ignore_default", truthOf)},
	{name: "cgroup.memsw.reserve_percent", stock: "0", ours: []string{"memsw.reserve_percent"}, read: set("memsw.reserve_percent", whole), note: "a fraction is cut off, as in the stock hook"},
	{name: "cgroup.memsw.reserve_amount", stock: `"0MB"`, ours: []string{"memsw.reserve_amount"}, read: set("memsw.reserve_amount", size)},
	{name: "cgroup.memsw.vnode_hidden_mb", stock: "1", ours: []string{"memsw.vnode_hidden"}, read: set("memsw.vnode_hidden", megabytes), note: "MB become a size; the stock hook hides it on vnodes of NUMA nodes only"},
	{name: "cgroup.memsw.manage_cgswap", stock: "false", ours: []string{"memsw.manage_cgswap"}, read: set("memsw.manage_cgswap", truthOf), note: "nodes tell cgswap; requests are filled in by a hook of the server: hookhost openpbs install --cgswap"},
	{name: "cgroup.hugetlb.default", stock: `"0MB"`, ours: []string{"hugetlb.default"}, read: set("hugetlb.default", size)},
	{name: "cgroup.hugetlb.enforce_default", stock: "true", ours: []string{"hugetlb.enforce_default"}, read: set("hugetlb.enforce_default", truthOf), note: "without it the stock hook fails every job where hugetlb is enabled"},
	{name: "cgroup.hugetlb.enforce_defaults", read: notNeeded, note: "the stock hook's own default has this name by mistake, and nothing reads it"},
	{name: "cgroup.hugetlb.exclhost_ignore_default", stock: "false", ours: []string{"hugetlb.exclhost_ignore_default"}, read: set("hugetlb.exclhost_ignore_default", truthOf)},
	{name: "cgroup.hugetlb.reserve_percent", stock: "0", ours: []string{"hugetlb.reserve_percent"}, read: set("hugetlb.reserve_percent", whole), note: "a fraction is cut off, as in the stock hook"},
	{name: "cgroup.hugetlb.reserve_amount", stock: `"0MB"`, ours: []string{"hugetlb.reserve_amount"}, read: set("hugetlb.reserve_amount", size)},
	{name: "cgroup.hugetlb.vnode_hidden_mb", stock: "1", ours: []string{"hugetlb.vnode_hidden"}, read: set("hugetlb.vnode_hidden", megabytes), note: "MB become a size"},
})

// switches are the keys that every section has, and those that the stock hook takes no notice of in
// "cgroup" itself, which is no controller.
func switches() []key {
	var list []key
	for _, name := range append(strings.Fields(patternLists), "enabled") {
		list = append(list, key{name: "cgroup." + name, read: notNeeded, note: "the stock hook takes no notice of it here"})
	}
	for _, s := range sections {
		on := key{name: join("cgroup."+s.name, "enabled"), stock: "false", note: s.note, read: s.read}
		of := key{read: notNeeded, note: s.note}
		if s.ours != "" {
			on.ours = []string{s.ours + ".enabled"}
			of = key{ours: on.ours}
		}
		list = append(list, on)
		for _, name := range strings.Fields(patternLists) {
			of.name = join("cgroup."+s.name, name)
			list = append(list, of)
		}
		list = append(list, key{name: join("cgroup."+s.name, "mount_path"), read: mountPath, note: alwaysFound})
	}
	return list
}

// known returns the key of that name.
func known(name string) (key, bool) {
	i := slices.IndexFunc(keys, func(k key) bool { return k.name == name })
	if i < 0 {
		return key{}, false
	}
	return keys[i], true
}
