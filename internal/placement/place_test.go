package placement

import (
	"errors"
	"testing"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/topology"
)

// NUMA node k of smt has the cores 2k and 2k+1; core c has the threads c and c+8. Socket 0 has the
// nodes 0 and 1.
var (
	smt    = shape{sockets: 2, nodes: 2, cores: 2, threads: 2}
	single = shape{sockets: 1, nodes: 1, cores: 2, threads: 1} // two cpus, as small virtual machines have them
	flat   = shape{sockets: 2, nodes: 2, cores: 4, threads: 1} // node k has the cpus 4k to 4k+3
)

func TestPlaceTakesTheSmallestPart(t *testing.T) {
	for _, tt := range []struct {
		name  string
		shape shape
		edit  func(*topology.Node)
		req   Request
		allow string // "" is every cpu
		taken string
		cpus  string
		mems  string
		err   string
	}{
		{name: "one cpu", shape: single, req: Request{NCPUs: 1}, cpus: "0", mems: "0"},
		{name: "the other cpu", shape: single, req: Request{NCPUs: 1}, taken: "0", cpus: "1", mems: "0"},
		{name: "all", shape: single, req: Request{NCPUs: 2}, cpus: "0-1", mems: "0"},
		{name: "too many", shape: single, req: Request{NCPUs: 3},
			err: "ncpus requested (3) exceeds ncpus available (2)"},
		{name: "none left", shape: single, req: Request{NCPUs: 1}, taken: "0-1",
			err: "ncpus requested (1) exceeds ncpus available (0)"},
		{name: "nothing allowed", shape: single, req: Request{NCPUs: 1}, allow: "7",
			err: "ncpus requested (1) exceeds ncpus available (0)"},
		{name: "negative", shape: single, req: Request{NCPUs: -1}, err: "place job: -1 ncpus"},
		{name: "no cpus", shape: flat, req: Request{}, cpus: "", mems: "0-3"},
		{name: "no cpus with fences", shape: flat, req: Request{MemFences: true}, cpus: "", mems: "0-3"},

		{name: "a whole socket", shape: flat, req: Request{NCPUs: 8}, cpus: "0-7", mems: "0-3"},
		{name: "the other socket", shape: flat, req: Request{NCPUs: 8}, taken: "2", cpus: "8-15", mems: "0-3"},
		{name: "both sockets", shape: flat, req: Request{NCPUs: 16}, cpus: "0-15", mems: "0-3"},
		{name: "a whole node, packed", shape: flat, req: Request{NCPUs: 4}, taken: "9", cpus: "12-15", mems: "0-3"},
		{name: "a whole node, spread", shape: flat, req: Request{NCPUs: 4, Policy: Spread}, taken: "1", cpus: "8-11",
			mems: "0-3"},
		{name: "part of a node, packed", shape: flat, req: Request{NCPUs: 2}, taken: "4-5", cpus: "6-7", mems: "0-3"},
		{name: "part of a node, spread", shape: flat, req: Request{NCPUs: 2, Policy: Spread}, taken: "4-5", cpus: "8-9",
			mems: "0-3"},
		{name: "fullest node that still fits", shape: flat, req: Request{NCPUs: 2}, taken: "0-2,4-5,8", cpus: "6-7",
			mems: "0-3"},
		{name: "one socket, few nodes", shape: flat, req: Request{NCPUs: 5}, taken: "1,9-10", cpus: "8,12-15",
			mems: "0-3"},
		{name: "one socket, spread", shape: flat, req: Request{NCPUs: 5, Policy: Spread}, taken: "1", cpus: "8-12",
			mems: "0-3"},
		{name: "several nodes of two sockets", shape: flat, req: Request{NCPUs: 9}, taken: "1,9-10", cpus: "4-8,12-15",
			mems: "0-3"},
		{name: "last piece stays in the socket", shape: flat, req: Request{NCPUs: 10}, taken: "13-15", cpus: "0-7,8-9",
			mems: "0-3"},
		{name: "excluded cpus", shape: flat, req: Request{NCPUs: 3}, allow: "1-3,9-15", cpus: "1-3", mems: "0-3"},
		{name: "offline cpus are not allowed by the list", shape: single, req: Request{NCPUs: 3}, allow: "0-63",
			err: "ncpus requested (3) exceeds ncpus available (2)"},

		{name: "first threads only", shape: smt, req: Request{NCPUs: 4}, cpus: "0-3", mems: "0-3"},
		{name: "threads do not count", shape: smt, req: Request{NCPUs: 9},
			err: "ncpus requested (9) exceeds ncpus available (8)"},
		{name: "sibling of a taken thread", shape: smt, req: Request{NCPUs: 7}, taken: "8", cpus: "1-7", mems: "0-3"},
		{name: "sibling of a taken thread left", shape: smt, req: Request{NCPUs: 8}, taken: "8",
			err: "ncpus requested (8) exceeds ncpus available (7)"},
		{name: "only second threads allowed", shape: smt, req: Request{NCPUs: 2}, allow: "8-15", cpus: "8-9",
			mems: "0-3"},

		{name: "threads", shape: smt, req: Request{NCPUs: 4, UseHyperthreads: true}, cpus: "0-1,8-9", mems: "0-3"},
		{name: "all threads of a core first", shape: smt, req: Request{NCPUs: 3, UseHyperthreads: true}, cpus: "0-1,8",
			mems: "0-3"},
		{name: "idle core before a shared one", shape: smt, req: Request{NCPUs: 1, UseHyperthreads: true}, taken: "0",
			cpus: "1", mems: "0-3"},
		{name: "shared core at last", shape: smt, req: Request{NCPUs: 3, UseHyperthreads: true}, taken: "0",
			cpus: "1,8-9", mems: "0-3"},
		{name: "a socket of threads", shape: smt, req: Request{NCPUs: 8, UseHyperthreads: true}, taken: "15",
			cpus: "0-3,8-11", mems: "0-3"},
		{name: "taken thread that is not allowed", shape: smt, req: Request{NCPUs: 1, UseHyperthreads: true},
			allow: "0-7", taken: "8", cpus: "4", mems: "0-3"},

		{name: "cores", shape: smt, req: Request{NCPUs: 3, UseHyperthreads: true, NCPUsAreCores: true},
			cpus: "0-2,8-10", mems: "0-3"},
		{name: "cores that are idle", shape: smt, req: Request{NCPUs: 7, UseHyperthreads: true, NCPUsAreCores: true},
			taken: "9", cpus: "0,2-8,10-15", mems: "0-3"},
		{name: "too many cores", shape: smt, req: Request{NCPUs: 8, UseHyperthreads: true, NCPUsAreCores: true},
			taken: "9", err: "ncpus requested (8) exceeds ncpus available (7)"},
		{name: "core with one allowed thread", shape: smt,
			req: Request{NCPUs: 1, UseHyperthreads: true, NCPUsAreCores: true}, allow: "8-15", cpus: "8", mems: "0-3"},
		{name: "cores need hyperthreads", shape: smt, req: Request{NCPUs: 2, NCPUsAreCores: true}, cpus: "0-1",
			mems: "0-3"},

		{name: "fences", shape: flat, req: Request{NCPUs: 5, MemFences: true}, cpus: "0-4", mems: "0-1"},
		{name: "fences of a whole node", shape: flat, req: Request{NCPUs: 4, MemFences: true}, taken: "0", cpus: "4-7",
			mems: "1"},
		{name: "memory-only node", shape: shape{2, 1, 2, 1, 1}, req: Request{NCPUs: 2, MemFences: true}, cpus: "0-1",
			mems: "0,2"},
		{name: "memory-only node without fences", shape: shape{2, 1, 2, 1, 1}, req: Request{NCPUs: 2}, cpus: "0-1",
			mems: "0-2"},
		{
			name: "node without memory", shape: flat, req: Request{NCPUs: 4, MemFences: true}, cpus: "0-3", mems: "1-3",
			edit: func(n *topology.Node) { n.NUMA[0].HasMemory = false },
		},
		{
			name: "node without memory among others", shape: flat, req: Request{NCPUs: 8, MemFences: true}, cpus: "0-7",
			mems: "1",
			edit: func(n *topology.Node) { n.NUMA[0].HasMemory = false },
		},
		{
			name: "node with room", shape: flat, cpus: "8-9", mems: "2",
			req: Request{NCPUs: 2, MemFences: true, Mem: 5, FreeMem: map[int]int64{0: 4, 1: 4, 2: 5, 3: 9}},
		},
		{
			name: "room in the socket", shape: flat, cpus: "8-9", mems: "2-3",
			req: Request{NCPUs: 2, MemFences: true, Mem: 12, FreeMem: map[int]int64{0: 4, 1: 4, 2: 5, 3: 9}},
		},
		{
			name: "room nowhere in one socket", shape: flat, cpus: "0-1", mems: "0-1,3",
			req: Request{NCPUs: 2, MemFences: true, Mem: 16, FreeMem: map[int]int64{0: 4, 1: 4, 2: 5, 3: 9}},
		},
		{
			name: "room nowhere", shape: flat, cpus: "0-1", mems: "0-3",
			req: Request{NCPUs: 2, MemFences: true, Mem: 99, FreeMem: map[int]int64{0: 4, 1: 4, 2: 5, 3: 9}},
		},
		{
			name: "room in the memory-only node", shape: shape{2, 1, 2, 1, 1}, cpus: "0-1", mems: "0,2",
			req: Request{NCPUs: 2, MemFences: true, Mem: 9, FreeMem: map[int]int64{0: 1, 1: 1, 2: 8}},
		},
		{
			name: "memory does not weigh without fences", shape: flat, cpus: "0-1", mems: "0-3",
			req: Request{NCPUs: 2, Mem: 5, FreeMem: map[int]int64{3: 9}},
		},
		{
			name: "NUMA node of two sockets", shape: shape{2, 1, 4, 1, 0}, req: Request{NCPUs: 3, MemFences: true},
			taken: "0-1", cpus: "4-6", mems: "0",
			edit: func(n *topology.Node) {
				for i := range n.CPUs {
					n.CPUs[i].NUMA = 0
				}
				n.NUMA = []topology.NUMANode{{CPUs: n.Online, HasMemory: true}}
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			node := tt.shape.build()
			if tt.edit != nil {
				tt.edit(node)
			}
			tt.req.Allowed, tt.req.Taken = node.Online, ids(t, tt.taken)
			if tt.allow != "" {
				tt.req.Allowed = ids(t, tt.allow)
			}
			got, err := Place(node, tt.req)
			if text := errorText(err); text != tt.err {
				t.Fatalf("error %q, want %q", text, tt.err)
			}
			if err == nil && (!got.CPUs.Equal(ids(t, tt.cpus)) || got.Mems.String() != tt.mems) {
				t.Errorf("cpus %v mems %v, want %s and %s", got.CPUs, got.Mems, tt.cpus, tt.mems)
			}
			check(t, node, tt.req, got, err)
		})
	}
}

func TestShortageIsFound(t *testing.T) {
	node := single.build()
	_, err := Place(node, Request{NCPUs: 3, Allowed: node.Online})
	var shortage *ShortageError
	if !errors.As(err, &shortage) || *shortage != (ShortageError{Resource: "ncpus", Want: 3, Have: 2}) {
		t.Errorf("Place: %#v, want a shortage of ncpus, 3 of 2", err)
	}
}

func ids(t *testing.T, text string) kernfs.IDSet {
	t.Helper()
	set, err := kernfs.ParseIDSet(text)
	must.NoError(t, err)
	return set
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
