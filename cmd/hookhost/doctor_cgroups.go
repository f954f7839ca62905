package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/internal/cgroup"
)

// initialCgroupNamespace is the number of the namespace that a kernel boots with (PROC_CGROUP_INIT_INO).
const initialCgroupNamespace = "cgroup:[4026531835]"

// cgroupNamespace returns which cgroup namespace this process is in; "" where the kernel does not tell.
func cgroupNamespace() string {
	link, err := os.Readlink("/proc/self/ns/cgroup")
	if err != nil {
		return ""
	}
	return link
}

// bootV2 is how a node gets all controllers on v2.
const bootV2 = "boot with systemd.unified_cgroup_hierarchy=1; without systemd, with cgroup_no_v1=all"

// examineCgroups looks at how cgroups are mounted, who owns them and which controllers jobs get.
func (k *kernel) examineCgroups(namespace string) []finding {
	findings := []finding{k.examineMode()}
	if f, odd := k.examineNamespace(namespace); odd {
		findings = append(findings, f)
	}
	if f, odd := k.examineNesting(); odd {
		findings = append(findings, f)
	}
	if err := k.trusted(); err != nil {
		findings = append(findings, blocking("attributes of cgroups", err.Error(), "give hookhost CAP_SYS_ADMIN; without trusted.* attributes no cgroup says whose it is"))
	}
	for _, c := range k.uses() {
		findings = append(findings, k.examineController(c))
	}
	return findings
}

// use is what the configuration makes of a controller.
type use struct {
	name    string
	needed  bool   // a job's begin fails without it
	section string // that can turn it off
	does    string // what it is for, or that it is off
}

func (k *kernel) uses() []use {
	c := k.cfg
	memory := use{"memory", c.Memory.Enabled && c.Memory.Enforce != "rss", "[memory]", "mem is enforced by the kernel, page cache included"}
	switch {
	case c.Memory.Enforce == "rss":
		memory.does = `enforce = "rss" in [memory]: the kernel does not limit mem; rss is sampled, page cache is not counted`
	case c.Memory.Enforce == "both":
		memory.does += "; rss is sampled as well"
	}
	pids := use{"pids", c.Pids.Enabled && c.Pids.Max > 0, "[pids]", fmt.Sprintf("a job may have %d tasks", c.Pids.Max)}
	if c.Pids.Max == 0 {
		pids.does = "the number of tasks is bounded only where a job asks for it (-l pids=N): max = 0 in [pids]"
	}
	io := use{"io", c.IO.Enabled && len(c.IO.Max) > 0, "[io]", "jobs are throttled on block devices"}
	if len(c.IO.Max) == 0 {
		io.does = "max of [io] names no device: jobs are not throttled"
	}
	uses := []use{memory,
		{"cpuset", c.Cpuset.Enabled, "[cpuset]", "jobs have cpus of their own"},
		{"cpu", c.CPU.Enabled, "[cpu]", "cpu time is shared by ncpus"}, pids,
		{"hugetlb", c.Hugetlb.Enabled, "[hugetlb]", "hpmem is enforced by the kernel"}, io}
	for i, off := range []struct {
		enabled bool
		effect  string
	}{{c.Memory.Enabled, "mem is not enforced"}, {c.Cpuset.Enabled, "jobs have no cpus of their own"}, {c.CPU.Enabled, "cpu time is not shared by ncpus"},
		{c.Pids.Enabled, "the number of tasks is not bounded"}, {c.Hugetlb.Enabled, "hpmem is not enforced"}, {c.IO.Enabled, "jobs are not throttled on block devices"}} {
		if !off.enabled {
			uses[i].does = uses[i].section + " is not enabled: " + off.effect
		}
	}
	for _, name := range c.Placing() {
		uses = append(uses, use{name, true, "[" + name + "]", k.places(name)})
	}
	return uses
}

// places tells in which controller a job has a cgroup for name.
func (k *kernel) places(name string) string {
	switch controllers := k.tree.Controllers(); {
	case slices.Contains(controllers, name):
		return "each job has a cgroup in it"
	case name == "blkio":
		return "it is io on cgroup v2, and each job has a cgroup in that"
	}
	return "each cgroup of the v2 tree is in it"
}

func (k *kernel) examineMode() finding {
	switch k.tree.Mode() {
	case cgroup.ModeHybrid:
		var v1, v2 []string
		for _, c := range k.tree.Controllers() {
			if slices.Contains(k.words("cgroup.controllers"), c) {
				v2 = append(v2, c)
			} else {
				v1 = append(v1, c)
			}
		}
		return k.examineMoves(ok("cgroups", fmt.Sprintf("hybrid: jobs get %s on v1 and %s on v2; the v2 tree also serves to kill, freeze and start processes", list(v1), list(v2))))
	case cgroup.ModeV1:
		return degraded("cgroups", "v1 only: jobs are killed process by process and moved by pid", "mount -t cgroup2 none /sys/fs/cgroup/unified; better, "+bootV2)
	}
	return k.examineMoves(ok("cgroups", "v2"))
}

// examineMoves adds to what is known of a v2 tree how long the kernel takes to move a process.
func (k *kernel) examineMoves(f finding) finding {
	switch wanted := k.cfg.Cgroup.FavorDynmods; {
	case k.mounted("favordynmods"):
		f.Found += "; processes are moved without a wait (favordynmods), fork and exit take a little longer"
	case wanted && !k.since(6, 0):
		return degraded(f.What, f.Found+"; favordynmods = true in [cgroup] has no effect", "Linux 6.0 or newer; or take it out")
	case wanted:
		return degraded(f.What, f.Found+"; favordynmods = true in [cgroup] is not in force", "systemctl restart hookhost, in the host's cgroup namespace; its log says why if that does not help")
	case k.since(6, 0):
		f.Found += "; the first process in a while that is moved into a job (attach, launch by pbs_mom) waits some milliseconds for the kernel"
		f.Advice = "favordynmods = true in [cgroup] takes the wait away and makes fork and exit a little slower: for nodes of many short jobs"
	}
	return f
}

func list(words []string) string {
	if len(words) == 0 {
		return "no controller"
	}
	return strings.Join(words, ", ")
}

// mounted tells whether a cgroup2 mount has an option.
func (k *kernel) mounted(option string) bool {
	return slices.ContainsFunc(k.mounts, func(m cgroupMount) bool {
		return m.v2 && slices.Contains(strings.Split(m.super, ","), option)
	})
}

// examineNamespace tells what a container makes of the tree; odd is false on a plain node.
func (k *kernel) examineNamespace(namespace string) (f finding, odd bool) {
	for _, m := range k.mounts {
		if m.root != "/" {
			return degraded("cgroup namespace", fmt.Sprintf("%s shows %s of the hierarchy only: this is a container", m.point, m.root),
				"limits of the container hold for all jobs together; run hookhost on the host, or mount the host's /sys/fs/cgroup into the container"), true
		}
	}
	if namespace != "" && namespace != initialCgroupNamespace {
		return degraded("cgroup namespace", "this process is in a cgroup namespace of its own ("+namespace+"): what it sees as the root is a part of the host's tree",
			"run hookhost in the host's cgroup namespace (docker run --cgroupns=host, podman run --cgroupns=host)"), true
	}
	return finding{}, false
}

// examineNesting tells whether the tree that is seen here is somebody's to change; odd is false on a plain node.
func (k *kernel) examineNesting() (f finding, odd bool) {
	const what = "place in the tree"
	for _, m := range k.mounts {
		if m.readOnly {
			return blocking(what, m.point+" is mounted read-only, as in a container: no cgroup can be made", "mount -o remount,rw "+m.point+"; for a container, give it the host's /sys/fs/cgroup read-write"), true
		}
	}
	// The root of a hierarchy has no type (cgroup-v2.rst): what has one lies below something else.
	if k.v2 == nil || !k.v2.Exists("cgroup.type") {
		return finding{}, false
	}
	if pids, err := k.v2.ReadFile("cgroup.procs"); err == nil && len(pids) > 0 && len(k.words("cgroup.subtree_control")) == 0 {
		return degraded(what, "what is seen as the root of the v2 tree is a cgroup with processes in it: it can pass no controller down",
			"give the unit or container that hookhost is in Delegate=yes and move its processes into a cgroup below (DelegateSubgroup=, systemd 254)"), true
	}
	return degraded(what, "what is seen as the root of the v2 tree lies below something else, whose limits hold for all jobs together",
		"run hookhost on the host; or give the unit or container that it is in Delegate=yes, and no limits"), true
}

// kernelConfig is what a kernel has to be built with for a controller.
var kernelConfig = map[string]string{
	"memory": "CONFIG_MEMCG", "cpuset": "CONFIG_CPUSETS", "cpu": "CONFIG_CGROUP_SCHED", "pids": "CONFIG_CGROUP_PIDS",
	"hugetlb": "CONFIG_CGROUP_HUGETLB", "io": "CONFIG_BLK_CGROUP", "blkio": "CONFIG_BLK_CGROUP",
	"net_cls": "CONFIG_CGROUP_NET_CLASSID", "net_prio": "CONFIG_CGROUP_NET_PRIO", "perf_event": "CONFIG_CGROUP_PERF",
	"rdma": "CONFIG_CGROUP_RDMA",
}

// examineController tells why a controller does not reach the jobs, if it does not.
func (k *kernel) examineController(c use) finding {
	what := c.name + " controller"
	if k.tree.Has(c.name) {
		return ok(what, c.does)
	}
	found, advice := k.whyNot(c.name)
	if !c.needed {
		return impossible(what, found+"; nothing configured needs it", advice)
	}
	return blocking(what, found, advice+"; or set enabled = false in "+c.section)
}

// whyNot returns why jobs do not get a controller, and what to do about it.
func (k *kernel) whyNot(name string) (found, advice string) {
	old := map[string]string{"io": "blkio"}[name] // as /proc/cgroups has it
	if old == "" {
		old = name
	}
	unit := k.cfg.Cgroup.Prefix + ".service"
	mount := fmt.Sprintf("mkdir /sys/fs/cgroup/%s && mount -t cgroup -o %[1]s none /sys/fs/cgroup/%[1]s", name)
	if name == "blkio" && k.tree.Mode() == cgroup.ModeV2 {
		return k.whyNot("io")
	}
	switch {
	case k.known[old] == "0":
		return "disabled at boot", fmt.Sprintf("boot with cgroup_enable=%s, without cgroup_disable=%s", name, name)
	case slices.Contains(k.words("cgroup.subtree_control"), name):
		return fmt.Sprintf("the root of the v2 tree passes it down, but %s does not get it", unit), "that unit needs Delegate=yes: systemctl edit " + unit + ", or delete its unit file"
	case slices.Contains(k.words("cgroup.controllers"), name):
		return "jobs do not get it: the kernel offers it on v2, but the root of that tree does not pass it down (cgroup.subtree_control)", fmt.Sprintf("set enable_controllers = [%q] in [cgroup]", name)
	case strings.HasPrefix(name, "net_") && k.known[name] == "1" && k.bound[name] == "0":
		return "cgroup v2 has no such controller, and that of v1 is not mounted", mount +
			`; or have packets matched by the path of a job's cgroup (nft: socket cgroupv2)`
	case name == "io" && k.tree.Mode() != cgroup.ModeV2:
		return "io.max is cgroup v2's, and the controller is not there", bootV2
	case k.known[old] == "1" && k.bound[old] == "0" && k.tree.Mode() != cgroup.ModeV2:
		return "the kernel has it, but it is not mounted", mount
	case k.known[old] == "1" && k.bound[old] != "0":
		return "bound to a v1 hierarchy that is not mounted below /sys/fs/cgroup", "umount it, or boot with cgroup_no_v1=" + name
	}
	return "the kernel has none", "use a kernel with " + kernelConfig[name]
}

// examineFeatures looks at what single interface files make possible.
func (k *kernel) examineFeatures() []finding {
	feature := func(what, name, file, yes, no, advice string) finding {
		there, notYet := k.has(file)
		switch {
		case k.tree.Has(name) || there:
			return ok(what, yes)
		case notYet:
			return unknown(what)
		}
		return degraded(what, no, advice)
	}
	findings := []finding{
		feature("cgroup.kill", "kill", "cgroup.kill", "a job of any size is killed in one step", "jobs are killed process by process", "Linux 5.14 or newer, with a cgroup v2 tree mounted"),
		feature("freezer", "freeze", "cgroup.freeze", "jobs can be suspended in one step", "suspended jobs get SIGSTOP only", "Linux 5.2 or newer with a cgroup v2 tree, or the v1 freezer"),
	}
	findings = append(findings, k.examineIsolated(feature("isolated cpus", "isolated", "cpuset.cpus.exclusive",
		"cpus of a job can be taken out of load balancing", "not with this kernel", "Linux 6.7 or newer")))
	clone := ok("birth in the cgroup", "the first process of a job starts inside it (CLONE_INTO_CGROUP)")
	switch {
	case !k.tree.Has("clone"):
		clone = ok("birth in the cgroup", "by a thread that enters the v1 cgroups first")
	case !k.since(5, 7):
		clone = degraded("birth in the cgroup", "processes are moved into the v2 tree by pid", "Linux 5.7 or newer")
	}
	return append(findings, clone)
}

// examineIsolated tells what becomes of isolated = true: where the controllers are on v1 it is passed over, while on v2 a
// kernel that cannot do it refuses every job with cpus.
func (k *kernel) examineIsolated(f finding) finding {
	configured := k.cfg.Cpuset.Enabled && k.cfg.Cpuset.Isolated
	switch {
	case k.tree.Mode() != cgroup.ModeV2:
		f = impossible(f.What, "they need cgroup v2", bootV2)
		if configured {
			f.Found += ": isolated = true in [cpuset] has no effect"
		}
	case f.Status == statusOK && configured:
		f.Found = "the cpus of jobs are taken out of load balancing"
	case f.Status == statusDegraded && configured:
		f = blocking(f.What, f.Found+": isolated = true in [cpuset] has every job refused", f.Advice+"; or set isolated = false in [cpuset]")
	case f.Status == statusDegraded:
		f.Status = statusImpossible
	}
	return f
}
