package cgroup

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// v2Knobs limits a job on v2 (cgroup-v2.rst, "Controllers"). A cpuset that cannot be had is taken and not in force, so
// it is read back from what is effective.
var v2Knobs = []knob{
	{
		controller: "memory", file: "memory.max", format: asSize, none: "max",
		get: func(l *Limits) string { return formatBytes(l.Mem) },
		set: func(l *Limits, text string) (err error) { l.Mem, err = parseBytes(text); return err },
	},
	{
		controller: "memory", file: "memory.swap.max", format: asSize, none: "max", optional: true,
		get: func(l *Limits) string {
			if l.MemSwap == nil || l.Mem == nil {
				return ""
			}
			return strconv.FormatInt(*l.MemSwap-*l.Mem, 10)
		},
		set: func(l *Limits, text string) error {
			swap, err := parseBytes(text)
			if swap != nil && l.Mem != nil {
				both := *swap + *l.Mem
				l.MemSwap = &both
			}
			return err
		},
	},
	// When the kernel has to kill for memory it kills the job, not a random part of it (since Linux 4.19).
	{controller: "memory", file: "memory.oom.group", optional: true, get: func(*Limits) string { return "1" }},
	{
		controller: "cpuset", file: "cpuset.cpus", format: asSet, shown: "cpuset.cpus.effective", none: "\n",
		get: func(l *Limits) string { return l.CPUs.String() },
		set: func(l *Limits, text string) (err error) { l.CPUs, err = kernfs.ParseIDSet(text); return err },
	},
	{
		controller: "cpuset", file: "cpuset.mems", format: asSet, shown: "cpuset.mems.effective", none: "\n",
		get: func(l *Limits) string { return l.Mems.String() },
		set: func(l *Limits, text string) (err error) { l.Mems, err = kernfs.ParseIDSet(text); return err },
	},
	{
		controller: "cpu", file: "cpu.weight",
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
		controller: "cpu", file: "cpu.max", none: "max " + microseconds(defaultPeriod),
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
	pidsKnob,
}

// planV2 lists the writes to v2 files. Their order does not matter: no limit depends on another.
func planV2(controllers []string, from, to *Limits) []write {
	return writes(v2Knobs, controllers, from, to)
}

const (
	sharesDefault = 1024
	weightDefault = 100
)

// weight turns v1's cpu.shares into v2's cpu.weight: in proportion, default to default, within 1 to 10000. It is the
// kernel's own relation (sched_weight_to_cgroup in kernel/sched/sched.h) and systemd's, so two jobs share a cpu as their
// numbers stand to each other. (runc maps the whole range onto the other, which makes v1's default a 39th.)
func weight(shares uint64) uint64 {
	return min(max((shares*weightDefault+sharesDefault/2)/sharesDefault, 1), 10000)
}
