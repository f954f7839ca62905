package cgroup

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// v2Knobs limits a job on v2 (cgroup-v2.rst, "Controllers"). A cpuset that cannot be had is taken and not in force, so
// it is read back from what is effective.
var v2Knobs = []knob{
	{
		controller: "memory", file: memoryMax, format: asSize, none: "max",
		get: func(l *Limits) string { return formatBytes(l.Mem) },
		set: func(l *Limits, text string) (err error) { l.Mem, err = parseBytes(text); return err },
	},
	{
		controller: "memory", file: swapMax, format: asSize, none: "max", optional: true,
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
	{
		controller: "memory", file: memoryHigh, format: asSize, none: "max", detail: true,
		get: func(l *Limits) string { return formatBytes(l.MemHigh) },
		set: func(l *Limits, text string) (err error) { l.MemHigh, err = parseBytes(text); return err },
	},
	{
		controller: "memory", file: memoryLow, format: asSize, none: "0",
		get: func(l *Limits) string { return formatBytes(l.MemSoft) },
		set: func(l *Limits, text string) (err error) {
			if text != "0" {
				l.MemSoft, err = parseBytes(text)
			}
			return err
		},
	},
	{
		controller: "memory", file: "memory.oom.group", optional: true, detail: true, // since Linux 4.19
		get: func(l *Limits) string {
			if l.OOMGroup == nil {
				return ""
			}
			return map[bool]string{false: "0", true: "1"}[*l.OOMGroup]
		},
		set: func(l *Limits, text string) error {
			on := text == "1"
			l.OOMGroup = &on
			return nil
		},
	},
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
	ioKnob,
	partitionKnob,
}

// The memory limits of v2.
const (
	memoryMax  = "memory.max"
	swapMax    = "memory.swap.max"
	memoryHigh = "memory.high"
	memoryLow  = "memory.low"
)

// planV2 lists the writes to v2 files. Memory limits that rise come first and those that fall last: at no time may the
// job use less than under the smaller of the two sets of limits, and what has to leave memory finds its swap. A cpuset
// changes while it is no partition, since the kernel takes no other way from one set of exclusive cpus to another.
func planV2(controllers []string, from, to *Limits) []write {
	plan := writes(v2Knobs, controllers, from, to)
	if from != nil {
		slices.SortStableFunc(plan, func(a, b write) int { return a.turn() - b.turn() })
	}
	plan = slices.Concat(endPartition(controllers, from, to), plan, makePartition(controllers, from, to))
	plan = append(plan, writes(hugetlbKnobs(true, from, to), controllers, from, to)...)
	return append(plan, writes(deviceKnobs(from, to), controllers, from, to)...)
}

// turn is when a change comes: -1 before the others, 1 after them.
func (w write) turn() int {
	if w.File != memoryMax && w.File != swapMax && w.File != memoryHigh {
		return 0
	}
	value, err := parseBytes(w.Value)
	old, olderr := parseBytes(w.Old)
	if err != nil || olderr != nil || above(value, old) {
		return -1
	}
	if w.File == swapMax {
		return 2 // what has to leave memory may still go there
	}
	return 1
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
