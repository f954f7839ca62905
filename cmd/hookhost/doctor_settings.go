package main

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
)

// examineSettings looks at single settings that are made and that this node cannot do. Those that it can do, and those that
// nobody made, are no findings.
func (k *kernel) examineSettings(systemdRuns bool) []finding {
	findings := k.examineEnabled()
	if k.cfg.Memory.HighPercent > 0 {
		findings = append(findings, k.examineHigh()...)
	}
	const low = "services_low"
	switch {
	case k.cfg.Memory.ServicesLow == 0:
	case k.tree.Mode() != cgroup.ModeV2:
		findings = append(findings, impossible(low, "services_low in [memory] has no effect: memory.low needs cgroup v2", bootV2))
	case !systemdRuns:
		findings = append(findings, impossible(low, "services_low in [memory] has no effect: system.slice is systemd's, which is not the first process here",
			"set services_low = \"0b\" in [memory]"))
	}
	if k.cfg.IO.Enabled {
		findings = append(findings, k.examineDevices()...)
	}
	return append(findings, k.examineFlags()...)
}

// examineFlags looks at settings that only one version of cgroups has, or only some kernels.
func (k *kernel) examineFlags() []finding {
	var findings []finding
	c := k.cfg
	for _, flag := range []struct {
		on            bool
		what, feature string
		lost, advice  string
	}{
		{c.Cpuset.Enabled && c.Cpuset.MemHardwall, "mem_hardwall", "hardwall",
			"cgroup v2 has no such flag: the memory of a job's programs is on its NUMA nodes, " +
				"the kernel's own for it may be on others",
			"set mem_hardwall = false in [cpuset]; or boot with cgroup v1"},
		{c.Cpuset.Enabled && c.Cpuset.MemorySpreadPage, "memory_spread_page", "spread",
			"cgroup v2 has no such flag: page cache is on the NUMA node of the cpu that reads",
			"set memory_spread_page = false in [cpuset], and have programs spread memory with numactl --interleave; " +
				"or boot with cgroup v1"},
	} {
		if flag.on && k.tree.Has("cpuset") && !k.tree.Has(flag.feature) {
			found := flag.what + " in [cpuset] has no effect: " + flag.lost
			findings = append(findings, impossible(flag.what, found, flag.advice))
		}
	}
	if c.Memory.SoftLimit {
		findings = append(findings, k.examineSoftLimit()...)
	}
	if c.Memsw.ManageCgswap && !c.Memsw.Enabled {
		findings = append(findings, degraded("manage_cgswap",
			"manage_cgswap in [memsw] has no effect: [memsw] is not enabled", "set enabled = true in [memsw]"))
	}
	return findings
}

// examineSoftLimit tells what becomes of soft_limit = true.
func (k *kernel) examineSoftLimit() []finding {
	const what = "soft_limit"
	there, notYet := k.has("memory.low")
	switch {
	case !k.cfg.Memory.Enabled:
		return []finding{degraded(what, "soft_limit in [memory] has no effect: [memory] is not enabled",
			"set enabled = true in [memory]")}
	case !k.tree.Has("memory"): // said of the controller
		return nil
	case k.tree.Has("softlimit") || there:
		if k.cfg.Memsw.Enabled {
			return []finding{ok(what, "mem is a job's soft limit, vmem its limit")}
		}
		return []finding{ok(what, "mem is a job's soft limit and, without [memsw], its limit")}
	case notYet:
		return []finding{unknown(what)}
	}
	return []finding{blocking(what, "this kernel has no soft limit, as with CONFIG_PREEMPT_RT, and no job can begin",
		"set soft_limit = false in [memory]; or boot with cgroup v2")}
}

// examineEnabled tells which of enable_controllers the v2 tree cannot pass down.
func (k *kernel) examineEnabled() []finding {
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
	advice := "take it out of enable_controllers in [cgroup], or use a kernel that has it"
	if k.tree.Mode() == cgroup.ModeV2 { // Prepare fails
		return []finding{blocking(what, found+", and no job can begin", advice)}
	}
	return []finding{impossible(what, found+"; the setting has no effect", advice)}
}

func (k *kernel) examineHigh() []finding {
	const what, setting = "high_percent", "high_percent in [memory] has no effect: "
	switch {
	case !k.cfg.Memory.Enabled:
		return []finding{degraded(what, setting+"[memory] is not enabled", "set enabled = true in [memory]")}
	case k.cfg.Memory.Enforce == "rss":
		return []finding{degraded(what, setting+`the kernel does not limit mem with enforce = "rss"`, `set enforce = "both" or "cgroup" in [memory]`)}
	case k.tree.Mode() != cgroup.ModeV2:
		return []finding{impossible(what, setting+"memory.high needs cgroup v2", bootV2)}
	}
	return nil
}

// examineDevices looks for the devices of [io] max. The hook does not start where one is not what it says, and the kernel
// refuses the limits of a job on a device that is not there (blkg_conf_open_bdev).
func (k *kernel) examineDevices() []finding {
	var wrong []string
	seen := map[string]string{}
	for _, text := range k.cfg.IO.Max {
		m, err := config.ParseIOMax(text)
		if err == nil && m.Path != "" {
			m.Major, m.Minor, err = cgroup.BlockDevice(m.Path)
		}
		number := fmt.Sprintf("%d:%d", m.Major, m.Minor)
		if err == nil {
			err = k.examineDevice(m.Major, m.Minor)
		}
		if err == nil && seen[number] != "" {
			err = fmt.Errorf("%s has a limit already", number)
		}
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("%q: %v", text, err))
			continue
		}
		seen[number] = text
	}
	if len(wrong) == 0 {
		return nil
	}
	return []finding{blocking("io.max", strings.Join(wrong, "; ")+": no job can begin", "name whole disks of this node in max of [io] (lsblk -d), or set enabled = false in [io]")}
}

// examineDevice looks at a device by its numbers, where /sys shows any.
func (k *kernel) examineDevice(major, minor uint32) error {
	const devices = "dev/block"
	if !k.roots.Sys.Exists(devices) {
		return nil
	}
	if number := fmt.Sprintf("%d:%d", major, minor); !k.roots.Sys.Exists(path.Join(devices, number)) {
		return fmt.Errorf("there is no block device %s", number)
	}
	return cgroup.WholeDisk(k.roots.Sys, major, minor)
}

// examineRlimits tells what becomes of the resource limits of jobs without CAP_SYS_RESOURCE: see
// lostRlimits. odd is false where nothing configured is lost.
//
// RLIMIT_AS is to be unlimited where vmem is enforced (memsw). What is so already is not set.
func examineRlimits(r rights, cfg *config.File, memsw bool) (f finding, odd bool) {
	if r.uid != 0 || !r.known || r.capabilities&(1<<unix.CAP_SYS_RESOURCE) != 0 {
		return finding{}, false
	}
	const what = "limits of processes"
	const advice = "give the daemon CAP_SYS_RESOURCE: CapabilityBoundingSet= of its unit, --cap-add=SYS_RESOURCE of its container; or "
	var set []string
	for name, text := range cfg.Rlimits.ByName() {
		if text != "" {
			set = append(set, name)
		}
	}
	slices.Sort(set)
	switch {
	case len(set) > 0:
		return degraded(what, strings.Join(set, ", ")+" of [rlimits], without CAP_SYS_RESOURCE: what pbs_mom starts gets it "+
			"where that is no more than pbs_mom's own hard limit, else the job fails; 'hookhost attach' of another user's "+
			"process and 'hookhost run -u' fail", advice+"leave [rlimits] empty"), true
	case cfg.Memory.ManageRlimitAS && cfg.Memsw.Enabled && memsw && r.limitedAS:
		return degraded(what, "RLIMIT_AS is limited here and cannot be lifted without CAP_SYS_RESOURCE: what pbs_mom starts "+
			"keeps the limit that it has; 'hookhost run -u' fails", advice+"set manage_rlimit_as = false in [memory]"), true
	}
	return finding{}, false
}
