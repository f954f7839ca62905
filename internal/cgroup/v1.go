package cgroup

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// v1Knobs limits a job on v1 (cgroup-v1/memory.rst, cpusets.rst, pids.rst; scheduler/sched-bwc.rst). The order is that of
// the writes: a cpuset has its cpus and mems before any task comes, and the period is there before the quota.
var v1Knobs = []knob{
	{
		controller: "memory", file: memoryLimit, format: asSize, none: "-1", use: "memory.usage_in_bytes",
		get: func(l *Limits) string { return formatBytes(l.Mem) },
		set: func(l *Limits, text string) (err error) { l.Mem, err = parseBytes(text); return err },
	},
	{
		controller: "memory", file: memswLimit, format: asSize, none: "-1", optional: true, use: "memory.memsw.usage_in_bytes",
		get: func(l *Limits) string { return formatBytes(l.MemSwap) },
		set: func(l *Limits, text string) (err error) { l.MemSwap, err = parseBytes(text); return err },
	},
	{
		// The kernel charges buffers of TCP and UDP to a counter of their own, beside memory.
		controller: "memory", file: socketLimit, format: asSize, none: "-1", optional: true, use: socketUse,
		get: func(l *Limits) string { return formatBytes(l.Mem) },
	},
	{
		controller: "memory", file: "memory.swappiness", optional: true, detail: true,
		get: func(l *Limits) string {
			if l.Swappiness == nil {
				return ""
			}
			return strconv.Itoa(*l.Swappiness)
		},
		set: func(l *Limits, text string) error {
			n, err := strconv.Atoi(text)
			l.Swappiness = &n
			return err
		},
	},
	{
		controller: "memory", file: memorySoft, format: asSize, none: "-1",
		get: func(l *Limits) string { return formatBytes(l.MemSoft) },
		set: func(l *Limits, text string) (err error) { l.MemSoft, err = parseBytes(text); return err },
	},
	{
		controller: "cpuset", file: "cpuset.cpus", format: asSet,
		get: func(l *Limits) string { return l.CPUs.String() },
		set: func(l *Limits, text string) (err error) { l.CPUs, err = kernfs.ParseIDSet(text); return err },
	},
	{
		controller: "cpuset", file: "cpuset.mems", format: asSet,
		get: func(l *Limits) string { return l.Mems.String() },
		set: func(l *Limits, text string) (err error) { l.Mems, err = kernfs.ParseIDSet(text); return err },
	},
	cpusetFlag("cpuset.mem_hardwall", func(l *Limits) *bool { return &l.MemHardwall }),
	cpusetFlag("cpuset.memory_spread_page", func(l *Limits) *bool { return &l.SpreadPage }),
	{
		controller: "cpu", file: "cpu.shares",
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
		controller: "cpu", file: "cpu.cfs_period_us", none: microseconds(defaultPeriod),
		get: func(l *Limits) string {
			if l.Period == 0 {
				return ""
			}
			return microseconds(l.Period)
		},
		set: func(l *Limits, text string) (err error) { l.Period, err = parseMicroseconds(text); return err },
	},
	{
		controller: "cpu", file: "cpu.cfs_quota_us", none: "-1",
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
	pidsKnob,
}

// The two memory limits depend on each other: the kernel refuses a moment in which memory alone may exceed memory
// and swap together.
const (
	memoryLimit = "memory.limit_in_bytes"
	memswLimit  = "memory.memsw.limit_in_bytes"
	memorySoft  = "memory.soft_limit_in_bytes"
)

// cpusetFlag is of a flag that only a job with a cpuset of its own can have.
func cpusetFlag(file string, at func(*Limits) *bool) knob {
	return knob{
		controller: "cpuset", file: file, detail: true, none: "0",
		get: func(l *Limits) string {
			if *at(l) && !l.CPUs.IsEmpty() {
				return "1"
			}
			return ""
		},
		set: func(l *Limits, text string) error {
			*at(l) = text == "1"
			return nil
		},
	}
}

// pidsKnob is the same file in both versions.
var pidsKnob = knob{
	controller: "pids", file: "pids.max", none: "max",
	get: func(l *Limits) string { return formatBytes(l.Pids) },
	set: func(l *Limits, text string) (err error) { l.Pids, err = parseBytes(text); return err },
}

// planV1 lists the writes to v1 files. Memory and swap together go first when they rise and last when they fall.
func planV1(controllers []string, from, to *Limits) []write {
	plan := writes(v1Knobs, controllers, from, to)
	isFile := func(name string) func(write) bool { return func(w write) bool { return w.File == name } }
	mem, memsw := slices.IndexFunc(plan, isFile(memoryLimit)), slices.IndexFunc(plan, isFile(memswLimit))
	if mem >= 0 && memsw >= 0 && rises(from, to) {
		plan[mem], plan[memsw] = plan[memsw], plan[mem]
	}
	if mems := slices.IndexFunc(plan, isFile("cpuset.mems")); mems >= 0 && from != nil {
		// What the job holds moves along only where this is on while the nodes change; on v2 it always does.
		plan = slices.Insert(plan, mems+1, migrate("0", "1"))
		plan = slices.Insert(plan, mems, migrate("1", "0"))
	}
	return append(plan, writes(hugetlbKnobs(false, from, to), controllers, from, to)...)
}

// migrateKnob is of v1's cpuset.memory_migrate, which is no limit.
var migrateKnob = knob{controller: "cpuset", file: "cpuset.memory_migrate"}

func migrate(value, old string) write {
	return write{Controller: "cpuset", File: migrateKnob.file, Value: value, Old: old, knob: &migrateKnob}
}

// rises tells whether the limit of memory and swap together goes up; none is the highest.
func rises(from, to *Limits) bool { return from != nil && above(to.MemSwap, from.MemSwap) }

// above tells whether limit a is higher than b; nil is none and the highest.
func above(a, b *int64) bool { return b != nil && (a == nil || *a > *b) }

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
