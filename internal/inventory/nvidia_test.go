package inventory

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/topology"
)

// scanWith scans a fixture whose NVML answers otherwise.
func scanWith(t *testing.T, roots kernfs.Roots, o Options, change func(*NVIDIA)) *Inventory {
	t.Helper()
	ask := o.Ask
	o.Ask = func(ctx context.Context, program string, limit time.Duration) (*NVIDIA, error) {
		answer, err := ask(ctx, program, limit)
		if err == nil {
			change(answer)
		}
		return answer, err
	}
	inv := Scan(t.Context(), roots, o)
	checkInventory(t, inv)
	return inv
}

// TestUncertainGPU: a GPU of which NVML could not tell everything is given only when the driver's
// files agree. A minor that is not known looks like that of the first GPU.
func TestUncertainGPU(t *testing.T) {
	for _, tt := range []struct {
		name        string
		change      func(g *NVIDIAGPU) // of the second GPU, minor 3
		given       bool
		error, note string
	}{
		{"links are not known", func(g *NVIDIAGPU) { g.Error = "read NVLink 0: Unknown Error" }, true, "",
			"read NVLink 0: Unknown Error"},
		{"fell off the bus", func(g *NVIDIAGPU) { *g = NVIDIAGPU{Error: "open GPU 1: GPU is lost"} }, false,
			"GPU 1 is left out: open GPU 1: GPU is lost; its address or UUID is not known",
			"0000:0f:00.0 is not known to NVML (driver nvidia)"},
		{"minor is not known", func(g *NVIDIAGPU) { g.Minor, g.Error = 0, "read minor number: Unknown Error" }, false,
			"its minor is 3, not 0", ""},
		{"minor of another", func(g *NVIDIAGPU) { g.Minor = 2 }, false, "is left out: its minor is 3, not 2", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			roots, o := fixture(t, "a100x8")
			inv := scanWith(t, roots, o, func(n *NVIDIA) { tt.change(&n.GPUs[1]) })
			given := slices.ContainsFunc(inv.Devices, func(d topology.Device) bool { return d.Index == 1 })
			if given != tt.given || len(inv.Devices) < 7 {
				t.Errorf("given %t, want %t, of %d devices", given, tt.given, len(inv.Devices))
			}
			if s := inv.Sources[0]; !strings.Contains(s.Error, tt.error) || !strings.Contains(s.Note, tt.note) ||
				(tt.error == "") != (s.Error == "") {
				t.Errorf("source %+v, want error %q, note %q", s, tt.error, tt.note)
			}
			for _, d := range inv.Devices { // the others keep their numbers
				if want := []uint32{2, 3, 0, 1, 6, 7, 4, 5}[d.Index]; d.Nodes[0].Minor != want {
					t.Errorf("GPU %d has minor %d, want %d", d.Index, d.Nodes[0].Minor, want)
				}
			}
		})
	}
}

// TestMIGModeIsNotKnown: where NVML does not say that a GPU is in MIG mode, its instances in /proc
// do.
func TestMIGModeIsNotKnown(t *testing.T) {
	roots, o := fixture(t, "a100x2-mig")
	inv := scanWith(t, roots, o, func(n *NVIDIA) {
		n.GPUs[1].MIG, n.GPUs[1].Instances, n.GPUs[1].Error = false, nil, "read MIG mode: Unknown Error"
	})
	if len(inv.Devices) != 1 || !strings.Contains(inv.Sources[0].Error, "it has MIG instances") {
		t.Errorf("%d devices, source %+v", len(inv.Devices), inv.Sources[0])
	}
}

func TestNVMLKnowsOfNoGPU(t *testing.T) {
	roots, o := fixture(t, "a100x8")
	inv := scanWith(t, roots, o, func(n *NVIDIA) { n.GPUs = nil })
	if len(inv.Devices) != 0 || !strings.Contains(inv.Sources[0].Error, "NVML finds no GPU") {
		t.Errorf("%d devices, source %+v", len(inv.Devices), inv.Sources[0])
	}
}

// TestMIGWithoutCapabilities: an instance whose nodes are not known is not given.
func TestMIGWithoutCapabilities(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"no nvidia-caps in /proc/devices":  {"proc/devices": "Character devices:\n195 nvidia\n507 nvidia-uvm\n"},
		"no gpu1/gi1/access in mig-minors": {"proc/driver/nvidia-caps/mig-minors": "config 1\n"},
	} {
		_, o := fixture(t, "a100x2-mig")
		inv := scanWith(t, changedTree(t, "a100x2-mig", files), o, func(*NVIDIA) {})
		if len(inv.Devices) != 1 || inv.Devices[0].Parent != "" || !strings.Contains(inv.Sources[0].Error, name) {
			t.Errorf("%s: %d devices, source %+v", name, len(inv.Devices), inv.Sources[0])
		}
	}
}

// TestMIGNodesWithoutNVML: the driver's files give an instance the same nodes as NVML's answer.
func TestMIGNodesWithoutNVML(t *testing.T) {
	roots, o := fixture(t, "a100x2-mig")
	want, instances := map[string]map[string][]topology.DeviceNode{}, map[string][]topology.DeviceNode{}
	for _, d := range Scan(t.Context(), roots, o).Devices {
		if d.Parent != "" {
			want[d.PCI], instances[d.Instance] = instances, d.Nodes
		}
	}
	roots, o = fixture(t, "a100x2-mig-no-nvml")
	must.Equal(t, "", want, Scan(t.Context(), roots, o).MIG)
	without := map[string]string{"proc/driver/nvidia-caps/mig-minors": "config 1\n"}
	inv := Scan(t.Context(), changedTree(t, "a100x2-mig-no-nvml", without), o)
	if len(inv.Devices) != 1 || len(inv.MIG["0000:65:00.0"]) != 0 {
		t.Errorf("%d devices, MIG %v", len(inv.Devices), inv.MIG)
	}
}

func TestMIGWithoutInstances(t *testing.T) {
	roots, o := fixture(t, "a100x2-mig")
	inv := scanWith(t, roots, o, func(n *NVIDIA) { n.GPUs[1].Instances = nil })
	if len(inv.Devices) != 1 || !strings.Contains(inv.Sources[0].Note, "is in MIG mode and has no instances") ||
		inv.Sources[0].Error != "" {
		t.Errorf("%d devices, source %+v", len(inv.Devices), inv.Sources[0])
	}
}

// TestUVMIsNotLoaded: the GPUs are there, and what is missing is told.
func TestUVMIsNotLoaded(t *testing.T) {
	_, o := fixture(t, "a100x8")
	inv := scanWith(t, changedTree(t, "a100x8",
		map[string]string{"proc/devices": "Character devices:\n195 nvidia-frontend\n"}), o, func(*NVIDIA) {})
	if len(inv.Devices) != 8 || len(inv.Shared["nvidia"]) != 1 ||
		!strings.Contains(inv.Sources[0].Note, "nvidia-uvm is not loaded") {
		t.Errorf("%d devices, shared %v, source %+v", len(inv.Devices), inv.Shared, inv.Sources[0])
	}
}

// TestNVLinksCountGPUsAndSwitches: links between two GPUs count as they are, links to switches as
// far as both have them.
func TestNVLinksCountGPUsAndSwitches(t *testing.T) {
	gpus := []NVIDIAGPU{
		{UUID: "a", Links: map[string]int{"b": 4, "gone": 2}}, {UUID: "b", Links: map[string]int{"a": 4}, NVSwitch: 2},
		{UUID: "c", NVSwitch: 12}, {UUID: "m", NVSwitch: 12, MIG: true}, {UUID: ""},
	}
	for i, want := range []map[string]int{{"b": 4}, {"a": 4, "c": 2}, {"b": 2}} {
		must.Equal(t, gpus[i].UUID, want, nvLinks(gpus[i], gpus))
	}
	if got := nvLinks(gpus[4], gpus[4:]); got != nil {
		t.Errorf("none: %v", got)
	}
}
