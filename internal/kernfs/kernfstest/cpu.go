package kernfstest

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime is what the processes of a cgroup and below have used, by cpu.
type cpuTime struct{ user, system map[int]time.Duration }

const userHZ = 100

// Burn makes pid use cpu time in user mode, on the first cpu it may run on. A frozen process uses none.
func (k *Kernel) Burn(pid int, d time.Duration) { k.burn(pid, d, 0) }

// BurnSystem is Burn in the kernel.
func (k *Kernel) BurnSystem(pid int, d time.Duration) { k.burn(pid, 0, d) }

func (k *Kernel) burn(pid int, user, system time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p, ok := k.procs[pid]
	if !ok || p.zombie || p.isFrozen() {
		return
	}
	p.user += user
	p.system += system
	cpu := 0
	for _, g := range p.in {
		if set := cpus.effective(g); !set.IsEmpty() {
			cpu = set.List()[0]
		}
	}
	for _, g := range p.in {
		for a := range g.up {
			a.time.add(cpu, user, system)
		}
	}
}

func (t *cpuTime) add(cpu int, user, system time.Duration) {
	if t.user == nil {
		t.user, t.system = map[int]time.Duration{}, map[int]time.Duration{}
	}
	t.user[cpu] += user
	t.system[cpu] += system
}

func sum(m map[int]time.Duration) (d time.Duration) {
	for _, v := range m {
		d += v
	}
	return d
}

// percpu prints one number a cpu, each with a space behind it.
func percpu(of func(t *cpuTime, cpu int) time.Duration) func(*cgroup) string {
	return func(g *cgroup) string {
		var b strings.Builder
		for _, cpu := range g.h.k.machine.online().List() {
			b.WriteString(strconv.FormatInt(of(&g.time, cpu).Nanoseconds(), 10) + " ")
		}
		return b.String() + "\n"
	}
}

var cpuacctKnobs = []knob{
	reads("cpuacct.stat", func(g *cgroup) string {
		tick := int64(time.Second / userHZ)
		return keyed("user", int64(sum(g.time.user))/tick, "system", int64(sum(g.time.system))/tick)
	}),
	{name: "cpuacct.usage", show: func(g *cgroup) string { return line(int64(sum(g.time.user) + sum(g.time.system))) }, store: resetUsage},
	reads("cpuacct.usage_all", func(g *cgroup) string {
		b := "cpu user system\n"
		for _, cpu := range g.h.k.machine.online().List() {
			b += fmt.Sprintf("%d %d %d\n", cpu, g.time.user[cpu], g.time.system[cpu])
		}
		return b
	}),
	reads("cpuacct.usage_percpu", percpu(func(t *cpuTime, cpu int) time.Duration { return t.user[cpu] + t.system[cpu] })),
	reads("cpuacct.usage_percpu_sys", percpu(func(t *cpuTime, cpu int) time.Duration { return t.system[cpu] })),
	reads("cpuacct.usage_percpu_user", percpu(func(t *cpuTime, cpu int) time.Duration { return t.user[cpu] })),
	reads("cpuacct.usage_sys", func(g *cgroup) string { return line(int64(sum(g.time.system))) }),
	reads("cpuacct.usage_user", func(g *cgroup) string { return line(int64(sum(g.time.user))) }),
}

// resetUsage is cpuusage_write: only 0 may be written.
func resetUsage(g *cgroup, v string) error {
	if n, err := number(v); err != nil || n != 0 {
		return unix.EINVAL
	}
	g.time = cpuTime{}
	return nil
}

const (
	quotaFile  = "cpu.cfs_quota_us"
	periodFile = "cpu.cfs_period_us"
	noQuota    = -1
)

// bandwidth is the quota (noQuota for none) and period of g in usec.
func (g *cgroup) bandwidth() (quota, period int64) {
	return g.keptValue(quotaFile, noQuota), g.keptValue(periodFile, 100000)
}

// setBandwidth is tg_set_cfs_bandwidth: a millisecond at least, a period of a second at most. On v1 no group may have a
// greater part of the time than its parent (tg_cfs_schedulable_down); on v2 the smaller of the two counts.
func (g *cgroup) setBandwidth(quota, period int64) error {
	if g.parent == nil {
		return unix.EINVAL
	}
	if quota != noQuota && quota < 1000 || period < 1000 || period > 1000000 {
		return unix.EINVAL
	}
	oldQuota, oldPeriod := g.bandwidth()
	g.values[quotaFile], g.values[periodFile] = strconv.FormatInt(quota, 10), strconv.FormatInt(period, 10)
	if !g.h.v2 && !g.h.root.schedulable(-1) {
		g.values[quotaFile], g.values[periodFile] = strconv.FormatInt(oldQuota, 10), strconv.FormatInt(oldPeriod, 10)
		return unix.EINVAL
	}
	return nil
}

// schedulable tells whether no group at or below g has more than its parent's share (-1: no quota above).
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
	keptNumber("cpu.cfs_burst_us", 0, 0, unlimited, unix.EINVAL),
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
		return g.setBandwidth(max(n, noQuota), period) // any negative number is none
	}},
	keptNumber("cpu.idle", 0, 0, 1, unix.EINVAL),
	keptNumber("cpu.rt_period_us", 1000000, 1, unlimited, unix.EINVAL),
	keptNumber("cpu.rt_runtime_us", 0, -1, unlimited, unix.EINVAL),
	{name: "cpu.shares", show: func(g *cgroup) string { return line(g.keptValue("cpu.shares", 1024)) }, store: storeShares},
	always("cpu.stat", "nr_periods 0\nnr_throttled 0\nthrottled_time 0\nnr_bursts 0\nburst_time 0\n"),
	always("cpu.stat.local", "throttled_time 0\n"),
}

func showQuota(g *cgroup) string {
	quota, _ := g.bandwidth()
	return line(quota)
}

func showPeriod(g *cgroup) string {
	_, period := g.bandwidth()
	return line(period)
}

// storeShares is sched_group_set_shares: clamped to 2..262144, never refused; the root's cannot be set.
func storeShares(g *cgroup, v string) error {
	n, err := unsigned(v)
	if err != nil {
		return err
	}
	if g.parent == nil {
		return unix.EINVAL
	}
	g.values["cpu.shares"] = strconv.FormatUint(min(max(n, 2), 1<<18), 10)
	return nil
}

var cpuV2 = []knob{
	off(keptNumber("cpu.idle", 0, 0, 1, unix.EINVAL)),
	off(knob{name: "cpu.max", show: showCPUMax, store: storeCPUMax}),
	off(keptNumber("cpu.max.burst", 0, 0, unlimited, unix.EINVAL)),
	off(kept("cpu.uclamp.max", "max\n")),
	off(kept("cpu.uclamp.min", "0.00\n")),
	off(keptNumber("cpu.weight", 100, 1, 10000, unix.ERANGE)), // cpu_weight_write_u64
	off(keptNumber("cpu.weight.nice", 0, -20, 19, unix.ERANGE)),
}

func showCPUMax(g *cgroup) string {
	quota, period := g.bandwidth()
	if quota == noQuota {
		return fmt.Sprintf("max %d\n", period)
	}
	return fmt.Sprintf("%d %d\n", quota, period)
}

// storeCPUMax is cpu_max_write: "QUOTA" or "QUOTA PERIOD"; the period stays when it is left out.
func storeCPUMax(g *cgroup, v string) error {
	words := strings.Fields(v)
	if len(words) < 1 || len(words) > 2 {
		return unix.EINVAL
	}
	quota, period := g.bandwidth()
	var err error
	if words[0] == "max" {
		quota = noQuota
	} else if quota, err = strconv.ParseInt(words[0], 10, 64); err != nil || quota < 0 {
		return unix.EINVAL
	}
	if len(words) == 2 {
		if period, err = strconv.ParseInt(words[1], 10, 64); err != nil {
			return unix.EINVAL
		}
	}
	return g.setBandwidth(quota, period)
}
