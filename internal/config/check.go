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

// check returns the first value that cannot be meant, by its key.
func (f *File) check() error {
	bad := func(key string, value any, want string) error {
		return fmt.Errorf("%s = %v: %s", key, value, want)
	}
	fraction := func(key string, v float64) error {
		if v < 0 || v >= 100 {
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
	if f.Memory.Swappiness < -1 || f.Memory.Swappiness > 100 {
		return bad("memory.swappiness", f.Memory.Swappiness, "want -1 to 100")
	}
	if f.Pids.Max < 0 {
		return bad("pids.max", f.Pids.Max, "want 0 or more")
	}
	// The kernel takes periods of 1 ms to 1 s (Documentation/scheduler/sched-bwc.rst).
	if p := time.Duration(f.CPU.CfsPeriod); p < time.Millisecond || p > time.Second {
		return bad("cpu.cfs_period", p, "want 1ms to 1s")
	}
	if f.CPU.CfsQuotaFudgeFactor <= 0 || f.CPU.ZeroCPUsSharesFraction <= 0 || f.CPU.ZeroCPUsQuotaFraction <= 0 {
		return bad("cpu", "a factor or fraction of 0 or less", "want more than 0")
	}
	if f.Cgroup.KillTimeout <= 0 || f.Host.Start <= 0 {
		return bad("cgroup.kill_timeout or host.start_timeout", "0s", "want more than 0s")
	}
	return errors.Join(fraction("memory.reserve_percent", f.Memory.ReservePercent), fraction("memsw.reserve_percent", f.Memsw.ReservePercent))
}
