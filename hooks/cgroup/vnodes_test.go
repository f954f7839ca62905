package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/placement"
	"github.com/hookhost/hookhost/internal/topology"
)

var update = flag.Bool("update", false, "rewrite testdata/vnodes.golden")

// machines are those whose vnodes are published: a 2 x 2 x 2 machine and the fixtures of
// internal/topology.
func machines(t testing.TB) map[string]kernfs.Roots {
	all := map[string]kernfs.Roots{
		"two-sockets-two-cores-two-threads": kernfstest.NewV2(kernfstest.On(kernfstest.Machine{CPUs: 8, Threads: 2,
			NUMA: 2, Mem: 16 << 30, Swap: 2 << 30})).Roots(),
	}
	for _, name := range []string{"linux618-2cpu", "memory-only", "memoryless", "no-numa", "no-topology",
		"offline-cpus", "sparse", "twelve-nodes",
		"two-sockets-ht", "huge-pages"} {
		all[name] = fixture(t, name)
	}
	return all
}

// fixture is a machine of internal/topology. It uses nothing of this machine. Tests that need it
// run elsewhere if the test program was copied without the source tree.
func fixture(t testing.TB, name string) kernfs.Roots {
	t.Helper()
	const dir = "../../internal/topology/testdata/"
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		kernfstest.Elsewhere(t, "the fixtures of internal/topology")
	}
	return kernfstest.FixtureRoots(t, dir+name+".txtar")
}

func hostOf(t testing.TB, roots kernfs.Roots, p *policy) (host, map[int]int64) {
	t.Helper()
	node, err := topology.Scan(roots)
	must.NoError(t, err)
	h := host{node: node, cpus: p.Cpuset.Left(node.Online), has: func(string) bool { return true }}
	for _, n := range node.NUMA {
		if n.HasMemory {
			h.mems = h.mems.Union(kernfs.IDs(n.ID))
		}
	}
	if p.Hugetlb.Enabled {
		if h.hugePages, err = topology.ScanHugePages(roots); err != nil {
			t.Fatal(err)
		}
	}
	huge, err := hugeByNUMA(roots.Sys, node, h.hugePages)
	must.NoError(t, err)
	return h, huge
}

func policyOf(t testing.TB, edit func(*config.File)) *policy {
	t.Helper()
	p, err := newPolicy(nil)
	must.NoError(t, err)
	if edit != nil {
		edit(&p.File)
	}
	return p
}

// TestVnodesGolden records what PBS is told about each machine.
func TestVnodesGolden(t *testing.T) {
	const file = "testdata/vnodes.golden"
	var b strings.Builder
	all := machines(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, c := range []struct {
			name string
			edit func(*config.File)
		}{
			{"as it comes", func(*config.File) {}},
			{"hyperthreads", func(f *config.File) { f.Cpuset.UseHyperthreads = true }},
			{"hyperthreads, ncpus are cores",
				func(f *config.File) { f.Cpuset.UseHyperthreads, f.Cpuset.NCPUsAreCores = true, true }},
			{"a vnode a NUMA node, 10% and 1gb reserved, cpu 0 excluded, huge pages", func(f *config.File) {
				f.Vnodes.PerNUMANode, f.Cpuset.ExcludeCPUs, f.Hugetlb.Enabled = true, "0", true
				f.Memory.ReservePercent, f.Memory.ReserveAmount = 10, pbs.Size(gib)
			}},
		} {
			p := policyOf(t, c.edit)
			h, huge := hostOf(t, all[name], p)
			fmt.Fprintf(&b, "%s: %s\n", name, c.name)
			vnodes := p.vnodes(h, huge, "n1", "fat", map[string]*hostapi.Vnode{"n1": {Sharing: "default_shared"}}, nil)
			for _, v := range slices.SortedFunc(maps.Keys(vnodes),
				func(a, b string) int { return len(a)*1000 - len(b)*1000 + strings.Compare(a, b) }) {
				r := vnodes[v].ResourcesAvailable
				fmt.Fprintf(&b, "  %-7s ncpus %2s  mem %11s  vmem %11s  hpmem %9s  vntype %s %s\n", v, r["ncpus"],
					r["mem"], r["vmem"], r["hpmem"], r["vntype"], vnodes[v].Sharing)
			}
		}
	}
	if *update {
		must.NoError(t, os.WriteFile(file, []byte(b.String()), 0o644))
	}
	want, err := os.ReadFile(file)
	must.NoError(t, err)
	must.Equal(t, "", string(want), b.String())
}

// TestVnodesAreTaken: a job that requests exactly what a vnode has is accepted. So are simultaneous
// jobs that together request all vnodes completely, but not one more cpu. That is true for each
// configuration.
func TestVnodesAreTaken(t *testing.T) {
	all := machines(t)
	names := slices.Sorted(maps.Keys(all))
	r := rand.New(rand.NewPCG(7, 7))
	for range 600 {
		name := names[r.IntN(len(names))]
		p := policyOf(t, func(f *config.File) {
			f.Vnodes.PerNUMANode = r.IntN(3) > 0
			f.Cpuset.UseHyperthreads, f.Cpuset.NCPUsAreCores, f.Cpuset.MemFences = r.IntN(2) == 0, r.IntN(2) == 0,
				r.IntN(2) == 0
			f.Cpuset.ExcludeCPUs = []string{"", "0", "1-2", "0,3,8"}[r.IntN(4)]
			f.Memory.ReservePercent, f.Memsw.ReservePercent = float64(r.IntN(100)), r.Float64()*100
			f.Memory.ReserveAmount, f.Memory.Hidden = pbs.Size(r.Int64N(4*gib)), pbs.Size(r.Int64N(64*mib))
			f.Memsw.ReserveAmount, f.Memsw.Hidden = pbs.Size(r.Int64N(gib)), pbs.Size(r.Int64N(64*mib))
			f.Hugetlb.Enabled, f.Hugetlb.ReservePercent, f.Hugetlb.Hidden = r.IntN(2) == 0, r.Float64()*100,
				pbs.Size(r.Int64N(4*mib))
			f.Memsw.Enabled = r.IntN(2) == 0
		})
		h, huge := hostOf(t, all[name], p)
		vnodes := p.vnodes(h, huge, testNode, "", nil, nil)
		var others []holding
		for _, v := range slices.Sorted(maps.Keys(vnodes)) {
			// PBS leaves out the resources of which a vnode has nothing.
			chunk := "(" + v
			ncpus, _ := strconv.Atoi(vnodes[v].ResourcesAvailable["ncpus"])
			resources := 0
			for _, name := range []string{"ncpus", "mem", "vmem", "hpmem"} {
				if value := vnodes[v].ResourcesAvailable[name]; value != "0" && value != "0kb" {
					chunk += ":" + name + "=" + value
					resources++
				}
			}
			if mem, err := pbs.ParseSize(vnodes[v].ResourcesAvailable["mem"]); err != nil || resources == 0 ||
				0 < mem && int64(mem) < leastMem || p.memTotal(h.node) < leastMem {
				continue
			}
			a := askFrom(t, chunk+")")
			for what, held := range map[string][]holding{"an empty host": nil, "beside the other vnodes": others} {
				if _, _, err := p.decide(h, a, held); err != nil {
					t.Fatalf("%s, %s: %s): %v\n%+v", name, what, chunk, err, p.File)
				}
			}
			got, _ := p.assign(h, a, others)
			l := got.limits
			if i := strings.Index(v, "["); i >= 0 {
				numa, _ := strconv.Atoi(v[i+1 : len(v)-1])
				if !l.CPUs.Minus(cpusOf(h.node, numa)).IsEmpty() {
					t.Errorf("%s: %s) got cpus %v of other NUMA nodes", name, chunk, l.CPUs)
				}
			}
			others = append(others, p.holdingOf(h, got))
			if _, _, err := p.decide(h, askFrom(t, fmt.Sprintf("(%s:ncpus=%d)", v, ncpus+1)), nil); err == nil {
				t.Fatalf("%s: %s takes a job of %d cpus, and offers %d", name, v, ncpus+1, ncpus)
			}
		}
	}
}

func askFrom(t testing.TB, execVnode string) ask {
	t.Helper()
	a, err := askOf(&hostapi.Job{ID: "1", ExecVnode: execVnode}, testNode)
	must.NoError(t, err)
	return a
}

// TestVnodesPlaceJobs: the share of each named vnode is placed on its NUMA node.
func TestVnodesPlaceJobs(t *testing.T) {
	roots := fixture(t, "twelve-nodes")
	p := policyOf(t, func(f *config.File) { f.Vnodes.PerNUMANode, f.Cpuset.MemFences = true, true })
	h, _ := hostOf(t, roots, p)
	for _, tt := range []struct{ vnodes, cpus, mems, err string }{
		{"(node1[3]:ncpus=1)", "3", "3", ""},
		{"(node1[11]:ncpus=1+node1[2]:ncpus=1)", "2,11", "2,11", ""},
		{"(node1[10]:ncpus=1:mem=1gb)+(node1[1]:mem=1gb)", "10", "1,10", ""},
		{"(node1[0]:ncpus=1)+(node1[1]:ncpus=1)+(node1[2]:ncpus=1)+(node1[3]:ncpus=1)+(node1[4]:ncpus=1)+" +
			"(node1[6]:ncpus=1)+(node1[7]:ncpus=1)+(node1[8]:ncpus=1)+(node1[9]:ncpus=1)+(node1[11]:ncpus=1)",
			"0-4,6-9,11", "0-4,6-9,11", ""},
		{"(node1[3]:ncpus=2)", "", "", "NUMA node 3: ncpus requested (2) exceeds ncpus available (1)"},
		{"(node1[12]:ncpus=1)", "", "", "exec_vnode names NUMA node 12, which this host does not have"},
		{"(node1[3]:ncpus=1)+(node1:ncpus=1)", "0,3", "0,3", ""},
		{"(node1:ncpus=2)", "0-1", "0-1", ""},
	} {
		l, _, err := p.decide(h, askFrom(t, tt.vnodes), nil)
		if err != nil || tt.err != "" {
			if err == nil || err.Error() != tt.err {
				t.Errorf("%s: error %v, want %q", tt.vnodes, err, tt.err)
			}
			continue
		}
		if l.CPUs.String() != tt.cpus || l.Mems.String() != tt.mems {
			t.Errorf("%s: cpus %v mems %v, want %s and %s", tt.vnodes, l.CPUs, l.Mems, tt.cpus, tt.mems)
		}
	}
	taken := []holding{{id: "9", limits: cgroup.Limits{CPUs: kernfs.IDs(3)}}}
	_, _, err := p.decide(h, askFrom(t, "(node1[3]:ncpus=1)"), taken)
	if hostapi.KindOf(err) != hostapi.KindBusy {
		t.Errorf("a NUMA node that is taken: %v, want it busy", err)
	}
	p.Vnodes.PerNUMANode = false // then the index is not that of a NUMA node
	if l, _, err := p.decide(h, askFrom(t, "(node1[3]:ncpus=1)"), taken); err != nil || l.CPUs.Has(3) {
		t.Errorf("cpus %v, %v", l.CPUs, err)
	}
	if _, err := p.placed(h.node, placement.Request{NCPUs: -1}, ask{}); err == nil {
		t.Error("-1 cpus were placed")
	}
}

// TestStartupPublishes: exechost_startup reports the vnodes to PBS, with the vntype that the node
// has kept.
func TestStartupPublishes(t *testing.T) {
	onFakes(t, func(f *config.File) { f.Vnodes.PerNUMANode = true }, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
		out := n.do(hostapi.EventStartup, "", func(r *hostapi.Request) {
			r.VnodeList = map[string]*hostapi.Vnode{testNode: {ResourcesAvailable: hostapi.Resources{"vntype": "gpu",
				"ncpus": "8"}}}
		})
		if names := slices.Sorted(maps.Keys(out.Vnodes)); !slices.Equal(names,
			[]string{testNode, testNode + "[0]", testNode + "[1]"}) {
			t.Fatalf("vnodes %v", names)
		}
		natural, first := out.Vnodes[testNode].ResourcesAvailable, out.Vnodes[testNode+"[0]"].ResourcesAvailable
		want := hostapi.Resources{"ncpus": "0", "mem": "0kb", "vmem": "0kb", "hpmem": "0kb", "vntype": "gpu"}
		must.Equal(t, "natural vnode", want, natural)
		if first["ncpus"] != "2" || first["vntype"] != "gpu" {
			t.Errorf("%v", first)
		}
		// A begin can use everything that the vnode offers.
		n.do(hostapi.EventBegin, "1", func(r *hostapi.Request) {
			vnode := testNode + "[1]"
			r.Job.ExecVnode = "(" + vnode + ":ncpus=2:mem=" + out.Vnodes[vnode].ResourcesAvailable["mem"] + ")"
		})
		l, err := n.cgroup("1").Limits("cpuset")
		if err != nil || !l.CPUs.Equal(kernfs.IDs(2, 3)) {
			t.Errorf("cpus %v, %v, want those of NUMA node 1", l.CPUs, err)
		}
	})
}
