package kernfstest

import (
	"golang.org/x/sys/unix"
)

// amount is a file with a number of bytes, read-only.
func amount(name string, of func(*cgroup) int64) knob {
	return reads(name, func(g *cgroup) string { return line(of(g)) })
}

func (g *cgroup) both() int64 { return g.ram() + g.swapped() }

// limitV1 is a limit of v1. set applies a new one.
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

// setLimit is mem_cgroup_resize_max for memory.limit_in_bytes. The limit cannot exceed memory+swap.
// If reclaim does not get the usage below it, the error is EBUSY.
func setLimit(g *cgroup, n int64) error {
	if n > g.mem.memsw {
		return unix.EINVAL
	}
	if over := g.ram() - n; over > 0 && g.reclaim(over, true) < over {
		return unix.EBUSY
	}
	g.mem.limit = n
	return nil
}

// setMemsw is the same for memory.memsw.limit_in_bytes, which cannot be below
// memory.limit_in_bytes. Moving memory to swap does not help here.
func setMemsw(g *cgroup, n int64) error {
	if n < g.mem.limit {
		return unix.EINVAL
	}
	if over := g.both() - n; over > 0 && g.reclaim(over, false) < over {
		return unix.EBUSY
	}
	g.mem.memsw = n
	return nil
}

func setSoft(g *cgroup, n int64) error {
	g.mem.soft = n
	return nil
}

func setTCP(g *cgroup, n int64) error {
	g.mem.tcp = n
	return nil
}

var memoryV1 = []knob{
	{name: "cgroup.event_control", store: storeEventControl},
	amount("memory.failcnt", func(g *cgroup) int64 { return g.mem.failcnt }),
	amount("memory.kmem.max_usage_in_bytes", func(g *cgroup) int64 { return g.mem.kernelPeak }),
	limitV1("memory.kmem.tcp.limit_in_bytes", func(g *cgroup) *int64 { return &g.mem.tcp }, setTCP),
	always("memory.kmem.tcp.usage_in_bytes", "0\n"),
	amount("memory.kmem.usage_in_bytes", (*cgroup).kernel),
	limitV1("memory.limit_in_bytes", func(g *cgroup) *int64 { return &g.mem.limit }, setLimit),
	amount("memory.max_usage_in_bytes", func(g *cgroup) int64 { return g.mem.peak }),
	always("memory.memsw.failcnt", "0\n"),
	limitV1("memory.memsw.limit_in_bytes", func(g *cgroup) *int64 { return &g.mem.memsw }, setMemsw),
	amount("memory.memsw.max_usage_in_bytes", func(g *cgroup) int64 { return g.mem.memswPeak }),
	amount("memory.memsw.usage_in_bytes", (*cgroup).both),
	reads("memory.oom_control", func(g *cgroup) string {
		return keyed("oom_kill_disable", int64(0), "under_oom", int64(0), "oom_kill", g.mem.events.kill)
	}),
	limitV1("memory.soft_limit_in_bytes", func(g *cgroup) *int64 { return &g.mem.soft }, setSoft),
	reads("memory.stat", showStatV1),
	valueFile("memory.swappiness", 60, 0, 200, unix.EINVAL), // MAX_SWAPPINESS
	amount("memory.usage_in_bytes", (*cgroup).ram),
	valueFile("memory.use_hierarchy", 1, 1, 1, unix.EINVAL),
}

// showStatV1 has keys of memcg1_stat_format in the kernel's order. First come those of this cgroup,
// then, with the prefix "total_", those that include its descendants. The cache includes shared
// memory.
func showStatV1(g *cgroup) string {
	own := func(f func(*memory) int64) int64 { return f(&g.mem) }
	return g.statV1("", own) + g.statV1("total_", g.total)
}

func (g *cgroup) statV1(prefix string, of func(func(*memory) int64) int64) string {
	anon := of(func(m *memory) int64 { return m.anon })
	file := of(func(m *memory) int64 { return m.file })
	shmem := of(func(m *memory) int64 { return m.shmem })
	text := keyed(prefix+"cache", file+shmem, prefix+"rss", anon, prefix+"shmem", shmem)
	if !g.h.k.lacks("memory.memsw.limit_in_bytes") { // memcg1_stats: only with memory+swap accounting
		text += keyed(prefix+"swap", of(func(m *memory) int64 { return m.swap }))
	}
	return text + keyed(prefix+"pgfault", of(func(m *memory) int64 { return m.faults }), prefix+"pgmajfault", int64(0),
		prefix+"inactive_anon", anon+shmem, prefix+"active_anon", int64(0))
}
