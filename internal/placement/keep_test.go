package placement

import (
	"math/rand/v2"
	"testing"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/topology"
)

// TestJobThatGrowsOrShrinksKeepsItsCPUs pins where a job's cpus go when it grows and shrinks. The
// machine has 2 sockets of 2 nodes of 4 cores with 2 threads. The cpus 0 to 15 are first threads,
// 16 to 31 second ones.
func TestJobThatGrowsOrShrinksKeepsItsCPUs(t *testing.T) {
	ids := func(text string) kernfs.IDSet {
		t.Helper()
		set, err := kernfs.ParseIDSet(text)
		must.NoError(t, err)
		return set
	}
	for _, tt := range []struct {
		name                    string
		ncpus                   int
		keep, taken, cpus, mems string
		threads, cores, fences  bool
	}{
		{name: "as many", ncpus: 2, keep: "5,9", cpus: "5,9", mems: "0-3"},
		{name: "fewer, out of the NUMA node where it has least", ncpus: 3, keep: "4-6,9", cpus: "4-6", mems: "1",
			fences: true},
		{name: "more, in its NUMA node", ncpus: 4, keep: "5", taken: "0", cpus: "4-7", mems: "1", fences: true},
		{name: "more than its NUMA node has, in its socket", ncpus: 6, keep: "4-7", cpus: "0-1,4-7", mems: "0-1",
			fences: true},
		{name: "more than its socket has", ncpus: 9, keep: "0-7", cpus: "0-8", mems: "0-2", fences: true},
		{name: "what is taken is lost", ncpus: 2, keep: "0-1", taken: "1", cpus: "0,2", mems: "0-3"},
		{name: "nothing can stay", ncpus: 1, keep: "1", taken: "1,17", cpus: "0", mems: "0-3"},
		{name: "more threads, of its own cores first", ncpus: 3, keep: "1-2", cpus: "1-2,17", mems: "0-3",
			threads: true},
		{name: "not of cores that others use", ncpus: 2, keep: "1", taken: "17", cpus: "0-1", mems: "0-3",
			threads: true},
		{name: "fewer threads, of as few cores as possible", ncpus: 2, keep: "1-2,17-18", cpus: "1,17", mems: "0-3",
			threads: true},
		{name: "more cores", ncpus: 2, keep: "3,19", cpus: "0,3,16,19", mems: "0-3", threads: true, cores: true},
		{name: "fewer cores", ncpus: 1, keep: "3,8,19,24", cpus: "3,19", mems: "0-3", threads: true, cores: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			node := shape{2, 2, 4, 2, 0}.build()
			got, err := Place(node, Request{NCPUs: tt.ncpus, Allowed: node.Online, Keep: ids(tt.keep),
				Taken:           ids(tt.taken),
				UseHyperthreads: tt.threads, NCPUsAreCores: tt.cores, MemFences: tt.fences})
			if err != nil || !got.CPUs.Equal(ids(tt.cpus)) || !got.Mems.Equal(ids(tt.mems)) {
				t.Errorf("cpus %s, mems %s, %v; want %s, %s", got.CPUs, got.Mems, err, tt.cpus, tt.mems)
			}
		})
	}
}

// checkResize places a random job on a random machine and then gives it another size beside other
// jobs.
func checkResize(t *testing.T, seed1, seed2 uint64) {
	r := rand.New(rand.NewPCG(seed1, seed2))
	node := randomNode(r)
	req := randomRequest(r, node)
	had, err := Place(node, req)
	if err != nil {
		return
	}
	before := req.NCPUs
	req.Keep, req.NCPUs = had.CPUs, r.IntN(node.Online.Len()+2)
	got, err := Place(node, req)
	checkKept(t, node, req, got, err)
	switch {
	case err != nil || req.NCPUs == 0:
	case req.NCPUs >= before && !had.CPUs.Minus(got.CPUs).IsEmpty():
		t.Errorf("%+v: %v instead of %v: lost %v", req, got.CPUs, had.CPUs, had.CPUs.Minus(got.CPUs))
	case req.NCPUs <= before && !got.CPUs.Minus(had.CPUs).IsEmpty():
		t.Errorf("%+v: %v instead of %v: moved to %v", req, got.CPUs, had.CPUs, got.CPUs.Minus(had.CPUs))
	}
	// A set to keep that has nothing to do with what the job could have had is no reason to give it
	// anything wrong.
	req.Keep = randomSubset(r, node.Online, r.IntN(10))
	got, err = Place(node, req)
	checkKept(t, node, req, got, err)
}

// checkKept tests what holds for a job that keeps cpus as for any other; where it has them need not
// be the best place.
func checkKept(t *testing.T, node *topology.Node, req Request, got Assignment, err error) {
	t.Helper()
	if (err == nil) != (req.NCPUs <= freeUnits(node, req)) {
		t.Errorf("%+v: error %v with %d free", req, err, freeUnits(node, req))
	}
	if err != nil {
		return
	}
	if usable := req.Allowed.Intersect(node.Online).Minus(req.Taken); !got.CPUs.Minus(usable).IsEmpty() {
		t.Errorf("%+v: cpus %v, of which %v are not to be had", req, got.CPUs, got.CPUs.Minus(usable))
	}
	checkCount(t, node, req, got)
	checkMems(t, node, req, got)
}

func TestKeepRandomly(t *testing.T) {
	for seed := range uint64(5000) {
		checkResize(t, seed, 3)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
