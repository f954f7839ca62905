package kernfstest

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const userHZ = 100

// Burn makes pid use cpu time in user mode, unless it is frozen.
func (k *Kernel) Burn(pid int, d time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p, ok := k.procs[pid]
	if !ok || p.zombie || p.isFrozen() {
		return
	}
	p.cpuTime += d
	for _, g := range p.in {
		for a := range g.up {
			a.cpuTime += d
		}
	}
}

var cpuacctKnobs = []knob{
	reads("cpuacct.stat", func(g *cgroup) string {
		return keyed("user", int64(g.cpuTime/(time.Second/userHZ)), "system", int64(0))
	}),
	reads("cpuacct.usage", func(g *cgroup) string { return line(g.cpuTime.Nanoseconds()) }),
}

const (
	quotaFile  = "cpu.cfs_quota_us"
	periodFile = "cpu.cfs_period_us"
	noQuota    = -1
)

// bandwidth returns the quota (noQuota for none) and the period of g in microseconds.
func (g *cgroup) bandwidth() (quota, period int64) {
	return g.value(quotaFile, noQuota), g.value(periodFile, 100000)
}

// setBandwidth is tg_set_cfs_bandwidth: both are at least a millisecond, and the period at most a
// second. On v1 a group's share of the time cannot exceed its parent's (tg_cfs_schedulable_down).
// On v2 the smaller share counts.
func (g *cgroup) setBandwidth(quota, period int64) error {
	if g.parent == nil {
		return unix.EINVAL
	}
	if quota != noQuota && quota < 1000 || period < 1000 || period > 1000000 {
		return unix.EINVAL
	}
	oldQuota, oldPeriod := g.bandwidth()
	g.setValue(quotaFile, quota)
	g.setValue(periodFile, period)
	if !g.h.v2 && !g.h.root.schedulable(-1) {
		g.setValue(quotaFile, oldQuota)
		g.setValue(periodFile, oldPeriod)
		return unix.EINVAL
	}
	return nil
}

// schedulable reports whether no group at or below g has a larger share than its parent. above is
// the parent's share; -1 means no quota.
func (g *cgroup) schedulable(above float64) bool {
	if quota, period := g.bandwidth(); quota != noQuota {
		ratio := float64(quota) / float64(period)
		if above >= 0 && ratio > above {
			return false
		}
		above = ratio
	}
	for _, c := range g.children {
		if !c.schedulable(above) {
			return false
		}
	}
	return true
}

var cpuV1 = []knob{
	{name: periodFile, show: showPeriod, store: func(g *cgroup, v string) error {
		n, err := number(v)
		if err != nil {
			return err
		}
		quota, _ := g.bandwidth()
		return g.setBandwidth(quota, n)
	}},
	{name: quotaFile, show: showQuota, store: func(g *cgroup, v string) error {
		n, err := number(v)
		if err != nil {
			return err
		}
		_, period := g.bandwidth()
		return g.setBandwidth(max(n, noQuota), period) // any negative number means no quota
	}},
	{name: "cpu.shares", show: func(g *cgroup) string { return line(g.value("cpu.shares", 1024)) }, store: storeShares},
	always("cpu.stat", "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n"),
}

func showQuota(g *cgroup) string {
	quota, _ := g.bandwidth()
	return line(quota)
}

func showPeriod(g *cgroup) string {
	_, period := g.bandwidth()
	return line(period)
}

// storeShares is sched_group_set_shares. It clamps the value to 2..262144; the root's value cannot
// be set.
func storeShares(g *cgroup, v string) error {
	n, err := number(v)
	if err != nil || n < 0 || g.parent == nil {
		return unix.EINVAL
	}
	g.setValue("cpu.shares", min(max(n, 2), 1<<18))
	return nil
}

var cpuV2 = []knob{
	off(knob{name: "cpu.max", show: showCPUMax, store: storeCPUMax}),
	off(valueFile("cpu.weight", 100, 1, 10000, unix.ERANGE)), // cpu_weight_write_u64
}

func showCPUMax(g *cgroup) string {
	quota, period := g.bandwidth()
	if quota == noQuota {
		return fmt.Sprintf("max %d\n", period)
	}
	return fmt.Sprintf("%d %d\n", quota, period)
}

// storeCPUMax is cpu_max_write. It takes "QUOTA" or "QUOTA PERIOD"; without PERIOD the period is
// unchanged.
func storeCPUMax(g *cgroup, v string) error {
	words := strings.Fields(v)
	if len(words) < 1 || len(words) > 2 {
		return unix.EINVAL
	}
	quota, err := int64(noQuota), error(nil)
	if words[0] != "max" {
		quota, err = strconv.ParseInt(words[0], 10, 64)
	}
	if err != nil || quota < 0 && words[0] != "max" {
		return unix.EINVAL
	}
	_, period := g.bandwidth()
	if len(words) == 2 {
		if period, err = strconv.ParseInt(words[1], 10, 64); err != nil {
			return unix.EINVAL
		}
	}
	return g.setBandwidth(quota, period)
}
