package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
)

// use is how the configuration uses a controller.
type use struct {
	name, section string
	enabled       bool   // the section is enabled
	does, without string // its effect, and the effect of a section that is not enabled
}

func (k *kernel) uses() []use {
	c := k.cfg
	const counted = "jobs are not throttled on block devices, only counted"
	v2, io := k.tree.Mode() == cgroup.ModeV2, "jobs are throttled on block devices"
	switch {
	case !c.IO.Enabled:
		io = "[io] is not enabled: " + counted
	case len(c.IO.Max) == 0:
		io = "max of [io] names no device: jobs are not throttled"
	}
	uses := []use{
		{"memory", "[memory]", c.Memory.Enabled, memoryUse(c), "mem is not enforced"},
		{"cpuset", "[cpuset]", c.Cpuset.Enabled, "jobs get separate cpus", "jobs do not get separate cpus"},
		{"cpu", "[cpu]", c.CPU.Enabled, "cpu time is shared by ncpus", "cpu time is not shared by ncpus"},
		{"pids", "[pids]", c.Pids.Enabled, pidsUse(c), "the number of tasks is not limited"},
		{"hugetlb", "[hugetlb]", c.Hugetlb.Enabled, "hpmem is enforced by the kernel", "hpmem is not enforced"},
		{"io", "[io]", c.IO.Enabled || v2, io, counted}, // on v1, blkio counts
	}
	for _, name := range c.Placing() {
		if name == "blkio" && !c.Blkio.Enabled && (k.tree.Has("io") || v2) {
			continue // it is io
		}
		uses = append(uses, use{name: name, section: "[" + name + "]", enabled: true, does: k.places(name)})
	}
	for _, name := range c.Controllers() {
		if !slices.ContainsFunc(uses, func(u use) bool { return u.name == name }) {
			does := "jobs are limited by it"
			uses = append(uses, use{name: name, section: "[" + name + "]", enabled: true, does: does})
		}
	}
	return uses
}

func memoryUse(c *config.File) string {
	const kernel = "mem is enforced by the kernel, page cache included"
	switch c.Memory.Enforce {
	case "rss":
		return `enforce = "rss" in [memory]: rss is sampled, page cache is not counted; the kernel limits both together`
	case "both":
		return kernel + "; rss is sampled as well"
	}
	return kernel
}

func pidsUse(c *config.File) string {
	switch c.Pids.Max {
	case config.PidsByCPUs:
		return fmt.Sprintf("a job may have its share, by cpus, of all jobs' tasks, at least %d", config.LeastPart)
	case 0:
		return "the tasks of a job are limited only if it requests that (-l pids=N): max = 0 in [pids]"
	}
	return fmt.Sprintf("a job may have %d tasks", c.Pids.Max)
}

// places returns the controller in which a job has a cgroup for name.
func (k *kernel) places(name string) string {
	switch controllers := k.tree.Controllers(); {
	case slices.Contains(controllers, name) && name == "blkio":
		return "the bytes that each job reads from and writes to disks are counted"
	case slices.Contains(controllers, name):
		return "each job has a cgroup in it"
	case name == "blkio":
		return "it is io on cgroup v2, and each job has a cgroup in that"
	}
	return "each cgroup of the v2 tree is in it"
}

// examineController reports whether a controller is available to jobs, and if not, why. What is not
// enabled needs no controller.
func (k *kernel) examineController(u use) Finding {
	what := u.name + " controller"
	switch {
	case !u.enabled:
		return ok(what, u.section+" is not enabled: "+u.without)
	case k.tree.Has(u.name):
		return ok(what, u.does)
	}
	found, advice := k.whyNot(u.name)
	if !slices.Contains(append(k.cfg.Limiting(), k.cfg.Required()...), u.name) {
		return degraded(what, found+"; no configured limit needs it", advice)
	}
	return blocking(what, found, advice+"; or set enabled = false in "+u.section)
}

// kernelConfig holds the kernel option that a controller needs, if it is not CONFIG_CGROUP_ and the
// controller's name.
var kernelConfig = map[string]string{
	"memory": "CONFIG_MEMCG", "cpuset": "CONFIG_CPUSETS", "cpu": "CONFIG_CGROUP_SCHED",
	"io": "CONFIG_BLK_CGROUP", "blkio": "CONFIG_BLK_CGROUP", "net_cls": "CONFIG_CGROUP_NET_CLASSID",
	"perf_event": "CONFIG_CGROUP_PERF", "devices": "CONFIG_CGROUP_DEVICE",
}

// whyNot returns why jobs do not get a controller, and what to do about it.
func (k *kernel) whyNot(name string) (found, advice string) {
	v2 := k.tree.Mode() == cgroup.ModeV2
	if name == "blkio" && v2 {
		return k.whyNot("io")
	}
	called := name // its name in /proc/cgroups
	if name == "io" {
		called = "blkio"
	}
	c, known := k.controllers[called]
	unit := k.cfg.Cgroup.Prefix + ".service"
	mount := fmt.Sprintf("mkdir /sys/fs/cgroup/%s && mount -t cgroup -o %[1]s none /sys/fs/cgroup/%[1]s", name)
	switch {
	case known && c.Enabled == 0:
		return "disabled at boot", fmt.Sprintf("boot with cgroup_enable=%s, without cgroup_disable=%[1]s", name)
	case slices.Contains(k.words("cgroup.subtree_control"), name):
		return fmt.Sprintf("the root of the v2 tree passes it down, but %s does not get it", unit),
			"that unit needs Delegate=yes: systemctl edit " + unit + ", or delete its unit file"
	case slices.Contains(k.words("cgroup.controllers"), name):
		return "jobs do not get it: the kernel offers it on v2, but the root of that tree " +
				"does not pass it down (cgroup.subtree_control)",
			fmt.Sprintf("set enable_controllers = [%q] in [cgroup]", name)
	case strings.HasPrefix(name, "net_") && known && c.Hierarchy == 0:
		return "cgroup v2 has no such controller, and that of v1 is not mounted",
			mount + `; or have packets matched by the path of a job's cgroup (nft: socket cgroupv2)`
	case name == "io" && !v2:
		return "io.max needs the io controller of cgroup v2, which is missing", bootV2
	case known && c.Hierarchy == 0 && !v2:
		return "the kernel has it, but it is not mounted", mount
	case known && c.Hierarchy != 0:
		return "bound to a v1 hierarchy that is not mounted below /sys/fs/cgroup",
			"umount it, or boot with cgroup_no_v1=" + name
	}
	option := cmp.Or(kernelConfig[name], "CONFIG_CGROUP_"+strings.ToUpper(name))
	return "the kernel does not have it", "use a kernel with " + option
}
