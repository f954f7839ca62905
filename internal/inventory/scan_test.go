package inventory

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/topology"
)

var update = flag.Bool("update", false, "rewrite testdata/*/devices.json")

// fixture returns the machine in testdata/NAME.txtar. The archive holds proc, sys, and the nodes in
// dev (each with the text "c 195:0"). nvml.json is NVML's answer, nvml.error its failure, and
// configured.json is Options.Devices.
func fixture(t testing.TB, name string) (kernfs.Roots, Options) {
	t.Helper()
	archive := filepath.Join("testdata", name+".txtar")
	root := kernfstest.Fixture(t, archive)
	o := Options{GPUs: true, NVML: "/usr/libexec/nvml", Limit: time.Minute}
	o.Ask = func(context.Context, string, time.Duration) (*NVIDIA, error) {
		if b, err := root.ReadFile("nvml.error"); err == nil {
			return nil, errors.New(strings.TrimSpace(string(b)))
		}
		b, err := root.ReadFile("nvml.json")
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNoNVML, err)
		}
		answer := &NVIDIA{}
		return answer, json.Unmarshal(b, answer)
	}
	if b, err := root.ReadFile("configured.json"); err == nil {
		must.NoError(t, json.Unmarshal(b, &o.Devices))
	}
	o.Node = func(p string) (topology.DeviceNode, error) {
		b, err := root.ReadFile(strings.TrimPrefix(p, "/"))
		if err != nil {
			return topology.DeviceNode{}, err
		}
		kind, numbers, _ := strings.Cut(string(b), " ")
		major, minor, ok := parseNumbers(numbers)
		if !ok {
			return topology.DeviceNode{}, fmt.Errorf("%s: is no device", p)
		}
		return topology.DeviceNode{Path: p, Block: kind == "b", Major: major, Minor: minor}, nil
	}
	o.Glob = func(pattern string) ([]string, error) {
		list, err := names(root, "dev")
		var matches []string
		for _, n := range list {
			if ok, _ := path.Match(pattern, "/dev/"+n); ok {
				matches = append(matches, "/dev/"+n)
			}
		}
		return matches, err
	}
	return kernfstest.FixtureRoots(t, archive), o
}

// TestScanFixtures scans each machine of testdata and compares what it finds with the inventory
// beside it. Store wrote that inventory, and other packages' tests Load it.
func TestScanFixtures(t *testing.T) {
	archives, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatalf("no fixtures: %v", err)
	}
	for _, archive := range archives {
		name := strings.TrimSuffix(filepath.Base(archive), ".txtar")
		t.Run(name, func(t *testing.T) {
			roots, o := fixture(t, name)
			got := Scan(t.Context(), roots, o)
			checkInventory(t, got)
			again := Scan(t.Context(), roots, o)
			must.Equal(t, "a second scan (-first +second)", got, again)
			dir := filepath.Join("testdata", name)
			if *update {
				must.NoError(t, got.Store(dir))
			}
			want, err := Load(dir)
			must.NoError(t, err)
			if len(got.Shared) == 0 {
				got.Shared = nil // as it is read back
			}
			got.MIG = nil // it is not stored
			must.Equal(t, "Scan", want, got)
		})
	}
}

// checkInventory tests what holds for every inventory.
func checkInventory(t *testing.T, inv *Inventory) {
	t.Helper()
	ids := map[string]topology.Device{}
	for _, d := range inv.Devices {
		if d.ID == "" || len(d.Nodes) == 0 || d.Resource == "" || d.NUMA < -1 {
			t.Errorf("device %+v: no ID, node or resource", d)
		}
		if _, ok := ids[d.ID]; ok {
			t.Errorf("two devices are %s", d.ID)
		}
		ids[d.ID] = d
	}
	nodes := map[string]topology.Device{}
	for _, d := range inv.Devices {
		for id, n := range d.Links {
			if other, ok := ids[id]; !ok || other.Links[d.ID] != n || id == d.ID {
				t.Errorf("%s has %d links to %s, which has %d back", d.ID, n, id, other.Links[d.ID])
			}
		}
		for _, n := range d.Nodes {
			if other, ok := nodes[n.String()]; ok && (d.Parent == "" || other.Parent != d.Parent) {
				t.Errorf("%s and %s have one node %v", d.ID, other.ID, n)
			}
			nodes[n.String()] = d
		}
	}
	for vendor, shared := range inv.Shared {
		for _, n := range shared {
			if other, ok := nodes[n.String()]; ok {
				t.Errorf("%v is shared by %s and a device of %s", n, vendor, other.ID)
			}
		}
	}
	count := 0
	for _, s := range inv.Sources {
		count += s.Count
	}
	if count != len(inv.Devices) {
		t.Errorf("the sources have %d devices, the inventory %d", count, len(inv.Devices))
	}
}

// A rule that is checked while devices are unknown covers every node of a GPU.
func TestGPUMajorsHaveAllNodes(t *testing.T) {
	archives, err := filepath.Glob("testdata/*.txtar")
	must.NoError(t, err)
	for _, archive := range archives {
		roots, o := fixture(t, strings.TrimSuffix(filepath.Base(archive), ".txtar"))
		majors, err := GPUMajors(roots.Proc)
		must.NoError(t, err)
		for _, d := range Scan(t.Context(), roots, o).Devices {
			for _, n := range d.Nodes {
				if d.Resource == ngpus && (!slices.Contains(majors, n.Major) || IsNoGPU(n.Major, n.Minor)) {
					t.Errorf("%s: %s (%s) is not in %v", archive, n.Path, n, majors)
				}
			}
		}
	}
}

// TestNoneAndFailureDiffer: a failed source is never taken for a machine without GPUs.
func TestNoneAndFailureDiffer(t *testing.T) {
	for name, failed := range map[string][]string{"none": nil, "nvidia-no-driver": nil,
		"nvidia-broken": {"nvml", "nvidia"}, "a100x8": nil, "v100x2-no-nvml": nil} {
		roots, o := fixture(t, name)
		var got []string
		for _, s := range Scan(t.Context(), roots, o).Sources {
			if s.Error != "" {
				got = append(got, s.Name)
			}
		}
		if !slices.Equal(got, failed) {
			t.Errorf("%s: failed sources %v, want %v", name, got, failed)
		}
	}
}

// TestNVMLFailureFallsBack: the driver's own files have the GPUs, and the failure is told.
func TestNVMLFailureFallsBack(t *testing.T) {
	roots, o := fixture(t, "a100x8")
	o.Ask = func(context.Context, string, time.Duration) (*NVIDIA, error) {
		return nil, errors.New("killed after 10s")
	}
	inv := Scan(t.Context(), roots, o)
	checkInventory(t, inv)
	if len(inv.Devices) != 8 || inv.Sources[0].Error != "killed after 10s" || inv.Sources[1].Name != "nvidia" ||
		inv.Sources[1].Count != 8 || inv.Sources[1].Error != "" {
		t.Errorf("got %d devices, sources %+v", len(inv.Devices), inv.Sources)
	}
}

func TestNVMLIsAskedOnlyWhereThereIsSomething(t *testing.T) {
	for name, want := range map[string]bool{"none": false, "mi250x4": false, "nvidia-no-driver": true, "a100x8": true} {
		roots, o := fixture(t, name)
		asked := false
		o.Ask = func(context.Context, string, time.Duration) (*NVIDIA, error) { asked = true; return nil, ErrNoNVML }
		Scan(t.Context(), roots, o)
		if asked != want {
			t.Errorf("%s: asked %t, want %t", name, asked, want)
		}
	}
	roots, o := fixture(t, "a100x8")
	o.NVML = ""
	o.Ask = func(context.Context, string, time.Duration) (*NVIDIA, error) {
		t.Error("asked without a program")
		return nil, ErrNoNVML
	}
	if inv := Scan(t.Context(), roots, o); len(inv.Devices) != 8 {
		t.Errorf("%d devices, want 8", len(inv.Devices))
	}
	o.GPUs = false
	if inv := Scan(t.Context(), roots, o); len(inv.Devices) != 0 || len(inv.Sources) != 0 {
		t.Errorf("GPUs are off: %+v", inv)
	}
}

// hanging is a backend whose files below a directory never answer.
type hanging struct {
	kernfs.Backend
	below string
	until chan struct{}
}

func (h hanging) OpenFile(name string, flag int) (kernfs.File, error) {
	if strings.HasPrefix(name, h.below) {
		<-h.until
		return nil, fs.ErrNotExist
	}
	return h.Backend.OpenFile(name, flag)
}

// backendOf passes an FS on as a backend.
type backendOf struct{ *kernfs.FS }

func (backendOf) Mkdir(string, fs.FileMode) error { return fs.ErrPermission }

// TestHangingSource: a driver that hangs costs its own devices, and its limit.
func TestHangingSource(t *testing.T) {
	roots, o := fixture(t, "a100x8")
	o.NVML = ""
	o.Devices = []Configured{{Resource: "fpga", Paths: []string{"/dev/fpga0"}}}
	o.Glob = func(string) ([]string, error) { return []string{"/dev/fpga0"}, nil }
	o.Node = func(path string) (topology.DeviceNode, error) {
		return topology.DeviceNode{Path: path, Major: 240}, nil
	}
	synctest.Test(t, func(t *testing.T) {
		until := make(chan struct{})
		defer close(until)
		roots.Proc = kernfs.New(hanging{backendOf{roots.Proc}, "driver/nvidia/gpus/0000:47", until}, "/proc")
		start := time.Now()
		inv := Scan(t.Context(), roots, o)
		if len(inv.Devices) != 1 || inv.Devices[0].Resource != "fpga" {
			t.Errorf("devices %+v, want the configured one", inv.Devices)
		}
		if s := inv.Sources[0]; s.Name != "nvidia" || !strings.Contains(s.Error, "no answer within") {
			t.Errorf("sources %+v", inv.Sources)
		}
		if took := time.Since(start); took != 2*o.Limit {
			t.Errorf("took %v, want %v", took, 2*o.Limit)
		}
	})
}

// TestWithinLimit: what does not answer in time is not asked again before it has.
func TestWithinLimit(t *testing.T) {
	release := make(chan struct{})
	begun := make(chan struct{}, 10)
	look := func(context.Context) found { begun <- struct{}{}; <-release; return found{} }
	for _, want := range []string{"no answer within 10ms", "not asked again: there is no answer since "} {
		f := within(t.Context(), "amd", 10*time.Millisecond, look)
		if len(f.sources) != 1 || f.sources[0].Name != "amd" || !strings.Contains(f.sources[0].Error, want) {
			t.Errorf("got %+v, want %s", f, want)
		}
	}
	if f := within(t.Context(), "intel", time.Minute,
		func(context.Context) found { return found{} }); len(f.sources) != 0 {
		t.Errorf("another source: %+v", f)
	}
	close(release)
	for end := time.Now().Add(30 * time.Second); hung.err("amd") != nil; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("an answer that came late is waited for still")
		}
	}
	if f := within(t.Context(), "amd", time.Minute, look); len(f.sources) != 0 || len(begun) != 2 {
		t.Errorf("after the answer: %+v, asked %d times, want 2", f, len(begun))
	}
}

// TestPartitionsAreToldApartByTheirNodes: parts of one GPU that share its UUID and its address are
// told apart by their nodes.
func TestPartitionsAreToldApartByTheirNodes(t *testing.T) {
	part := func(render string) topology.Device {
		return topology.Device{Resource: ngpus, UUID: "GPU-1", PCI: "0000:01:00.0",
			Nodes: []topology.DeviceNode{{Path: render}}}
	}
	devices := []topology.Device{part("/dev/dri/renderD128"), part("/dev/dri/renderD129"),
		{Resource: ngpus, UUID: "GPU-2", PCI: "0000:02:00.0"}}
	identify(devices)
	var got []string
	for _, d := range devices {
		got = append(got, d.ID+" "+d.UUID)
	}
	if want := []string{"/dev/dri/renderD128 ", "/dev/dri/renderD129 ", "GPU-2 GPU-2"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestScanThisMachine(t *testing.T) {
	roots, err := kernfs.OpenRoots()
	must.NoError(t, err)
	checkInventory(t, Scan(t.Context(), roots, Options{GPUs: true}))
}

// Anything else in the place of the file is an error at once, and is not waited for.
func TestLoadWhatIsNoFile(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"a FIFO":      func(p string) error { return unix.Mkfifo(p, 0o600) },
		"a directory": func(p string) error { return os.Mkdir(p, 0o700) },
		"no JSON":     func(p string) error { return os.WriteFile(p, []byte("x"), 0o600) },
		"too long": func(p string) error {
			return errors.Join(os.WriteFile(p, nil, 0o600), os.Truncate(p, mostBytes+1))
		},
	} {
		dir := t.TempDir()
		must.NoError(t, put(filepath.Join(dir, file)))
		if inv, err := Load(dir); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, %v", name, inv, err)
		}
	}
}

func TestLoadReadsWhatStoreWroteLast(t *testing.T) {
	dir := t.TempDir()
	if _, err := Load(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("of an empty directory: %v", err)
	}
	for _, id := range []string{"a", "b"} {
		must.NoError(t, (&Inventory{Devices: []topology.Device{{ID: id}}}).Store(dir))
		if got, err := Load(dir); err != nil || len(got.Devices) != 1 || got.Devices[0].ID != id {
			t.Fatalf("%+v, %v", got, err)
		}
	}
}
