package inventory

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/topology"
)

// changedTree returns a fixture with files that are put in, or with "-" as text taken away.
func changedTree(t *testing.T, name string, files map[string]string) kernfs.Roots {
	t.Helper()
	a, err := txtar.ParseFile(filepath.Join("testdata", name+".txtar"))
	must.NoError(t, err)
	var kept []txtar.File
	for _, f := range a.Files {
		if _, ok := files[f.Name]; !ok {
			kept = append(kept, f)
		}
	}
	for n, text := range files {
		if text != "-" {
			kept = append(kept, txtar.File{Name: n, Data: []byte(text)})
		}
	}
	a.Files = kept
	path := filepath.Join(t.TempDir(), "tree.txtar")
	must.NoError(t, os.WriteFile(path, txtar.Format(a), 0o600))
	return kernfstest.FixtureRoots(t, path)
}

func TestSignatureChanges(t *testing.T) {
	const info = "proc/driver/nvidia/gpus/0000:17:00.0/information"
	devices := func(lines string) map[string]string {
		return map[string]string{"proc/devices": "Character devices:\n" + lines + "\nBlock devices:\n  7 loop\n"}
	}
	base := "195 nvidia\n235 nvidia-caps\n507 nvidia-uvm\n"
	_, o := fixture(t, "a100x2-mig")
	was, err := Signature(changedTree(t, "a100x2-mig", devices(base)), o)
	if err != nil || len(was) != 64 {
		t.Fatalf("%q, %v", was, err)
	}
	with := func(name, text string) map[string]string {
		files := devices(base)
		files[name] = text
		return files
	}
	for _, tt := range []struct {
		name  string
		files map[string]string
		same  bool
	}{
		{"nothing", devices(base), true},
		{"another driver's major", devices("10 misc\n" + base), true},
		{"what a GPU tells", with(info, "Model: x\n"), true},
		{"a monitor is plugged in", with("sys/class/drm/card0-DP-1/status", "connected\n"), true},
		{"a boot", with("proc/sys/kernel/random/boot_id", "x\n"), false},
		{"another driver", with("proc/driver/nvidia/version", "NVRM version: 1.2\n"), false},
		{"a rebuilt module", with("sys/module/nvidia/srcversion", "X\n"), false},
		{"uvm loaded anew", devices(strings.Replace(base, "507", "508", 1)), false},
		{"uvm not loaded", devices("195 nvidia\n235 nvidia-caps\n"), false},
		{"a GPU is gone", with(info, "-"), false},
		{"a GPU changes its driver", with("link: sys/bus/pci/drivers/nvidia/0000:17:00.0 -> "+
			"../../../../devices/pci0000:17/0000:17:00.0", "-"), false},
		{"an instance more", with("proc/driver/nvidia/capabilities/gpu1/mig/gi6/ci0/access", ""), false},
		{"a compute instance more", with("proc/driver/nvidia/capabilities/gpu1/mig/gi1/ci1/access", ""), false},
		{"a DRM device", with("sys/class/drm/renderD128/dev", "226:128\n"), false},
		{"an accelerator", with("sys/class/accel/accel0/dev", "261:0\n"), false},
		{"AMD's topology", with("sys/class/kfd/kfd/topology/generation_id", "3\n"), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			now, err := Signature(changedTree(t, "a100x2-mig", tt.files), o)
			must.NoError(t, err)
			if (now == was) != tt.same {
				t.Errorf("the same: %t, want %t", now == was, tt.same)
			}
		})
	}
}

func TestSignatureOfOptions(t *testing.T) {
	roots, o := fixture(t, "fpga")
	seen := map[string]string{}
	add := func(name string, o Options) {
		s, err := Signature(roots, o)
		must.NoError(t, err)
		if other, ok := seen[s]; ok {
			t.Errorf("%s: the same as %s", name, other)
		}
		seen[s] = name
	}
	add("all", o)
	off := o
	off.GPUs = false
	add("no GPUs", off)
	other := o
	other.NVML = ""
	add("no NVML", other)
	few := o
	few.Devices = o.Devices[:1]
	add("fewer devices", few)
	renumbered := o
	renumbered.Node = func(path string) (topology.DeviceNode, error) {
		n, err := o.Node(path)
		n.Major++
		return n, err
	}
	add("other numbers", renumbered)
	more := o
	more.Glob = func(pattern string) ([]string, error) {
		list, err := o.Glob(pattern)
		return append(list, "/dev/new"), err
	}
	add("a node more", more)
}

// TestScanKeepsItsSignature: whoever compares later finds the scan up to date.
func TestScanKeepsItsSignature(t *testing.T) {
	for _, name := range []string{"a100x8", "nvidia-broken", "none", "fpga"} {
		roots, o := fixture(t, name)
		s, err := Signature(roots, o)
		if got := Scan(t.Context(), roots, o).Signature; err != nil || got != s {
			t.Errorf("%s: %q, want %q (%v)", name, got, s, err)
		}
	}
}
