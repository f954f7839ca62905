package pbscgroups

import "slices"

// key is a key of the stock configuration and its counterpart in ours.
type key struct {
	name  string   // "cgroup.memory.default"
	stock string   // default of the stock code, as JSON (parse_config_file); "" for none
	ours  []string // keys of hookhost.toml that depend on it
	note  string   // what differs, or why ours has no such key
	read  reader
}

// as returns a key that corresponds to one of ours, with its value spelled differently.
func as(name, stock, ours string, spell func(any) (string, error), note string) key {
	return key{name: name, stock: stock, ours: []string{ours}, read: spelled(ours, spell), note: note}
}

// reader returns the outcome for a value. It fails for a value of the wrong type.
type reader func(v any) (outcome, error)

const alwaysFound = "hookhost finds the mounts of all controllers in the mount table"

const onlyV1Has = "cgroup v1 only; the v1 hierarchy may be mounted beside cgroup v2; " +
	"a node without it cannot run jobs, and doctor reports that"

// controller is a section of the stock configuration.
type controller struct {
	name string
	ours string // section of hookhost.toml; "" for none
	note string // of its switch

	on *setting // set together with the switch where that may be on
}

// sections are the sections of the stock configuration, in its order.
var sections = []controller{
	{name: "cpu", ours: "cpu"},
	{name: "cpuacct", note: "the cpu time of a job is always counted"},
	{name: "cpuset", ours: "cpuset"},
	{name: "devices", ours: "devices", note: "in addition to allow, jobs may open a base list: docs/devices.md"},
	{name: "memory", ours: "memory"},
	{name: "memsw", ours: "memsw",
		note: "if memory is not enabled, a job that does not request vmem has no limit; in the stock hook its limit " +
			"is all that the host has; without memsw, vnodes report their mem as vmem"},
	{name: "hugetlb", ours: "hugetlb",
		note: "covers every size of huge pages that the kernel has, in the stock hook only 2 MB; vnodes report " +
			"hpmem only if this is on"},
	{name: "blkio", ours: "blkio", note: "on cgroup v2 this is io; limits on block devices are in [io]"},
	{name: "freezer", note: "jobs are always frozen if the kernel can do so"},
	{name: "net_cls", ours: "net_cls", note: onlyV1Has},
	{name: "net_prio", ours: "net_prio", note: onlyV1Has},
	{name: "perf_event", ours: "perf_event", note: "on cgroup v2 every cgroup is in it"},
	{name: "pids", ours: "pids", on: &setting{"pids.max", "0"},
		note: "with pids.max = 0, a job has a limit only if it requests -l pids=N; all jobs together always have a " +
			"limit (reserve_percent)"},
	{name: "rdma", ours: "rdma",
		note: "with cgroup v2 and systemd, enable_controllers of [cgroup] must have it too"},
}

// keys are all keys that the stock hook reads (openpbs pbs_cgroups.PY), in the order of
// docs/openpbs-migration.md and of the result.
var keys = slices.Concat(switchKeys("", "true", "host.enabled is true where this and at least one controller are "+
	"enabled; elsewhere the stock hook does nothing at all", "host.enabled"), sectionKeys(), []key{
	as("cgroup_prefix", `"pbs_jobs"`, "cgroup.prefix", text,
		"used as it is; the stock hook escapes it as systemd-escape does"),
	{name: "cgroup_lock_file", read: became(NotNeeded, isText),
		note: "hookhost locks one job, or briefly its table, and never while it waits for the server"},
	as("periodic_resc_update", "false", "vnodes.periodic_resc_update", boolean, ""),
	as("vnode_per_numa_node", "false", "vnodes.vnode_per_numa_node", boolean,
		"NUMA nodes that have neither cpus nor memory do not become vnodes"),
	as("online_offlined_nodes", "false", "vnodes.online_offlined_nodes", boolean, ""),
	as("online_nodes_min_delay", "30", "vnodes.online_nodes_min_delay", secondsOrText,
		"seconds become a duration; at most 24h"),
	as("use_hyperthreads", "false", "cpuset.use_hyperthreads", boolean, ""),
	as("ncpus_are_cores", "false", "cpuset.ncpus_are_cores", boolean, ""),
	{name: "placement_type", stock: `"load_balanced"`, ours: []string{"cpuset.placement"}, read: placement,
		note: "load_balanced is spread, load_packed is pack; hookhost also prefers the smallest part of the " +
			"machine that fits: docs/placement.md"},
	as("discover_gpus", "true", "devices.discover_gpus", boolean, "accelerators of other vendors are found too"),
	{name: "nvidia-smi", stock: `"/usr/bin/nvidia-smi"`, ours: []string{"devices.discover_gpus"}, read: nvidiaSMI,
		note: "hookhost queries NVIDIA's library instead of this program; " +
			"if empty, discover_gpus = false, as in the stock hook"},
	as("kill_timeout", "10", "cgroup.kill_timeout", seconds,
		"seconds become a duration; 100ms to 50s, so that it fits into the hook's alarm"),
	{name: "server_timeout", stock: "15", read: became(NotNeeded, isNumber),
		note: "the shim queries the server, within the hook's alarm"},
	{name: "job_setup_timeout", stock: "30", read: became(NotNeeded, isNumber),
		note: "hookhost knows its jobs from begin to end"},
	as("propagate_vntype_to_server", "true", "vnodes.propagate_vntype_to_server", boolean, ""),
	as("manage_rlimit_as", "true", "memory.manage_rlimit_as", boolean, ""),
	as("cgroup.cpu.cfs_period_us", "100000", "cpu.cfs_period", microseconds,
		"microseconds become a duration; 1ms to 1s"),
	as("cgroup.cpu.cfs_quota_fudge_factor", "1.03", "cpu.cfs_quota_fudge_factor", float, ""),
	as("cgroup.cpu.enforce_per_period_quota", "false", "cpu.enforce_per_period_quota", boolean, ""),
	as("cgroup.cpu.zero_cpus_shares_fraction", "0.002", "cpu.zero_cpus_shares_fraction", sharesFraction,
		"at least 0.002, the kernel's minimum, as in the stock hook"),
	as("cgroup.cpu.zero_cpus_quota_fraction", "0.2", "cpu.zero_cpus_quota_fraction", float, ""),
	as("cgroup.cpuset.exclude_cpus", "[]", "cpuset.exclude_cpus", cpus, ""),
	as("cgroup.cpuset.mem_fences", "true", "cpuset.mem_fences", boolean,
		"false by default in hookhost, as in the file that OpenPBS ships"),
	as("cgroup.cpuset.mem_hardwall", "false", "cpuset.mem_hardwall", boolean,
		"cgroup v1 only; v2 confines only the memory of programs"),
	as("cgroup.cpuset.memory_spread_page", "false", "cpuset.memory_spread_page", boolean, "cgroup v1 only"),
	as("cgroup.cpuset.allow_zero_cpus", "true", "cpuset.allow_zero_cpus", boolean, ""),
	{name: "cgroup.devices.allow", stock: "[]", ours: []string{"devices.allow"}, read: allow,
		note: `an entry that would let every job open a device that is assigned to single jobs is left out ` +
			`on that host, such as "c *:* rwm" on a host with GPUs: docs/devices.md`},
	as("cgroup.memory.soft_limit", "false", "memory.soft_limit", boolean,
		"on cgroup v2 with memory.low: docs/openpbs-migration.md"),
	as("cgroup.memory.default", `"0MB"`, "memory.default", size,
		"0 means all that the host can give; in the stock hook it is a limit with which no job can run"),
	as("cgroup.memory.enforce_default", "true", "memory.enforce_default", boolean, ""),
	as("cgroup.memory.exclhost_ignore_default", "false", "memory.exclhost_ignore_default", boolean, ""),
	as("cgroup.memory.reserve_percent", "0", "memory.reserve_percent", whole,
		"2 by default in hookhost; a fraction is cut off, as in the stock hook"),
	as("cgroup.memory.reserve_amount", `"0MB"`, "memory.reserve_amount", size, ""),
	as("cgroup.memory.vnode_hidden_mb", "1", "memory.vnode_hidden", megabytes, "MB become a size"),
	as("cgroup.memory.swappiness", "1", "memory.swappiness", whole,
		"set for each job, in the stock hook for their parent; cgroup v1 only"),
	as("cgroup.memsw.default", `"0MB"`, "memsw.default", size, ""),
	as("cgroup.memsw.enforce_default", "true", "memsw.enforce_default", boolean, ""),
	as("cgroup.memsw.exclhost_ignore_default", "false", "memsw.exclhost_ignore_default", boolean, ""),
	as("cgroup.memsw.reserve_percent", "0", "memsw.reserve_percent", whole,
		"a fraction is cut off, as in the stock hook"),
	as("cgroup.memsw.reserve_amount", `"0MB"`, "memsw.reserve_amount", size, ""),
	as("cgroup.memsw.vnode_hidden_mb", "1", "memsw.vnode_hidden", megabytes,
		"MB become a size; the stock hook hides it only on vnodes of NUMA nodes"),
	as("cgroup.memsw.manage_cgswap", "false", "memsw.manage_cgswap", boolean,
		"nodes report cgswap; a hook of the server fills in requests: hookhost openpbs install --cgswap"),
	as("cgroup.hugetlb.default", `"0MB"`, "hugetlb.default", size, ""),
	as("cgroup.hugetlb.enforce_default", "true", "hugetlb.enforce_default", boolean,
		"without it, the stock hook fails every job if hugetlb is enabled"),
	{name: "cgroup.hugetlb.enforce_defaults", read: became(NotNeeded, isAny),
		note: "the stock hook's defaults have this name by mistake; nothing reads it"},
	as("cgroup.hugetlb.exclhost_ignore_default", "false", "hugetlb.exclhost_ignore_default", boolean, ""),
	as("cgroup.hugetlb.reserve_percent", "0", "hugetlb.reserve_percent", whole,
		"a fraction is cut off, as in the stock hook"),
	as("cgroup.hugetlb.reserve_amount", `"0MB"`, "hugetlb.reserve_amount", size, ""),
	as("cgroup.hugetlb.vnode_hidden_mb", "1", "hugetlb.vnode_hidden", megabytes, "MB become a size"),
})

// switches are keys that every section has. Together they make one condition.
var switches = []string{"enabled", "exclude_hosts", "exclude_vntypes", "include_hosts", "run_only_on_hosts"}

// switchKeys returns the switches of a section. ours is empty if hookhost has no such section.
func switchKeys(section, stock, note string, ours ...string) []key {
	is := Ours
	if len(ours) == 0 {
		is = NotNeeded
	}
	patterns := func(v any) (outcome, error) {
		if list, isList := v.([]any); isList && len(list) == 0 {
			return outcome{became: NotNeeded, why: "it is empty"}, nil
		}
		return outcome{became: is}, arePatterns(v)
	}
	list := []key{{name: join(section, "enabled"), stock: stock, ours: ours, note: note,
		read: became(is, isCondition)}}
	for _, name := range switches[1:] {
		list = append(list, key{name: join(section, name), ours: ours[:min(1, len(ours))], read: patterns})
	}
	return list
}

// sectionKeys returns the switches of all sections. It includes those of "cgroup" itself, which is
// not a controller: the stock hook ignores them.
func sectionKeys() []key {
	var list []key
	for _, name := range switches {
		list = append(list, key{name: "cgroup." + name, read: became(NotNeeded, isAny),
			note: "the stock hook ignores it here"})
	}
	for _, s := range sections {
		var ours []string
		if s.ours != "" {
			ours = []string{s.ours + ".enabled"}
		}
		if s.on != nil {
			ours = append(ours, s.on.key)
		}
		list = append(list, switchKeys("cgroup."+s.name, "false", s.note, ours...)...)
		list = append(list, key{name: join("cgroup."+s.name, "mount_path"), read: mountPath, note: alwaysFound})
	}
	return list
}
