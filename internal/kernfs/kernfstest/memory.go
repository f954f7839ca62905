package kernfstest

import (
	"os"
	"slices"
)

// Memory is an amount of each kind of memory, in bytes; the fake rounds up to pages. Kernel is page
// tables and the like. Slab is kernel memory that caches files: like page cache, it remains after
// the process has ended.
type Memory struct{ Anon, File, Shmem, Kernel, Slab int64 }

// held is the private memory of a process that is charged to one cgroup.
type held struct{ anon, swap, kernel int64 }

// memory is the state of the memory controller (cgroup-v1/memory.rst; cgroup-v2.rst, "Memory").
type memory struct {
	anon, file, shmem, swap int64 // charged here, without descendants
	kernel, slab            int64 // as well
	faults                  int64 // one page fault for each page of anonymous and shared memory

	limit, memsw, soft int64 // memsw is v1's memory+swap
	tcp                int64 // v1's limit on socket buffers, which the fake does not count
	high, low          int64
	swapMax            int64
	peak, memswPeak    int64
	kernelPeak         int64
	swapPeak           int64
	failcnt            int64
	oomGroup           bool // v2 memory.oom.group
	events             events
	listeners          []*os.File // eventfds that are notified of kills
}

// events is memory.events, which counts descendants too.
type events struct{ high, max, oom, kill, groupKill int64 }

func (m *memory) reset() {
	*m = memory{
		anon: m.anon, file: m.file, shmem: m.shmem, swap: m.swap, kernel: m.kernel, slab: m.slab,
		listeners: m.listeners,
		limit:     unlimited, memsw: unlimited, soft: unlimited, tcp: unlimited, high: unlimited, swapMax: unlimited,
	}
}

func pages(n int64) int64 { return (n + pageSize - 1) / pageSize * pageSize }

// total returns the sum of f over g and its descendants.
func (g *cgroup) total(f func(*memory) int64) int64 {
	var n int64
	for d := range g.down {
		n += f(&d.mem)
	}
	return n
}

func (g *cgroup) ram() int64 {
	return g.total(func(m *memory) int64 { return m.anon + m.file + m.shmem + m.kernel + m.slab })
}
func (g *cgroup) kernel() int64  { return g.total(func(m *memory) int64 { return m.kernel + m.slab }) }
func (g *cgroup) slab() int64    { return g.total(func(m *memory) int64 { return m.slab }) }
func (g *cgroup) swapped() int64 { return g.total(func(m *memory) int64 { return m.swap }) }

// reclaimable returns the kernel memory that caches files, for meminfo.
func (k *Kernel) reclaimable() (n int64) {
	for h := range k.roots() {
		if slices.Contains(h.controllers, "memory") {
			n += h.root.slab()
		}
	}
	return n
}

// memoryGroup returns the cgroup to which p's memory is charged. On v2 that is the nearest one with
// the controller enabled.
func (p *process) memoryGroup() *cgroup {
	for h, g := range p.in {
		if !slices.Contains(h.controllers, "memory") {
			continue
		}
		for !g.has("memory") {
			g = g.parent
		}
		return g
	}
	return nil
}

// Charge makes pid use more memory, subject to the limits of its cgroup. At a limit, file pages are
// reclaimed, and anonymous ones move to swap if there is some. Then the OOM killer ends the largest
// process below the limit. Charge returns the killed processes, which may include pid.
func (k *Kernel) Charge(pid int, m Memory) (killed []int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.wake()
	p, ok := k.procs[pid]
	if !ok || p.zombie || p.isFrozen() {
		return nil
	}
	g := p.memoryGroup()
	if g == nil {
		return nil
	}
	for _, part := range []struct {
		bytes int64
		add   func(n int64)
	}{
		{m.File, func(n int64) { g.mem.file += n }},
		{m.Shmem, func(n int64) { g.mem.shmem += n; p.shmem += n; g.mem.faults += n / pageSize }},
		{m.Anon, func(n int64) { g.mem.anon += n; p.holds(g).anon += n; g.mem.faults += n / pageSize }},
		{m.Slab, func(n int64) { g.mem.slab += n }},
		{m.Kernel, func(n int64) { g.mem.kernel += n; p.holds(g).kernel += n }},
	} {
		dead, ok := k.charge(p, g, pages(part.bytes), part.add)
		if killed = append(killed, dead...); !ok {
			break
		}
	}
	return killed
}

// Free releases memory: anonymous and kernel memory of pid, and file and shared memory and caches
// of pid's cgroup.
func (k *Kernel) Free(pid int, m Memory) {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.wake()
	p, ok := k.procs[pid]
	if !ok || p.memoryGroup() == nil {
		return
	}
	g := p.memoryGroup()
	h := p.holds(g)
	n := min(pages(m.Anon), h.anon)
	h.anon -= n
	g.mem.anon -= n
	n = min(pages(m.Kernel), h.kernel)
	h.kernel -= n
	g.mem.kernel -= n
	g.mem.file -= min(pages(m.File), g.mem.file)
	g.mem.slab -= min(pages(m.Slab), g.mem.slab)
	n = min(pages(m.Shmem), g.mem.shmem)
	g.mem.shmem -= n
	p.shmem -= min(n, p.shmem)
}

func (p *process) holds(g *cgroup) *held {
	if p.held[g] == nil {
		p.held[g] = &held{}
	}
	return p.held[g]
}

// release frees what a dying process held. Page cache and shared memory remain charged.
func (p *process) release() {
	for g, h := range p.held {
		g.mem.anon -= h.anon
		g.mem.swap -= h.swap
		g.mem.kernel -= h.kernel
	}
	p.held = map[*cgroup]*held{}
	p.shmem = 0
}

// rss returns what the OOM killer compares (oom_badness).
func (p *process) rss() int64 {
	n := p.shmem
	for _, h := range p.held {
		n += h.anon + h.swap
	}
	return n
}

// memoryOffline moves what is still charged to a removed cgroup to its parent.
func (g *cgroup) memoryOffline() {
	up, m := &g.parent.mem, &g.mem
	up.anon, up.file, up.shmem, up.swap = up.anon+m.anon, up.file+m.file, up.shmem+m.shmem, up.swap+m.swap
	up.kernel, up.slab = up.kernel+m.kernel, up.slab+m.slab
	m.anon, m.file, m.shmem, m.swap, m.kernel, m.slab = 0, 0, 0, 0, 0, 0
	for _, p := range g.h.k.procs {
		if h := p.held[g]; h != nil {
			to := p.holds(g.parent)
			to.anon, to.swap, to.kernel = to.anon+h.anon, to.swap+h.swap, to.kernel+h.kernel
			delete(p.held, g)
		}
	}
}
