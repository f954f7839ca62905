package kernfstest

import (
	"golang.org/x/sys/unix"
)

// limitV2 is a limit of v2. It accepts any value, and set applies it.
func limitV2(name string, field func(*cgroup) *int64, set func(*cgroup)) knob {
	return off(knob{
		name: name,
		show: func(g *cgroup) string { return showSize(*field(g), "max") },
		store: func(g *cgroup, v string) error {
			n, err := size(v, "max")
			if err != nil {
				return err
			}
			*field(g) = n
			set(g)
			return nil
		},
	})
}

func nothing(*cgroup) {}

var memoryV2 = []knob{
	off(amount("memory.current", (*cgroup).ram)),
	off(knob{name: "memory.events", show: showMemoryEvents, notifies: true}),
	limitV2("memory.high", func(g *cgroup) *int64 { return &g.mem.high }, (*cgroup).enforceHigh),
	limitV2("memory.low", func(g *cgroup) *int64 { return &g.mem.low }, nothing),
	limitV2("memory.max", func(g *cgroup) *int64 { return &g.mem.limit }, (*cgroup).enforceMax),
	off(knob{name: "memory.oom.group", show: func(g *cgroup) string { return line(bit(g.mem.oomGroup)) },
		store: func(g *cgroup, v string) error {
			n, err := number(v)
			if err != nil || n < 0 || n > 1 {
				return unix.EINVAL
			}
			g.mem.oomGroup = n == 1
			return nil
		}}),
	off(amount("memory.peak", func(g *cgroup) int64 { return g.mem.peak })),
	{name: "memory.reclaim", store: func(g *cgroup, v string) error {
		n, err := size(v, "")
		if err != nil || v == "" {
			return unix.EINVAL
		}
		if g.reclaim(n, true) < n {
			return unix.EAGAIN
		}
		return nil
	}},
	reads("memory.stat", showStatV2),
	off(amount("memory.swap.current", (*cgroup).swapped)),
	off(always("memory.swap.events", "high 0\nmax 0\nfail 0\n")),
	limitV2("memory.swap.max", func(g *cgroup) *int64 { return &g.mem.swapMax }, nothing),
	off(amount("memory.swap.peak", func(g *cgroup) int64 { return g.mem.swapPeak })),
}

func showMemoryEvents(g *cgroup) string {
	e := g.mem.events
	return keyed("low", int64(0), "high", e.high, "max", e.max, "oom", e.oom, "oom_kill", e.kill,
		"oom_group_kill", e.groupKill)
}

func (g *cgroup) enforceHigh() { g.reclaim(max(g.ram()-g.mem.high, 0), true) }

// enforceMax is memory_max_write. A limit below the usage is accepted: reclaim, then the OOM
// killer, bring the usage below it.
func (g *cgroup) enforceMax() {
	for g.ram() > g.mem.limit {
		if g.reclaim(g.ram()-g.mem.limit, true) == 0 && len(g.outOfMemory()) == 0 {
			return
		}
	}
}

// showStatV2 has keys of memory_stats and memcg_vm_event_stat in the kernel's order. Shared memory
// also counts as file, and as anonymous on the LRU lists.
func showStatV2(g *cgroup) string {
	anon := g.total(func(m *memory) int64 { return m.anon })
	file := g.total(func(m *memory) int64 { return m.file })
	shmem := g.total(func(m *memory) int64 { return m.shmem })
	faults := g.total(func(m *memory) int64 { return m.faults })
	return keyed("anon", anon, "file", file+shmem, "kernel", g.kernel(), "sock", int64(0), "shmem", shmem,
		"inactive_anon", anon+shmem, "active_anon", int64(0), "inactive_file", file, "active_file", int64(0),
		"slab_reclaimable", g.slab(), "pgfault", faults, "pgmajfault", int64(0), "thp_fault_alloc", int64(0))
}
