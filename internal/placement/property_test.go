package placement

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/topology"
)

// check tests what holds for every answer of Place.
func check(t *testing.T, node *topology.Node, req Request, got Assignment, err error) {
	t.Helper()
	if t.Failed() || req.NCPUs < 0 {
		return
	}
	free := freeUnits(node, req)
	if req.NCPUs > free {
		var shortage *ShortageError
		if !errors.As(err, &shortage) || shortage.Have != int64(free) || shortage.Want != int64(req.NCPUs) {
			t.Errorf("%+v: %v, want a shortage with %d to have", req, err, free)
		}
		return
	}
	if err != nil {
		t.Errorf("%+v: %v, though %d cpus are free", req, err, free)
		return
	}
	usable := req.Allowed.Intersect(node.Online).Minus(req.Taken)
	if !got.CPUs.Minus(usable).IsEmpty() {
		t.Errorf("%+v: cpus %v, of which %v are not to be had", req, got.CPUs, got.CPUs.Minus(usable))
	}
	checkCount(t, node, req, got)
	checkSharing(t, node, req, got)
	checkLocality(t, node, req, got)
	checkMems(t, node, req, got)
}

// coreThreads returns the allowed threads of each core, and whether nobody else uses the core.
func coreThreads(node *topology.Node, req Request) (threads map[int]kernfs.IDSet, idle map[int]bool) {
	threads, idle = map[int]kernfs.IDSet{}, map[int]bool{}
	for _, cpu := range node.CPUs {
		threads[cpu.Core] = cpu.Siblings.Intersect(req.Allowed)
		idle[cpu.Core] = cpu.Siblings.Intersect(req.Taken).IsEmpty()
	}
	return threads, idle
}

func freeUnits(node *topology.Node, req Request) int {
	threads, idle := coreThreads(node, req)
	n := 0
	for core, set := range threads {
		switch {
		case req.UseHyperthreads && !req.NCPUsAreCores:
			n += set.Minus(req.Taken).Len()
		case idle[core] && !set.IsEmpty():
			n++
		}
	}
	return n
}

func checkCount(t *testing.T, node *topology.Node, req Request, got Assignment) {
	t.Helper()
	threads, _ := coreThreads(node, req)
	n := 0
	for core, set := range threads {
		mine := set.Intersect(got.CPUs)
		switch {
		case req.UseHyperthreads && req.NCPUsAreCores:
			if !mine.IsEmpty() {
				n++
				if !mine.Equal(set) {
					t.Errorf("%+v: cpus %v are part of core %d", req, mine, core)
				}
			}
		default:
			n += mine.Len()
			if !req.UseHyperthreads && mine.Len() > 1 {
				t.Errorf("%+v: cpus %v of core %d", req, mine, core)
			}
		}
	}
	if n != req.NCPUs {
		t.Errorf("%+v: %d cpus: %v", req, n, got.CPUs)
	}
}

// checkSharing tests that a core is shared with another job only when the NUMA node has no idle
// core left.
func checkSharing(t *testing.T, node *topology.Node, req Request, got Assignment) {
	t.Helper()
	threads, idle := coreThreads(node, req)
	type place struct{ numa, socket int }
	shared, wasted := map[place]bool{}, map[place]bool{}
	for _, cpu := range node.CPUs {
		mine := threads[cpu.Core].Intersect(got.CPUs)
		at := place{cpu.NUMA, cpu.Socket}
		switch {
		case idle[cpu.Core] && req.UseHyperthreads && !mine.Equal(threads[cpu.Core]):
			wasted[at] = true
		case !idle[cpu.Core] && !mine.IsEmpty():
			shared[at] = true
		}
	}
	for at := range shared {
		if wasted[at] {
			t.Errorf("%+v: cpus %v share a core in %+v, which has idle threads in idle cores", req, got.CPUs, at)
		}
	}
}

// checkLocality tests that a job is in one NUMA node or one socket where one takes it, unless it
// fills whole sockets.
func checkLocality(t *testing.T, node *topology.Node, req Request, got Assignment) {
	t.Helper()
	if req.MemFences && req.Mem > 0 || req.NCPUs == 0 {
		return
	}
	m := newMachine(node, req)
	used := map[*leaf]bool{}
	wholeSockets := true
	socketsUsed := 0
	for _, s := range m.sockets {
		n := 0
		for _, l := range s.leaves {
			for _, c := range l.cores {
				for _, id := range c.threads {
					if got.CPUs.Has(id) {
						used[l] = true
						n++
					}
				}
			}
		}
		if n == 0 {
			continue
		}
		socketsUsed++
		for _, l := range s.leaves {
			wholeSockets = wholeSockets && (used[l] || l.total == 0)
		}
		wholeSockets = wholeSockets && s.whole()
	}
	if wholeSockets {
		return
	}
	for _, l := range m.leaves {
		if l.free >= req.NCPUs && len(used) > 1 && socketsUsed > 1 {
			t.Errorf("%+v: cpus %v in %d sockets, though NUMA node %d has %d free", req, got.CPUs, socketsUsed, l.numa,
				l.free)
		}
	}
	for _, s := range m.sockets {
		if s.free >= req.NCPUs && socketsUsed > 1 {
			t.Errorf("%+v: cpus %v in %d sockets, though one has %d free", req, got.CPUs, socketsUsed, s.free)
		}
	}
	if least := fewestLeaves(m.leaves, req.NCPUs); socketsUsed > 1 && len(used) > least {
		t.Errorf("%+v: cpus %v in %d NUMA nodes, %d would do", req, got.CPUs, len(used), least)
	}
}

func fewestLeaves(leaves []*leaf, n int) int {
	sorted := ranked(leaves, func(a, b *leaf) bool { return a.free > b.free })
	for i, l := range sorted {
		if n -= l.free; n <= 0 {
			return i + 1
		}
	}
	return len(leaves)
}

func checkMems(t *testing.T, node *topology.Node, req Request, got Assignment) {
	t.Helper()
	var every, own, memoryOnly kernfs.IDSet
	for _, n := range node.NUMA {
		id := kernfs.IDs(n.ID)
		if !n.HasMemory {
			continue
		}
		every = every.Union(id)
		if n.CPUs.IsEmpty() {
			memoryOnly = memoryOnly.Union(id)
		} else if !n.CPUs.Intersect(got.CPUs).IsEmpty() {
			own = own.Union(id)
		}
	}
	least, most := own.Union(memoryOnly), every
	if !req.MemFences || own.IsEmpty() {
		least = every
	} else if req.Mem == 0 || req.FreeMem == nil {
		most = least
	}
	if !least.Minus(got.Mems).IsEmpty() || !got.Mems.Minus(most).IsEmpty() {
		t.Errorf("%+v: mems %v for cpus %v, want at least %v and at most %v", req, got.Mems, got.CPUs, least, most)
	}
}

// randomNode returns a machine with some cpus offline and some NUMA nodes without memory.
func randomNode(r *rand.Rand) *topology.Node {
	node := shape{1 + r.IntN(3), 1 + r.IntN(3), 1 + r.IntN(5), 1 + r.IntN(3), r.IntN(2)}.build()
	offline := randomSubset(r, node.Online, r.IntN(4))
	if offline.Equal(node.Online) {
		return node
	}
	var cpus []topology.CPU
	for _, cpu := range node.CPUs {
		if offline.Has(cpu.ID) {
			continue
		}
		cpu.Siblings = cpu.Siblings.Minus(offline)
		cpu.Core = cpu.Siblings.List()[0]
		cpus = append(cpus, cpu)
	}
	node.CPUs, node.Online = cpus, node.Online.Minus(offline)
	for i := range node.NUMA {
		node.NUMA[i].CPUs = node.NUMA[i].CPUs.Minus(offline)
		if i > 0 && r.IntN(6) == 0 {
			node.NUMA[i].HasMemory = false
		}
	}
	return node
}

// randomSubset keeps each id with a chance of tenths in ten.
func randomSubset(r *rand.Rand, set kernfs.IDSet, tenths int) kernfs.IDSet {
	var kept []int
	for _, id := range set.List() {
		if r.IntN(10) < tenths {
			kept = append(kept, id)
		}
	}
	return kernfs.IDs(kept...)
}

func randomRequest(r *rand.Rand, node *topology.Node) Request {
	req := Request{
		NCPUs:           r.IntN(node.Online.Len() + 2),
		Allowed:         randomSubset(r, node.Online, 7+r.IntN(4)).Union(randomSubset(r, kernfs.IDs(200, 201), 5)),
		Taken:           randomSubset(r, node.Online, r.IntN(10)),
		Policy:          Policy(r.IntN(2)),
		UseHyperthreads: r.IntN(2) == 0,
		NCPUsAreCores:   r.IntN(2) == 0,
		MemFences:       r.IntN(2) == 0,
	}
	if r.IntN(2) == 0 {
		req.Mem = r.Int64N(40)
		req.FreeMem = map[int]int64{}
		for _, n := range node.NUMA {
			req.FreeMem[n.ID] = r.Int64N(20)
		}
	}
	return req
}

// checkRandom places one random request on one random machine, twice.
func checkRandom(t *testing.T, seed1, seed2 uint64) {
	r := rand.New(rand.NewPCG(seed1, seed2))
	node := randomNode(r)
	req := randomRequest(r, node)
	got, err := Place(node, req)
	check(t, node, req, got, err)
	again, err2 := Place(node, req)
	if !again.CPUs.Equal(got.CPUs) || !again.Mems.Equal(got.Mems) || errorText(err) != errorText(err2) {
		t.Errorf("%+v: %v, %v, the second time %v, %v", req, got, err, again, err2)
	}
}

func TestPlaceRandomly(t *testing.T) {
	for seed := range uint64(5000) {
		checkRandom(t, seed, 1)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// TestPlaceJobsOneByOne lets random jobs come and go and checks that no two ever share a cpu.
func TestPlaceJobsOneByOne(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 2))
		node := randomNode(r)
		base := randomRequest(r, node)
		var jobs []kernfs.IDSet
		for range 60 {
			if len(jobs) > 0 && r.IntN(3) == 0 {
				i := r.IntN(len(jobs))
				jobs = append(jobs[:i], jobs[i+1:]...)
				continue
			}
			req := base
			req.NCPUs = 1 + r.IntN(4)
			req.Taken = kernfs.IDSet{}
			for _, job := range jobs {
				if !req.Taken.Intersect(job).IsEmpty() {
					t.Fatalf("seed %d: cpus %v belong to two jobs", seed, req.Taken.Intersect(job))
				}
				req.Taken = req.Taken.Union(job)
			}
			got, err := Place(node, req)
			check(t, node, req, got, err)
			if err == nil {
				jobs = append(jobs, got.CPUs)
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
