package kernfstest

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"golang.org/x/tools/txtar"

	"github.com/hookhost/hookhost/internal/kernfs"
)

var capture = flag.Bool("capture", false, "capture a new cgroup of every hierarchy of this machine anew, as root")

// newCgroups has the files of a new cgroup in every hierarchy, below HIERARCHY/new.
const newCgroups = "../../../testdata/kernel/new-cgroups-6.18.txtar"

// notOurs are files that no released kernel has.
var notOurs = []string{"memory.shown_ram_in_bytes"}

var captured = append(slices.Clone(v1Controllers), "unified")

// TestNewCgroup compares every interface file of a new cgroup, its name and its text, with the captured kernel.
func TestNewCgroup(t *testing.T) {
	if *capture {
		captureNewCgroups(t)
	}
	want := FixtureRoots(t, newCgroups).Cgroup
	// The capture is of a machine with two cpus and one NUMA node.
	got := NewHybrid(On(Machine{CPUs: 2, Threads: 1, NUMA: 1, Mem: 16 << 30})).Roots().Cgroup
	for _, h := range captured {
		t.Run(h, func(t *testing.T) {
			if err := got.Mkdir(h + "/new"); err != nil {
				t.Fatal(err)
			}
			compareCgroups(t, readAll(t, want, h+"/new"), readAll(t, got, h+"/new"))
		})
	}
}

// TestNewCgroupKernel compares with the running kernel: the files that both have must read alike, and on the kernel
// that the tables were read from there are no others. An older kernel's may lack lines.
func TestNewCgroupKernel(t *testing.T) {
	w := realWorld(NeedV1(t, v1Controllers...), "")
	w.begin(t, v1Controllers...)
	fake := NewHybrid(On(here)).Roots().Cgroup
	for _, h := range v1Controllers {
		t.Run(h, func(t *testing.T) {
			if err := w.cgroup.Mkdir(w.file(h + "/new")); err != nil && !errors.Is(err, fs.ErrExist) { // cpu and cpuacct may be one
				t.Fatal(err)
			}
			if err := fake.Mkdir(h + "/new"); err != nil {
				t.Fatal(err)
			}
			want, got := readAll(t, w.cgroup, w.file(h+"/new")), readAll(t, fake, h+"/new")
			if !strings.HasPrefix(release(t), "6.18.") {
				want, got = common(want, got), common(got, want)
				for name, text := range want {
					got[name] = commonLines(got[name], text)
				}
			}
			compareCgroups(t, want, got)
		})
	}
}

func compareCgroups(t *testing.T, want, got map[string]string) {
	t.Helper()
	for _, name := range notOurs {
		delete(want, name)
	}
	// What these count depends on the configuration of the kernel.
	delete(want, "cgroup.stat")
	delete(got, "cgroup.stat")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-kernel +fake):\n%s", diff)
	}
}

func common(a, b map[string]string) map[string]string {
	c := map[string]string{}
	for name, text := range a {
		if _, ok := b[name]; ok {
			c[name] = text
		}
	}
	return c
}

// commonLines returns the lines of a that begin with a word that one of b begins with.
func commonLines(a, b string) string {
	var c strings.Builder
	for line := range strings.Lines(a) {
		key, _, _ := strings.Cut(line, " ")
		if key == line || strings.HasPrefix(b, key+" ") || strings.Contains(b, "\n"+key+" ") {
			c.WriteString(line)
		}
	}
	return c.String()
}

// readAll returns the text of each file of a directory; "" of those that cannot be read.
func readAll(t *testing.T, cgroup *kernfs.FS, dir string) map[string]string {
	t.Helper()
	f, err := cgroup.OpenFile(dir, os.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	entries, err := f.ReadDir(-1)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		b, err := cgroup.ReadFile(path.Join(dir, e.Name()))
		if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, fs.ErrPermission) {
			t.Fatal(err)
		}
		files[e.Name()] = string(b)
	}
	return files
}

func captureNewCgroups(t *testing.T) {
	w := realWorld(NeedV1(t, v1Controllers...), "unified")
	w.begin(t, captured...)
	a := &txtar.Archive{Comment: fmt.Appendf(nil, "Linux %s, %s, %d cpus, %d NUMA node.\n"+
		"A new cgroup in every hierarchy: go test ./internal/kernfs/kernfstest -run 'TestNewCgroup$' -capture\n"+
		"Write-only files are empty. Left out: %s.\n\n",
		version(t), time.Now().Format(time.DateOnly), here.CPUs, here.NUMA, strings.Join(notOurs, " "))}
	for _, h := range captured {
		if err := w.cgroup.Mkdir(w.file(h + "/new")); err != nil {
			t.Fatal(err)
		}
		files := readAll(t, w.cgroup, w.file(h+"/new"))
		for _, name := range sortedKeys(files) {
			if !slices.Contains(notOurs, name) {
				a.Files = append(a.Files, txtar.File{Name: "sys/fs/cgroup/" + h + "/new/" + name, Data: []byte(files[name])})
			}
		}
	}
	if err := os.MkdirAll(path.Dir(newCgroups), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(newCgroups, txtar.Format(a), 0o644); err != nil {
		t.Fatal(err)
	}
}

func sortedKeys(m map[string]string) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// version is the release without what a builder added to it.
func version(t *testing.T) string {
	v, _, _ := strings.Cut(release(t), "-")
	return v
}

func release(t *testing.T) string {
	t.Helper()
	proc, err := kernfs.Open("/proc")
	if err != nil {
		t.Fatal(err)
	}
	b, err := proc.ReadFile("sys/kernel/osrelease")
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}
