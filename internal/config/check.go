package config

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/internal/kernfs"
)

var prefix = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)

// MaxPids is the greatest number that pids.max takes (PID_MAX_LIMIT of include/linux/threads.h, kernel/cgroup/pids.c).
const MaxPids = 4 << 20

// check returns the first value that cannot be meant, by its key.
func (f *File) check() error {
	bad := func(key string, value any, want string) error {
		return fmt.Errorf("%s = %v: %s", key, value, want)
	}
	fraction := func(key string, v float64) error {
		if !(v >= 0 && v < 100) { // so that NaN fails
			return bad(key, v, "want a percentage from 0 to below 100")
		}
		return nil
	}
	if _, err := logrus.ParseLevel(f.Host.LogLevel); err != nil {
		return bad("host.log_level", fmt.Sprintf("%q", f.Host.LogLevel), "want error, warning, info or debug")
	}
	if len(f.Cgroup.Prefix) > 64 || !prefix.MatchString(f.Cgroup.Prefix) {
		return bad("cgroup.prefix", fmt.Sprintf("%q", f.Cgroup.Prefix), "want a plain name such as pbs_jobs")
	}
	if m := f.Cgroup.Mount; m != "" && (!path.IsAbs(m) || path.Clean(m) != m) {
		return bad("cgroup.mount", fmt.Sprintf("%q", m), "want a clean absolute path")
	}
	if _, err := kernfs.ParseIDSet(f.Cpuset.ExcludeCPUs); err != nil {
		return bad("cpuset.exclude_cpus", fmt.Sprintf("%q", f.Cpuset.ExcludeCPUs), "want a list such as 0,8-9")
	}
	if p := f.Cpuset.Placement; p != "pack" && p != "spread" {
		return bad("cpuset.placement", fmt.Sprintf("%q", p), "want pack or spread")
	}
	if s := f.Cgroup.Systemd; s != "auto" && s != "require" && s != "off" {
		return bad("cgroup.systemd", fmt.Sprintf("%q", s), "want auto, require or off")
	}
	if e := f.Memory.Enforce; e != "cgroup" && e != "rss" && e != "both" {
		return bad("memory.enforce", fmt.Sprintf("%q", e), "want cgroup, rss or both")
	}
	if f.Memory.SoftLimit && f.Memory.Enforce != "cgroup" { // both say who enforces mem
		return bad("memory.enforce", fmt.Sprintf("%q", f.Memory.Enforce), "want cgroup with memory.soft_limit")
	}
	if f.Memory.SoftLimit && f.Memory.HighPercent > 0 {
		return bad("memory.high_percent", f.Memory.HighPercent, "want 0 with memory.soft_limit: jobs would be throttled below their mem")
	}
	for _, err := range []error{f.Rlimits.check(), f.Devices.check(), checkDevices(f.Device), f.Walltime.check(), f.Sister.check(), f.MPI.check(), f.OpenPBS.check()} {
		if err != nil {
			return err
		}
	}
	if f.Devices.Blocks > 0 && f.Vnodes.PerNUMANode { // PBS would say which NUMA nodes a job gets, the blocks which others
		return bad("devices.blocks", f.Devices.Blocks, "want 0 with vnodes.vnode_per_numa_node")
	}
	if f.Memory.Swappiness < -1 || f.Memory.Swappiness > 100 {
		return bad("memory.swappiness", f.Memory.Swappiness, "want -1 to 100")
	}
	if f.Pids.Max < 0 || f.Pids.Max == 1 || f.Pids.Max > MaxPids { // a job's first program is started by a thread that counts
		return bad("pids.max", f.Pids.Max, fmt.Sprintf("want 0 for no limit, or 2 to %d", MaxPids))
	}
	for _, text := range f.IO.Max {
		if _, err := ParseIOMax(text); err != nil {
			return fmt.Errorf("io.max: %w", err)
		}
	}
	// The kernel takes periods of 1 ms to 1 s (Documentation/scheduler/sched-bwc.rst).
	if p := time.Duration(f.CPU.CfsPeriod); p < time.Millisecond || p > time.Second {
		return bad("cpu.cfs_period", p, "want 1ms to 1s")
	}
	for key, v := range map[string]float64{"cpu.cfs_quota_fudge_factor": f.CPU.CfsQuotaFudgeFactor,
		"cpu.zero_cpus_shares_fraction": f.CPU.ZeroCPUsSharesFraction, "cpu.zero_cpus_quota_fraction": f.CPU.ZeroCPUsQuotaFraction} {
		if !(v > 0 && v <= 1000) {
			return bad(key, v, "want more than 0, and 1000 at most")
		}
	}
	// All of a job's end has to fit in the alarm of its event, 90 s, and so has a look at the devices at startup.
	for _, d := range []struct {
		key       string
		value     Duration
		low, high time.Duration
	}{
		{"cgroup.kill_timeout", f.Cgroup.KillTimeout, 100 * time.Millisecond, 60 * time.Second},
		{"cgroup.systemd_timeout", f.Cgroup.SystemdWait, 100 * time.Millisecond, 60 * time.Second},
		{"vnodes.online_nodes_min_delay", f.Vnodes.OnlineMinDelay, 0, 24 * time.Hour},
		{"cgroup.kill_grace", f.Cgroup.KillGrace, 0, 60 * time.Second},
		{"host.start_timeout", f.Host.Start, 100 * time.Millisecond, 5 * time.Minute},
		{"devices.probe_timeout", f.Devices.ProbeTimeout, 100 * time.Millisecond, 60 * time.Second},
	} {
		if v := time.Duration(d.value); v < d.low || v > d.high {
			return bad(d.key, v, fmt.Sprintf("want %v to %v", d.low, d.high))
		}
	}
	if n := f.Host.Node; n != "" && (len(n) > 64 || !prefix.MatchString(n)) {
		return bad("host.node", fmt.Sprintf("%q", n), "want a host name")
	}
	return errors.Join(fraction("memory.reserve_percent", f.Memory.ReservePercent), fraction("memsw.reserve_percent", f.Memsw.ReservePercent),
		fraction("hugetlb.reserve_percent", f.Hugetlb.ReservePercent), fraction("memory.high_percent", f.Memory.HighPercent))
}
