package kernfstest

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// amount is a file that reads a number of bytes.
func amount(name string, of func(*cgroup) int64) knob {
	return reads(name, func(g *cgroup) string { return line(of(g)) })
}

// watermark is a file with a counter that any write brings back to what is now (mem_cgroup_reset).
func watermark(name string, field func(*cgroup) *int64, now func(*cgroup) int64) knob {
	return knob{
		name:  name,
		show:  func(g *cgroup) string { return line(*field(g)) },
		store: func(g *cgroup, _ string) error { *field(g) = now(g); return nil },
	}
}

// ignores is a file that takes anything and keeps nothing of it.
func ignores(name, text string) knob {
	return knob{name: name, show: func(*cgroup) string { return text }, store: func(*cgroup, string) error { return nil }}
}

func zero(*cgroup) int64 { return 0 }

func (g *cgroup) both() int64 { return g.ram() + g.swapped() }

// limitV1 is a limit of v1; set does what follows from a new one.
func limitV1(name string, field func(*cgroup) *int64, set func(g *cgroup, n int64) error) knob {
	return knob{
		name: name,
		show: func(g *cgroup) string { return showSize(*field(g), "-1") },
		store: func(g *cgroup, v string) error {
			n, err := size(v, "-1")
			switch {
			case err != nil:
				return err
			case g.parent == nil:
				return unix.EINVAL // mem_cgroup_write: "Can't set limit on root"
			}
			return set(g, n)
		},
	}
}

// setLimit is mem_cgroup_resize_max for memory.limit_in_bytes: not above memory+swap, EBUSY when reclaim does not get
// the use below it.
func setLimit(g *cgroup, n int64) error {
	if n > g.mem.memsw {
		return unix.EINVAL
	}
	if over := g.ram() - n; over > 0 && g.reclaim(over, true) < over {
		return unix.EBUSY
	}
	g.mem.limit = n
	g.recover()
	return nil
}

// setMemsw is the same for memory.memsw.limit_in_bytes, which must not be below memory.limit_in_bytes. Moving memory to
// swap does not help here.
func setMemsw(g *cgroup, n int64) error {
	if n < g.mem.limit {
		return unix.EINVAL
	}
	if over := g.both() - n; over > 0 && g.reclaim(over, false) < over {
		return unix.EBUSY
	}
	g.mem.memsw = n
	g.recover()
	return nil
}

var memoryV1 = []knob{
	{name: "cgroup.event_control", store: storeEventControl},
	watermark("memory.failcnt", func(g *cgroup) *int64 { return &g.mem.failcnt }, zero),
	{name: "memory.force_empty", store: func(g *cgroup, _ string) error {
		if g.parent == nil {
			return unix.EINVAL
		}
		g.reclaim(g.ram(), true)
		return nil
	}},
	ignores("memory.kmem.failcnt", "0\n"),
	ignores("memory.kmem.limit_in_bytes", showSize(unlimited, "-1")), // taken, not in force (Linux 5.16)
	watermark("memory.kmem.max_usage_in_bytes", func(g *cgroup) *int64 { return &g.mem.kernelPeak }, (*cgroup).kernel),
	always("memory.kmem.slabinfo", ""),
	ignores("memory.kmem.tcp.failcnt", "0\n"),
	ignores("memory.kmem.tcp.limit_in_bytes", showSize(unlimited, "-1")),
	ignores("memory.kmem.tcp.max_usage_in_bytes", "0\n"),
	always("memory.kmem.tcp.usage_in_bytes", "0\n"),
	amount("memory.kmem.usage_in_bytes", (*cgroup).kernel),
	limitV1("memory.limit_in_bytes", func(g *cgroup) *int64 { return &g.mem.limit }, setLimit),
	watermark("memory.max_usage_in_bytes", func(g *cgroup) *int64 { return &g.mem.peak }, (*cgroup).ram),
	ignores("memory.memsw.failcnt", "0\n"),
	limitV1("memory.memsw.limit_in_bytes", func(g *cgroup) *int64 { return &g.mem.memsw }, setMemsw),
	watermark("memory.memsw.max_usage_in_bytes", func(g *cgroup) *int64 { return &g.mem.memswPeak }, (*cgroup).both),
	amount("memory.memsw.usage_in_bytes", (*cgroup).both),
	keptNumber("memory.move_charge_at_immigrate", 0, 0, 0, unix.EINVAL),
	reads("memory.numa_stat", showNumaV1),
	{name: "memory.oom_control", show: showOOMControl, store: storeOOMControl},
	{name: "memory.pressure_level"},
	limitV1("memory.soft_limit_in_bytes", func(g *cgroup) *int64 { return &g.mem.soft },
		func(g *cgroup, n int64) error { g.mem.soft = n; return nil }),
	reads("memory.stat", showStatV1),
	keptNumber("memory.swappiness", 60, 0, 200, unix.EINVAL), // MAX_SWAPPINESS
	amount("memory.usage_in_bytes", (*cgroup).ram),
	keptNumber("memory.use_hierarchy", 1, 1, 1, unix.EINVAL),
}

func showOOMControl(g *cgroup) string {
	return keyed("oom_kill_disable", bit(g.mem.oomDisabled), "under_oom", bit(len(g.mem.waiting) > 0), "oom_kill", g.mem.local.kill)
}

func storeOOMControl(g *cgroup, v string) error {
	n, err := number(v)
	if err != nil || g.parent == nil || n < 0 || n > 1 { // mem_cgroup_oom_control_write
		return unix.EINVAL
	}
	g.mem.oomDisabled = n == 1
	if n == 0 {
		g.recover()
	}
	return nil
}

func showNumaV1(g *cgroup) string {
	file, anon := g.mem.file/pageSize, (g.mem.anon+g.mem.shmem)/pageSize
	allFile := g.total(func(m *memory) int64 { return m.file }) / pageSize
	allAnon := g.total(func(m *memory) int64 { return m.anon + m.shmem }) / pageSize
	var b strings.Builder
	for _, l := range []struct {
		name string
		n    int64
	}{
		{"total", file + anon}, {"file", file}, {"anon", anon}, {"unevictable", 0},
		{"hierarchical_total", allFile + allAnon}, {"hierarchical_file", allFile},
		{"hierarchical_anon", allAnon}, {"hierarchical_unevictable", 0},
	} {
		fmt.Fprintf(&b, "%s=%d N0=%d\n", l.name, l.n, l.n)
	}
	return b.String()
}

// showStatV1 has the keys of Linux 6.18 in its order (memcg1_stat_format). cache includes shmem, as it does there.
func showStatV1(g *cgroup) string {
	limit, memsw := int64(unlimited), int64(unlimited)
	for a := range g.up {
		limit, memsw = min(limit, a.mem.limit), min(memsw, a.mem.memsw)
	}
	var b strings.Builder
	swap := !g.h.k.lacks("memory.memsw.limit_in_bytes")
	writeStatV1(&b, "", swap, func(f func(*memory) int64) int64 { return f(&g.mem) })
	b.WriteString("hierarchical_memory_limit " + showSize(limit, "-1"))
	if swap {
		b.WriteString("hierarchical_memsw_limit " + showSize(memsw, "-1"))
	}
	writeStatV1(&b, "total_", swap, g.total)
	return b.String()
}

func writeStatV1(b *strings.Builder, prefix string, swap bool, of func(func(*memory) int64) int64) {
	anon := of(func(m *memory) int64 { return m.anon })
	file := of(func(m *memory) int64 { return m.file })
	shmem := of(func(m *memory) int64 { return m.shmem })
	for _, l := range []struct {
		key string
		n   int64
	}{
		{"cache", file + shmem}, {"rss", anon}, {"rss_huge", 0}, {"shmem", shmem}, {"mapped_file", 0}, {"dirty", 0},
		{"writeback", 0}, {"workingset_refault_anon", 0}, {"workingset_refault_file", 0},
		{"swap", of(func(m *memory) int64 { return m.swap })}, {"swapcached", 0}, {"pgpgin", 0}, {"pgpgout", 0},
		{"pgfault", of(func(m *memory) int64 { return m.faults })}, {"pgmajfault", 0}, {"inactive_anon", anon + shmem}, {"active_anon", 0}, {"inactive_file", file},
		{"active_file", 0}, {"unevictable", 0},
	} {
		if (l.key == "swap" || l.key == "swapcached") && !swap {
			continue // memcg1_stats: only with memory+swap accounting
		}
		fmt.Fprintf(b, "%s%s %d\n", prefix, l.key, l.n)
	}
}
