package kernfstest

import (
	"maps"
	"slices"
)

// charge is try_charge. It returns false if p did not get all n bytes.
func (k *Kernel) charge(p *process, g *cgroup, n int64, add func(int64)) (killed []int, ok bool) {
	for n > 0 {
		over, free, memsw := g.tightest()
		if step := min(n, free); step > 0 {
			add(step)
			g.grown()
			n -= step
			continue
		}
		over.hit(memsw)
		if over.reclaim(n, !memsw) > 0 {
			continue
		}
		dead := over.outOfMemory()
		killed = append(killed, dead...)
		if len(dead) == 0 || k.procs[p.pid] == nil {
			return killed, false
		}
	}
	return killed, true
}

// tightest returns the ancestor with the least room. memsw reports whether v1's memory+swap is the
// limit there, which the kernel tries first.
func (g *cgroup) tightest() (over *cgroup, free int64, memsw bool) {
	free = unlimited
	for a := range g.up {
		if room := a.mem.memsw - a.ram() - a.swapped(); a.mem.memsw != unlimited && room < free {
			over, free, memsw = a, room, true
		}
		if room := a.mem.limit - a.ram(); a.mem.limit != unlimited && room < free {
			over, free, memsw = a, room, false
		}
	}
	return over, max(free, 0), memsw
}

// grown records new peaks, and reclaims where memory.high is exceeded.
func (g *cgroup) grown() {
	for a := range g.up {
		a.mem.peak = max(a.mem.peak, a.ram())
		a.mem.kernelPeak = max(a.mem.kernelPeak, a.kernel())
		a.mem.memswPeak = max(a.mem.memswPeak, a.ram()+a.swapped())
		a.mem.swapPeak = max(a.mem.swapPeak, a.swapped())
		if a.mem.high != unlimited && a.ram() > a.mem.high {
			a.count(func(e *events) *int64 { return &e.high })
			a.reclaim(a.ram()-a.mem.high, true)
		}
	}
}

// hit counts a charge that a limit refused. page_counter_try_charge only counts a failcnt for v1's
// memory counter (Linux 6.18).
func (g *cgroup) hit(memsw bool) {
	if !memsw {
		g.mem.failcnt++
	}
	g.count(func(e *events) *int64 { return &e.max })
}

// count is memcg_memory_event. v2 also counts an event in every ancestor, v1 only where it happens.
func (g *cgroup) count(which func(*events) *int64) {
	for a := range g.up {
		*which(&a.mem.events)++
		if !g.h.v2 {
			return
		}
	}
}

// reclaim frees up to n bytes: page cache of g and below, then, if swap is true, anonymous memory
// that moves to swap. It returns how much it freed.
func (g *cgroup) reclaim(n int64, swap bool) (freed int64) {
	for d := range g.down {
		m := min(n-freed, d.mem.file)
		if g.h.k.dirty {
			m = 0
		}
		d.mem.file -= m
		freed += m
		m = min(n-freed, d.mem.slab)
		d.mem.slab -= m
		freed += m
	}
	if swap {
		freed += g.swapOut(n - freed)
	}
	return freed
}

// swapOut moves up to n bytes of anonymous memory in g and below to swap.
func (g *cgroup) swapOut(n int64) (moved int64) {
	k := g.h.k
	for _, pid := range slices.Sorted(maps.Keys(k.procs)) {
		for d := range g.down {
			h := k.procs[pid].held[d]
			if h == nil {
				continue
			}
			m := min(n-moved, h.anon, d.swapRoom(), k.machine.Swap-g.h.root.swapped())
			h.anon, h.swap = h.anon-m, h.swap+m
			d.mem.anon, d.mem.swap = d.mem.anon-m, d.mem.swap+m
			moved += m
			d.swapGrown()
		}
	}
	return moved
}

func (g *cgroup) swapRoom() int64 {
	room := int64(unlimited)
	for a := range g.up {
		if a.mem.swapMax != unlimited {
			room = min(room, max(a.mem.swapMax-a.swapped(), 0))
		}
	}
	return room
}

func (g *cgroup) swapGrown() {
	for a := range g.up {
		a.mem.swapPeak = max(a.mem.swapPeak, a.swapped())
	}
}
