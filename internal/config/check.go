package config

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/internal/kernfs"
)

var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// MaxPids is the largest number that pids.max accepts (PID_MAX_LIMIT of include/linux/threads.h,
// kernel/cgroup/pids.c).
const MaxPids = 4 << 20

// otherServices are the units of pbs_mom and of hookhost. When systemd stops a service, it kills
// what is in its cgroup, and jobs must outlive these services.
var otherServices = []string{"pbs", "hookhost", "hookhost-web"}

// rule is a condition that a setting must meet.
type rule struct {
	key   string
	value any
	holds bool
	want  string
}

// firstBroken returns an error for the first rule that is broken.
func firstBroken(rules ...rule) error {
	for _, r := range rules {
		if r.holds {
			continue
		}
		if text, is := r.value.(string); is {
			r.value = strconv.Quote(text)
		}
		return fmt.Errorf("%s = %v: want %s", r.key, r.value, r.want)
	}
	return nil
}

// oneOf is the rule for a setting with one of a few words.
func oneOf(key, value, want string, words ...string) rule {
	return rule{key, value, slices.Contains(words, value), want}
}

// between is the rule for a duration.
func between(key string, value Duration, low, high time.Duration) rule {
	v := time.Duration(value)
	return rule{key, v, v >= low && v <= high, fmt.Sprintf("%v to %v", low, high)}
}

// percentage is the rule for a percentage. NaN breaks it.
func percentage(key string, value float64) rule {
	return rule{key, value, value >= 0 && value < 100, "a percentage from 0 to below 100"}
}

// factor is the rule for a factor of cpu time. NaN breaks it.
func factor(key string, value float64) rule {
	return rule{key, value, value > 0 && value <= 1000, "more than 0, and 1000 at most"}
}

// cleanPath is the rule for a path that may be empty.
func cleanPath(key, value string) rule {
	return rule{key, value, value == "" || path.IsAbs(value) && path.Clean(value) == value,
		"an absolute path in its shortest form"}
}

// check returns an error for the first invalid value, with its key.
func (f *File) check() error {
	const day = 24 * time.Hour
	// What one of these waits for has to be over before the alarm of the hook that waits. Built-in
	// hooks have 60 s (internal/daemon/hooks.go), and pbs_mom gives the shim more.
	const withinAlarm = 50 * time.Second
	_, level := logrus.ParseLevel(f.Host.LogLevel)
	_, excluded := kernfs.ParseIDSet(f.Cpuset.ExcludeCPUs)
	err := firstBroken(
		rule{"host.log_level", f.Host.LogLevel, level == nil, "error, warning, info or debug"},
		rule{"host.node", f.Host.Node, f.Host.Node == "" || nameForm.MatchString(f.Host.Node), "a host name"},
		between("host.start_timeout", f.Host.Start, 100*time.Millisecond, 5*time.Minute),
		rule{"cgroup.prefix", f.Cgroup.Prefix, nameForm.MatchString(f.Cgroup.Prefix), "a plain name such as pbs_jobs"},
		rule{"cgroup.prefix", f.Cgroup.Prefix, !slices.Contains(otherServices, f.Cgroup.Prefix),
			"a name other than pbs, hookhost and hookhost-web: systemd stops their units with all processes"},
		cleanPath("cgroup.mount", f.Cgroup.Mount),
		oneOf("cgroup.systemd", f.Cgroup.Systemd, "auto, require or off", "auto", "require", "off"),
		between("cgroup.kill_timeout", f.Cgroup.KillTimeout, 100*time.Millisecond, withinAlarm),
		between("cgroup.kill_grace", f.Cgroup.KillGrace, 0, time.Minute),
		between("cgroup.systemd_timeout", f.Cgroup.SystemdWait, 100*time.Millisecond, withinAlarm),
		between("devices.probe_timeout", f.Devices.ProbeTimeout, 100*time.Millisecond, withinAlarm),
		between("vnodes.online_nodes_min_delay", f.Vnodes.OnlineMinDelay, 0, day),
		// The kernel accepts periods of 1 ms to 1 s (Documentation/scheduler/sched-bwc.rst).
		between("cpu.cfs_period", f.CPU.CfsPeriod, time.Millisecond, time.Second),
		factor("cpu.cfs_quota_fudge_factor", f.CPU.CfsQuotaFudgeFactor),
		factor("cpu.zero_cpus_shares_fraction", f.CPU.ZeroCPUsSharesFraction),
		factor("cpu.zero_cpus_quota_fraction", f.CPU.ZeroCPUsQuotaFraction),
		rule{"cpuset.exclude_cpus", f.Cpuset.ExcludeCPUs, excluded == nil, "a list such as 0,8-9"},
		oneOf("cpuset.placement", f.Cpuset.Placement, "pack or spread", "pack", "spread"),
		oneOf("memory.enforce", f.Memory.Enforce, "cgroup, rss or both", "cgroup", "rss", "both"),
		rule{"memory.enforce", f.Memory.Enforce, !f.Memory.SoftLimit || f.Memory.Enforce == "cgroup",
			"cgroup with memory.soft_limit"},
		rule{"memory.high_percent", f.Memory.HighPercent, !f.Memory.SoftLimit || f.Memory.HighPercent <= 0,
			"0 with memory.soft_limit: jobs would be throttled below their mem"},
		percentage("memory.high_percent", f.Memory.HighPercent),
		percentage("memory.reserve_percent", f.Memory.ReservePercent),
		percentage("memsw.reserve_percent", f.Memsw.ReservePercent),
		percentage("hugetlb.reserve_percent", f.Hugetlb.ReservePercent),
		rule{"memory.swappiness", f.Memory.Swappiness, f.Memory.Swappiness >= -1 && f.Memory.Swappiness <= 100,
			"-1 to 100"},
		// The thread that starts a job's first program counts too.
		rule{"pids.max", f.Pids.Max, f.Pids.Max == PidsByCPUs || f.Pids.Max == 0 ||
			f.Pids.Max >= 2 && f.Pids.Max <= MaxPids,
			fmt.Sprintf("%d for a part by cpus, 0 for no limit, or 2 to %d", PidsByCPUs, MaxPids)},
		percentage("pids.reserve_percent", f.Pids.ReservePercent),
		between("series.interval", f.Series.Interval, 0, time.Hour),
		rule{"series.interval", time.Duration(f.Series.Interval),
			f.Series.Interval == 0 || f.Series.Interval >= Duration(time.Second), "0s for none, or 1s or more"},
		between("reports.keep", f.Reports.Keep, time.Hour, 10*366*day),
		rule{"reports.keep_size", f.Reports.KeepSize, f.Reports.KeepSize >= 1<<20, "1mb or more"},
		oneOf("reports.job_stderr", f.Reports.JobStderr, `empty or summary`, "", "summary"),
		cleanPath("reports.directory", f.Reports.Directory),
		cleanPath("reports.command", f.Reports.Command),
		cleanPath("openpbs.home", f.OpenPBS.Home),
		cleanPath("openpbs.conf", f.OpenPBS.Conf),
		oneOf("mpi.strays", f.MPI.Strays, "adopt, report, kill or off", "adopt", "report", "kill", "off"),
	)
	for _, text := range f.IO.Max {
		if _, bad := ParseIOMax(text); bad != nil && err == nil {
			err = fmt.Errorf("io.max: %w", bad)
		}
	}
	for _, check := range []func() error{f.Rlimits.check, f.Devices.check, f.checkDevices, f.Walltime.check,
		f.Metrics.check, f.PAM.check, f.Private.check, f.Container.check, f.Billing.check,
		f.checkAdvice} {
		if err == nil {
			err = check()
		}
	}
	return err
}
