package kernfstest

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// limitV2 is a v2 limit: any value is taken; set does what follows.
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
	off(knob{name: "memory.events", show: func(g *cgroup) string { return showMemoryEvents(g.mem.all) }, notifies: true}),
	off(knob{name: "memory.events.local", show: func(g *cgroup) string { return showMemoryEvents(g.mem.local) }, notifies: true}),
	limitV2("memory.high", func(g *cgroup) *int64 { return &g.mem.high }, (*cgroup).enforceHigh),
	limitV2("memory.low", func(g *cgroup) *int64 { return &g.mem.low }, nothing),
	limitV2("memory.max", func(g *cgroup) *int64 { return &g.mem.limit }, (*cgroup).enforceMax),
	limitV2("memory.min", func(g *cgroup) *int64 { return &g.mem.min }, nothing),
	reads("memory.numa_stat", func(g *cgroup) string {
		anon, file, shmem := g.kinds()
		return fmt.Sprintf("anon N0=%d\nfile N0=%d\nshmem N0=%d\n", anon, file+shmem, shmem)
	}),
	off(knob{name: "memory.oom.group", show: func(g *cgroup) string { return line(bit(g.mem.oomGroup)) },
		store: func(g *cgroup, v string) error {
			n, err := number(v)
			if err != nil || n < 0 || n > 1 {
				return unix.EINVAL
			}
			g.mem.oomGroup = n == 1
			return nil
		}}),
	// A write resets the peak for the writer's descriptor only (Linux 6.12), so that others see no change.
	off(knob{name: "memory.peak", show: func(g *cgroup) string { return line(g.mem.peak) },
		store: func(*cgroup, string) error { return nil }}),
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
	limitV2("memory.swap.high", func(g *cgroup) *int64 { return &g.mem.swapHigh }, nothing),
	limitV2("memory.swap.max", func(g *cgroup) *int64 { return &g.mem.swapMax }, nothing),
	off(knob{name: "memory.swap.peak", show: func(g *cgroup) string { return line(g.mem.swapPeak) },
		store: func(*cgroup, string) error { return nil }}),
}

func showMemoryEvents(e events) string {
	return keyed("low", e.low, "high", e.high, "max", e.max, "oom", e.oom, "oom_kill", e.kill, "oom_group_kill", e.groupKill,
		"sock_throttled", int64(0))
}

func (g *cgroup) enforceHigh() { g.reclaim(max(g.ram()-g.mem.high, 0), true) }

// enforceMax is memory_max_write: a limit below the use is taken; reclaim, then the OOM killer, bring the use below it.
func (g *cgroup) enforceMax() {
	for g.ram() > g.mem.limit {
		if g.reclaim(g.ram()-g.mem.limit, true) == 0 && len(g.outOfMemory()) == 0 {
			return
		}
	}
}

func (g *cgroup) kinds() (anon, file, shmem int64) {
	return g.total(func(m *memory) int64 { return m.anon }),
		g.total(func(m *memory) int64 { return m.file }),
		g.total(func(m *memory) int64 { return m.shmem })
}

// statKeys are the keys of memory.stat in the order of Linux 6.18 (memory_stats and memcg_vm_event_stat).
const statKeys = `anon file kernel kernel_stack pagetables sec_pagetables percpu sock vmalloc shmem zswap zswapped
	file_mapped file_dirty file_writeback swapcached anon_thp file_thp shmem_thp inactive_anon active_anon inactive_file
	active_file unevictable slab_reclaimable slab_unreclaimable slab workingset_refault_anon workingset_refault_file
	workingset_activate_anon workingset_activate_file workingset_restore_anon workingset_restore_file
	workingset_nodereclaim pgdemote_kswapd pgdemote_direct pgdemote_khugepaged pgdemote_proactive pgscan pgsteal pswpin
	pswpout pgscan_kswapd pgscan_direct pgscan_khugepaged pgscan_proactive pgsteal_kswapd pgsteal_direct
	pgsteal_khugepaged pgsteal_proactive pgfault pgmajfault pgrefill pgactivate pgdeactivate pglazyfree pglazyfreed
	swpin_zero swpout_zero thp_fault_alloc thp_collapse_alloc thp_swpout thp_swpout_fallback`

// showStatV2 counts shared memory as file too, and as anonymous on the LRU lists, as the kernel does. What the fake does
// not keep is 0.
func showStatV2(g *cgroup) string {
	anon, file, shmem := g.kinds()
	kept := map[string]int64{"anon": anon, "file": file + shmem, "shmem": shmem, "inactive_anon": anon + shmem, "inactive_file": file,
		"kernel": g.kernel(), "pagetables": g.kernel() - g.slab(), "slab_reclaimable": g.slab(), "slab": g.slab(),
		"pgfault": g.total(func(m *memory) int64 { return m.faults })}
	var b strings.Builder
	for key := range strings.FieldsSeq(statKeys) {
		b.WriteString(keyed(key, kept[key]))
	}
	return b.String()
}
