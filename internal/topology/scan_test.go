package topology

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/must"
)

var update = flag.Bool("update", false, "rewrite the want files of testdata/*.txtar")

// TestScanFixtures scans each tree of testdata and compares the result with the file "want" in it.
func TestScanFixtures(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no fixtures: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			must.NoError(t, err)
			node, err := Scan(openTree(t, archive))
			must.NoError(t, err)
			got := describe(node)
			i := slices.IndexFunc(archive.Files, func(f txtar.File) bool { return f.Name == "want" })
			if *update {
				if i < 0 {
					i = len(archive.Files)
					archive.Files = append(archive.Files, txtar.File{Name: "want"})
				}
				archive.Files[i].Data = []byte(got)
				must.NoError(t, os.WriteFile(path, txtar.Format(archive), 0o644))
			}
			if i < 0 {
				t.Fatal("no file \"want\" in the fixture")
			}
			must.Equal(t, "Scan", string(archive.Files[i].Data), got)
			check(t, node)
		})
	}
}

// describe writes node one line a thing.
func describe(node *Node) string {
	var b strings.Builder
	fmt.Fprintf(&b, "online %v threads %d mem %d swap %d tasks %d\n", node.Online, node.Threads, node.MemTotal,
		node.SwapTotal, node.Tasks)
	for _, n := range node.NUMA {
		fmt.Fprintf(&b, "numa %d cpus %q mem %d has memory %t\n", n.ID, n.CPUs, n.MemTotal, n.HasMemory)
	}
	for _, c := range node.CPUs {
		fmt.Fprintf(&b, "cpu %d core %d socket %d numa %d siblings %v\n", c.ID, c.Core, c.Socket, c.NUMA, c.Siblings)
	}
	return b.String()
}

// check tests what holds for every node.
func check(t *testing.T, node *Node) {
	t.Helper()
	var inNUMA, listed kernfs.IDSet
	for _, n := range node.NUMA {
		if !inNUMA.Intersect(n.CPUs).IsEmpty() {
			t.Errorf("NUMA node %d shares cpus %v with another", n.ID, inNUMA.Intersect(n.CPUs))
		}
		inNUMA = inNUMA.Union(n.CPUs)
	}
	for _, c := range node.CPUs {
		listed = listed.Union(kernfs.IDs(c.ID))
		if !c.Siblings.Has(c.ID) || c.Core != c.Siblings.List()[0] {
			t.Errorf("cpu %d: core %d, siblings %v", c.ID, c.Core, c.Siblings)
		}
		i := slices.IndexFunc(node.NUMA, func(n NUMANode) bool { return n.ID == c.NUMA })
		if i < 0 || !node.NUMA[i].CPUs.Has(c.ID) {
			t.Errorf("cpu %d: NUMA node %d does not hold it", c.ID, c.NUMA)
		}
	}
	if !listed.Equal(node.Online) || !inNUMA.Equal(node.Online) {
		t.Errorf("online %v, listed %v, in NUMA nodes %v", node.Online, listed, inNUMA)
	}
}

func TestScanThisMachine(t *testing.T) {
	roots, err := kernfs.OpenRoots()
	if err != nil {
		t.Skipf("no kernel file systems: %v", err)
	}
	node, err := Scan(roots)
	must.NoError(t, err)
	check(t, node)
	if node.MemTotal <= 0 || node.Threads < 1 {
		t.Errorf("MemTotal %d, Threads %d", node.MemTotal, node.Threads)
	}
}

func TestScanErrors(t *testing.T) {
	const base = "-- proc/meminfo --\nMemTotal: 1024 kB\n-- sys/devices/system/cpu/online --\n0\n"
	for _, tt := range []struct {
		name, tree string
		parse      bool // a *kernfs.ParseError, else fs.ErrNotExist or neither
		missing    bool
	}{
		{name: "no meminfo", tree: "-- proc/x --\n-- sys/devices/system/cpu/online --\n0\n", missing: true},
		{name: "no MemTotal", tree: "-- proc/meminfo --\nMemFree: 1 kB\n-- sys/devices/system/cpu/online --\n0\n",
			parse: true},
		{name: "MemTotal in another unit",
			tree: "-- proc/meminfo --\nMemTotal: 1 MB\n-- sys/devices/system/cpu/online --\n0\n", parse: true},
		{name: "MemTotal too large", tree: "-- proc/meminfo --\nMemTotal: 9223372036854775807 kB\n-- " +
			"sys/devices/system/cpu/online --\n0\n", parse: true},
		{name: "bad swap", tree: base + "-- proc/meminfo --\nMemTotal: 1024 kB\nSwapTotal: -1 kB\n", parse: true},
		{name: "no cpu at all", tree: "-- proc/meminfo --\nMemTotal: 1 kB\n-- sys/x --\n"},
		{name: "bad online list", tree: base + "-- sys/devices/system/cpu/online --\n0-\n", parse: true},
		{name: "bad siblings", tree: base + "-- sys/devices/system/cpu/cpu0/topology/thread_siblings_list --\nx\n",
			parse: true},
		{name: "bad socket", tree: base + "-- sys/devices/system/cpu/cpu0/topology/physical_package_id --\nx\n",
			parse: true},
		{name: "bad cpulist", tree: base +
			"-- sys/devices/system/node/online --\n0\n-- sys/devices/system/node/node0/cpulist --\nx\n", parse: true},
		{name: "bad node meminfo", tree: base +
			"-- sys/devices/system/node/online --\n0\n-- sys/devices/system/node/node0/meminfo --\nx\n", parse: true},
		{name: "bad has_memory", tree: base +
			"-- sys/devices/system/node/online --\n0\n-- sys/devices/system/node/has_memory --\nx\n", parse: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			node, err := Scan(openTree(t, txtar.Parse([]byte(tt.tree))))
			if err == nil || node != nil {
				t.Fatalf("Scan = %v, %v, want an error", node, err)
			}
			var parse *kernfs.ParseError
			if errors.As(err, &parse) != tt.parse || errors.Is(err, fs.ErrNotExist) != tt.missing {
				t.Errorf("error %q: parse %t, missing %t, want %t, %t", err, errors.As(err, &parse),
					errors.Is(err, fs.ErrNotExist), tt.parse, tt.missing)
			}
		})
	}
}

func BenchmarkScan(b *testing.B) {
	archive, err := txtar.ParseFile("testdata/two-sockets-ht.txtar")
	must.NoError(b, err)
	roots := openTree(b, archive)
	for b.Loop() {
		if _, err := Scan(roots); err != nil {
			b.Fatal(err)
		}
	}
}

// openTree writes the files of archive below a directory and opens its proc and sys.
func openTree(tb testing.TB, archive *txtar.Archive) kernfs.Roots {
	tb.Helper()
	dir := tb.TempDir()
	for _, file := range archive.Files {
		path := filepath.Join(dir, file.Name)
		must.NoError(tb, os.MkdirAll(filepath.Dir(path), 0o755))
		must.NoError(tb, os.WriteFile(path, file.Data, 0o644))
	}
	var roots kernfs.Roots
	for name, to := range map[string]**kernfs.FS{"proc": &roots.Proc, "sys": &roots.Sys} {
		root, err := kernfs.Open(filepath.Join(dir, name))
		must.NoError(tb, err)
		*to = root
	}
	return roots
}

// The totals of a running machine change. All else is scanned anew with them, and only then.
func TestNodeIsScannedAgainWhereItsTotalsAreOthers(t *testing.T) {
	const cpus = "-- sys/devices/system/cpu/online --\n0\n"
	tree := func(totals string) kernfs.Roots {
		return openTree(t, txtar.Parse([]byte("-- proc/meminfo --\n"+totals+cpus)))
	}
	const small = "MemTotal: 1024 kB\nSwapTotal: 8 kB\n-- proc/sys/kernel/pid_max --\n4194304\n" +
		"-- proc/sys/kernel/threads-max --\n7000\n"
	node, err := Scan(tree(small))
	must.NoError(t, err)
	must.Equal(t, "the lesser of pid_max and threads-max", int64(7000), node.Tasks)
	for was, is := range map[string]string{"": "", "MemTotal: 1": "MemTotal: 2", "SwapTotal: 8": "SwapTotal: 0",
		"7000": "6000"} {
		again, err := node.Again(tree(strings.Replace(small, was, is, 1)))
		must.NoError(t, err)
		if (again == node) != (was == "") {
			t.Errorf("%q instead of %q: %+v", is, was, again)
		}
	}
}
