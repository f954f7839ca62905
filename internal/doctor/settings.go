package doctor

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
)

// examineSettings reports individual settings that this node cannot carry out. A setting that it
// can carry out, or that has its default, is not a finding.
func (k *kernel) examineSettings() []Finding {
	return slices.Concat(k.examineEnabled(), k.examineDelegate(), k.examineHigh(), k.examineDevices(),
		k.examineFlags(), k.examineSoftLimit(), k.examineCgswap())
}

// examineEnabled reports which of enable_controllers the v2 tree cannot delegate.
func (k *kernel) examineEnabled() []Finding {
	there := k.words("cgroup.controllers")
	var missing []string
	for _, c := range k.cfg.Cgroup.EnableControllers {
		if !slices.Contains(there, c) && (k.tree.Mode() == cgroup.ModeV2 || !k.tree.Has(c)) {
			missing = append(missing, c)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	const what = "enable_controllers"
	found := strings.Join(missing, ", ") + ": the v2 tree has no such controller (cgroup.controllers)"
	advice := "remove it from enable_controllers in [cgroup], or use a kernel that has it"
	if k.tree.Mode() == cgroup.ModeV2 { // Prepare fails
		return []Finding{blocking(what, found+", and no job can begin", advice)}
	}
	return []Finding{impossible(what, found+"; the setting has no effect", advice)}
}

// examineDelegate reports whether jobs' owners get a cgroup.
func (k *kernel) examineDelegate() []Finding {
	const what, lost = "delegate", "delegate in [cgroup] has no effect: "
	kill, unknown := k.has("cgroup.kill")
	switch {
	case !k.cfg.Cgroup.Delegate:
		return nil
	case k.tree.Mode() != cgroup.ModeV2:
		return []Finding{impossible(what, lost+"it needs cgroup v2 without v1 controllers", bootV2)}
	case !kill && !unknown:
		return []Finding{impossible(what, lost+"it needs cgroup.kill, which is in Linux 5.14", "use a newer kernel")}
	}
	f := ok(what, "the owner of a job may divide its memory, cpu time and tasks in cgroups below it")
	if !slices.ContainsFunc(k.mounts, func(m cgroup.Mount) bool { return slices.Contains(m.Options, "nsdelegate") }) {
		f.Found += "; containers may move processes out of their cgroup namespaces, not out of the job"
		f.Advice = "mount -o remount,nsdelegate " + k.v2.Path(".") + ", as systemd does"
	}
	return []Finding{f}
}

func (k *kernel) examineHigh() []Finding {
	const what, setting = "high_percent", "high_percent in [memory] has no effect: "
	switch {
	case k.cfg.Memory.HighPercent == 0:
		return nil
	case !k.cfg.Memory.Enabled:
		return []Finding{degraded(what, setting+"[memory] is not enabled", "set enabled = true in [memory]")}
	case k.cfg.Memory.Enforce == "rss":
		return []Finding{degraded(what, setting+`the kernel does not limit mem with enforce = "rss"`,
			`set enforce = "both" or "cgroup" in [memory]`)}
	case k.tree.Mode() != cgroup.ModeV2:
		return []Finding{impossible(what, setting+"memory.high needs cgroup v2", bootV2)}
	}
	return nil
}

// examineFlags reports flags of cpuset that are set but do not exist on cgroup v2.
func (k *kernel) examineFlags() []Finding {
	c := k.cfg.Cpuset
	if !c.Enabled || !k.tree.Has("cpuset") {
		return nil
	}
	const lost = " in [cpuset] has no effect: cgroup v2 has no such flag: "
	var findings []Finding
	if c.MemHardwall && !k.tree.Has("hardwall") {
		findings = append(findings, impossible("mem_hardwall", "mem_hardwall"+lost+
			"the memory of a job's programs is on its NUMA nodes, but the kernel's memory for it may be on others",
			"set mem_hardwall = false in [cpuset]; or boot with cgroup v1"))
	}
	if c.MemorySpreadPage && !k.tree.Has("spread") {
		findings = append(findings, impossible("memory_spread_page", "memory_spread_page"+lost+
			"page cache is on the NUMA node of the cpu that reads",
			"set memory_spread_page = false in [cpuset], and have programs spread memory with numactl --interleave; "+
				"or boot with cgroup v1"))
	}
	return findings
}

func (k *kernel) examineCgswap() []Finding {
	if !k.cfg.Memsw.ManageCgswap || k.cfg.Memsw.Enabled {
		return nil
	}
	return []Finding{degraded("manage_cgswap", "manage_cgswap in [memsw] has no effect: [memsw] is not enabled",
		"set enabled = true in [memsw]")}
}

// examineSoftLimit reports the effect of soft_limit = true.
func (k *kernel) examineSoftLimit() []Finding {
	const what = "soft_limit"
	switch {
	case !k.cfg.Memory.SoftLimit:
		return nil
	case !k.cfg.Memory.Enabled:
		return []Finding{degraded(what, "soft_limit in [memory] has no effect: [memory] is not enabled",
			"set enabled = true in [memory]")}
	case !k.tree.Has("memory"): // reported for the controller
		return nil
	}
	yes := "mem is a job's soft limit, vmem its limit"
	if !k.cfg.Memsw.Enabled {
		yes = "mem is a job's soft limit and, without [memsw], its limit"
	}
	f := k.examineFeature(feature{what, "softlimit", "memory.low", yes,
		"this kernel has no soft limit, as with CONFIG_PREEMPT_RT, and no job can begin",
		"set soft_limit = false in [memory]; or boot with cgroup v2"})
	if f.Status == Degraded {
		f = blocking(what, f.Found, f.Advice)
	}
	return []Finding{f}
}

// examineDevices reports the devices of [io] max. The hook does not start if one does not match its
// description. The kernel refuses limits of a job on a missing device (blkg_conf_open_bdev).
func (k *kernel) examineDevices() []Finding {
	if !k.cfg.IO.Enabled {
		return nil
	}
	var wrong []string
	seen := map[string]bool{}
	for _, text := range k.cfg.IO.Max {
		number, err := k.examineDevice(text)
		if err == nil && seen[number] {
			err = fmt.Errorf("%s has a limit already", number)
		}
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("%q: %v", text, err))
		}
		seen[number] = true
	}
	if len(wrong) == 0 {
		return nil
	}
	return []Finding{blocking("io.max", strings.Join(wrong, "; ")+": no job can begin",
		"name whole disks of this node in max of [io] (lsblk -d), or set enabled = false in [io]")}
}

// examineDevice returns the numbers of the device of a setting, MAJOR:MINOR. It fails unless that
// is a whole disk of this node, as far as /sys shows any.
func (k *kernel) examineDevice(setting string) (number string, err error) {
	m, err := config.ParseIOMax(setting)
	if err == nil && m.Path != "" {
		m.Major, m.Minor, err = cgroup.BlockDevice(m.Path)
	}
	if err != nil {
		return "", err
	}
	number = fmt.Sprintf("%d:%d", m.Major, m.Minor)
	const devices = "dev/block"
	switch {
	case !k.roots.Sys.Exists(devices):
		return number, nil
	case !k.roots.Sys.Exists(path.Join(devices, number)):
		return number, fmt.Errorf("there is no block device %s", number)
	}
	return number, cgroup.WholeDisk(k.roots.Sys, m.Major, m.Minor)
}
