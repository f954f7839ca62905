package cgroup

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// cpuController divides and limits cpu time (scheduler/sched-bwc.rst; cgroup-v2.rst, "CPU"). On v1
// the period is written before the quota.
var cpuController = controller{
	name: "cpu",
	v1: []knob{
		{
			file: cpuShares,
			get: func(l *Limits) string {
				if l.CPUShares == 0 {
					return ""
				}
				return strconv.FormatUint(l.CPUShares, 10)
			},
			set: func(l *Limits, text string) (err error) {
				l.CPUShares, err = strconv.ParseUint(text, 10, 64)
				return err
			},
		},
		{
			file: "cpu.cfs_period_us", none: microseconds(defaultPeriod),
			get: func(l *Limits) string {
				if l.Period == 0 {
					return ""
				}
				return microseconds(l.Period)
			},
			set: func(l *Limits, text string) (err error) { l.Period, err = parseMicroseconds(text); return err },
		},
		{
			file: cpuQuota, none: "-1",
			get: func(l *Limits) string {
				if l.Quota == 0 {
					return ""
				}
				return microseconds(l.Quota)
			},
			set: func(l *Limits, text string) (err error) {
				if text == "-1" {
					l.Quota, l.Period = 0, 0
					return nil
				}
				l.Quota, err = parseMicroseconds(text)
				return err
			},
		},
	},
	v2: []knob{
		{
			file: cpuWeight,
			get: func(l *Limits) string {
				if l.CPUShares == 0 {
					return ""
				}
				return strconv.FormatUint(weight(l.CPUShares), 10)
			},
			set: func(l *Limits, text string) error {
				n, err := strconv.ParseUint(text, 10, 32)
				l.CPUShares = (n*sharesDefault + weightDefault/2) / weightDefault
				return err
			},
		},
		{
			file: cpuMax, none: "max " + microseconds(defaultPeriod),
			get: func(l *Limits) string {
				if l.Quota == 0 {
					return ""
				}
				return microseconds(l.Quota) + " " + microseconds(l.Period)
			},
			set: func(l *Limits, text string) (err error) {
				quota, period, ok := strings.Cut(text, " ")
				if !ok {
					return fmt.Errorf("want a quota and a period")
				}
				if quota == "max" {
					return nil
				}
				if l.Quota, err = parseMicroseconds(quota); err == nil {
					l.Period, err = parseMicroseconds(period)
				}
				return err
			},
		},
	},
	asked: func(l *Limits) bool { return l.CPUShares != 0 || l.Quota != 0 },
	check: checkCPU,
	usage: func(r *reader, u *Usage) {
		if !r.dir.h.v2 { // on v2 readCPU reads it, from the file that also has the cpu time
			u.Throttled = duration(field(r.keyed(cpuStat), "throttled_time"), time.Nanosecond)
		}
	},
}

const (
	cpuShares    = "cpu.shares"
	cpuQuota     = "cpu.cfs_quota_us"
	cpuacctUsage = "cpuacct.usage"
	cpuWeight    = "cpu.weight"
	cpuMax       = "cpu.max"
	cpuIdle      = "cpu.idle"
	cpuStat      = "cpu.stat"
)

// userHZ is the unit of cpuacct.stat. It is part of the kernel's interface on every architecture
// that Go runs on.
const userHZ = 100

// MIN_SHARES and MAX_SHARES of kernel/sched/sched.h.
const (
	sharesMin = 2
	sharesMax = 1 << 18
)

const (
	sharesDefault = 1024
	weightDefault = 100
	defaultPeriod = 100 * time.Millisecond
)

// weight converts cpu.shares of v1 to cpu.weight of v2. The conversion is proportional, maps
// default to default, and stays within 1 to 10000. The kernel (sched_weight_to_cgroup in
// kernel/sched/sched.h) and systemd convert the same way, so the ratio between two jobs stays the
// same. runc instead maps one range onto the other, which turns v1's default into 39.
func weight(shares uint64) uint64 {
	return min(max((shares*weightDefault+sharesDefault/2)/sharesDefault, 1), 10000)
}

func checkCPU(_ *Job, l *Limits) error {
	switch {
	case l.Quota < 0 || l.Period < 0:
		return errors.New("a cpu quota is negative")
	case l.Quota == 0:
		l.Period = 0
	case l.Period == 0:
		l.Period = defaultPeriod
	}
	if l.CPUShares != 0 {
		l.CPUShares = min(max(l.CPUShares, sharesMin), sharesMax)
	}
	return nil
}

// readCPU reads the job's cpu time. On v1 cpuacct counts it, on v2 every cgroup does, regardless of
// controllers.
func (j *Job) readCPU(r *reader, u *Usage) {
	if d, ok := j.with("cpuacct"); ok {
		r.dir = d
		u.CPU = duration(r.number(cpuacctUsage), time.Nanosecond)
		// Unlike cpuacct.usage_user and _sys, which count ticks, these are scaled to actual use.
		m := r.keyed("cpuacct.stat")
		u.User = duration(field(m, "user"), time.Second/userHZ)
		u.System = duration(field(m, "system"), time.Second/userHZ)
		return
	}
	d, ok := j.v2()
	if !ok {
		return
	}
	r.dir = d
	m := r.keyed(cpuStat)
	u.CPU = duration(field(m, "usage_usec"), time.Microsecond)
	u.User = duration(field(m, "user_usec"), time.Microsecond)
	u.System = duration(field(m, "system_usec"), time.Microsecond)
	if r.dir.h.has("cpu") {
		u.Throttled = duration(field(m, "throttled_usec"), time.Microsecond)
	}
}

// CPUTime returns the cpu time that the job has used, including processes that have ended. It fails
// with ErrNotFound if the job has no cgroup, and with ErrUnsupported if nothing counts it.
func (j *Job) CPUTime() (time.Duration, error) {
	r := &reader{}
	used := j.cpuTime(r)
	if used != nil {
		return *used, nil
	}
	err := errors.Join(r.errs...)
	if err == nil && r.dir.h != nil { // something counts it, but the file is gone
		err = ErrNotFound
	}
	return 0, fmt.Errorf("cpu time of job %s: %w", j.id, cmp.Or(err, ErrUnsupported))
}

// cpuTime reads the job's cpu time, or returns nil.
func (j *Job) cpuTime(r *reader) *time.Duration {
	if d, ok := j.with("cpuacct"); ok {
		r.dir = d
		return duration(r.number(cpuacctUsage), time.Nanosecond)
	}
	if d, ok := j.v2(); ok {
		r.dir = d
		return duration(field(r.keyed(cpuStat), "usage_usec"), time.Microsecond)
	}
	return nil
}

// Quota returns the cpu time for all jobs together, in cpus, as limited by the cgroups above them.
// limited is false if there is no quota or no cpu controller. On v1 a job cannot have a greater
// quota than that (kernel/sched/core.c, tg_cfs_schedulable_down).
func (t *Tree) Quota() (cpus float64, limited bool, err error) {
	h := t.with("cpu")
	if h == nil {
		return 0, false, nil
	}
	// The mount point may be a container's cgroup.
	for _, dir := range []string{".", h.unit, path.Join(h.unit, h.leaf)} {
		share, ok, err := quotaOf(h.mount, dir, h.v2)
		if err != nil {
			return 0, false, err
		}
		if ok && (!limited || share < cpus) {
			cpus, limited = share, true
		}
	}
	return cpus, limited, nil
}

// quotaOf returns the cpu time that a directory's quota allows, in cpus. limited is false without a
// quota, and if the directory lacks these files.
func quotaOf(files *kernfs.FS, dir string, v2 bool) (cpus float64, limited bool, err error) {
	var l Limits
	for _, k := range slices.Backward(cpuController.knobs(v2)) { // on v1 the quota is in the last file
		if k.file == cpuShares || k.file == cpuWeight {
			continue
		}
		text, err := files.ReadValue(path.Join(dir, k.file))
		if gone(err) {
			continue
		}
		if err == nil {
			err = k.set(&l, trim(text))
		}
		if err != nil {
			return 0, false, err
		}
		if l.Quota == 0 { // the period does not matter then
			break
		}
	}
	if l.Quota <= 0 || l.Period <= 0 {
		return 0, false, nil
	}
	return float64(l.Quota) / float64(l.Period), true, nil
}

func microseconds(d time.Duration) string { return strconv.FormatInt(d.Microseconds(), 10) }

func parseMicroseconds(text string) (time.Duration, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err == nil && (n < 0 || n > int64(time.Duration(1<<63-1)/time.Microsecond)) {
		err = fmt.Errorf("%d microseconds: out of range", n)
	}
	if err != nil {
		return 0, err
	}
	return time.Duration(n) * time.Microsecond, nil
}
