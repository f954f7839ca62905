package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/inventory"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/topology"
)

func ids(inv *inventory.Inventory) []string {
	var list []string
	for _, d := range inv.Devices {
		list = append(list, d.ID)
	}
	slices.Sort(list)
	return list
}

// If a source fails, it is not known which devices exist. If it finds none, there are none.
func TestFailedSourceKeepsItsDevices(t *testing.T) {
	gpu := func(id, vendor string) topology.Device { return topology.Device{ID: id, Vendor: vendor} }
	old := &inventory.Inventory{Devices: []topology.Device{gpu("n1", "nvidia"), gpu("a1", "amd"), gpu("f1", "")},
		Shared: map[string][]topology.DeviceNode{"nvidia": nvidiaShared}}
	tests := []struct {
		name string
		inv  inventory.Inventory
		want []string
	}{
		{"NVML hangs and /proc does too", inventory.Inventory{Devices: []topology.Device{gpu("a1", "amd")},
			Sources: []inventory.Source{{Name: "nvidia", Error: "x"}}}, []string{"a1", "n1"}},
		{"NVML fails, /proc finds", inventory.Inventory{Devices: []topology.Device{gpu("n2", "nvidia")},
			Sources: []inventory.Source{{Name: "nvml", Error: "x"}, {Name: "nvidia", Count: 1}}}, []string{"n2"}},
		{"nothing is left", inventory.Inventory{Sources: []inventory.Source{{Name: "nvml"}, {Name: "amd"}}}, nil},
		{"configured ones cannot be looked at", inventory.Inventory{
			Sources: []inventory.Source{{Name: "device", Error: "x"}}}, []string{"f1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := succeed(old, &tt.inv)
			must.Equal(t, "", tt.want, ids(got))
			if slices.Contains(tt.want, "n1") != (len(got.Shared["nvidia"]) > 0) {
				t.Errorf("shared %v", got.Shared)
			}
		})
	}
	if got := succeed(nil, &tests[0].inv); got != &tests[0].inv {
		t.Error("the first one has no heritage")
	}
}

// While NVML does not answer, the driver's files show which GPUs there are, and NVML's last answer
// describes them. MIG instances are known only from NVML.
func TestNVMLThatFailsTakesNothingFromJobs(t *testing.T) {
	gpu := func(id, pci string, edit func(*topology.Device)) topology.Device {
		d := topology.Device{ID: id, Vendor: "nvidia", PCI: pci}
		if edit != nil {
			edit(&d)
		}
		return d
	}
	memory := func(d *topology.Device) { d.Memory = 80 << 30 }
	instance := func(d *topology.Device) { d.Parent, d.Instance = "GPU-1", "3.0" }
	old := &inventory.Inventory{Devices: []topology.Device{
		gpu("whole", "0000:01:00.0", memory), gpu("mig", "0000:02:00.0", instance), gpu("gone", "0000:03:00.0", memory),
		{ID: "amd", Vendor: "amd", PCI: "0000:08:00.0"},
	}}
	failing := func(devices ...topology.Device) *inventory.Inventory {
		mig := map[string]map[string][]topology.DeviceNode{"0000:02:00.0": {"3.0": {{Major: 195, Minor: 1}}}}
		return &inventory.Inventory{Devices: devices, MIG: mig, Sources: []inventory.Source{
			{Name: "nvml", Error: "no answer within 10s"}, {Name: "nvidia", Count: len(devices)}}}
	}
	got := succeed(old, failing(gpu("whole", "0000:01:00.0", nil), gpu("new", "0000:04:00.0", nil)))
	must.Equal(t, "", []string{"mig", "new", "whole"}, ids(got))
	if got.Devices[0].Memory == 0 {
		t.Errorf("the memory of a GPU is forgotten: %+v", got.Devices[0])
	}
	again := succeed(got, failing(gpu("whole", "0000:01:00.0", nil), gpu("new", "0000:04:00.0", nil)))
	must.Equal(t, "a second time", got.Devices, again.Devices)
	// When the GPU is no longer in MIG mode, it is itself a device.
	without := failing(gpu("whole", "0000:01:00.0", nil), gpu("GPU-1", "0000:02:00.0", nil))
	without.MIG = nil
	must.Equal(t, "without MIG", []string{"GPU-1", "whole"}, ids(succeed(old, without)))
}

// A reloaded driver may number its GPUs differently. While NVML does not answer, the nodes are
// those that the driver's files show now.
func TestNVMLThatFailsLeavesNoOldNode(t *testing.T) {
	node := func(minor uint32) topology.DeviceNode { return topology.DeviceNode{Major: 195, Minor: minor} }
	gpu := func(uuid, pci string, minor uint32) topology.Device {
		return topology.Device{ID: uuid, UUID: uuid, Vendor: "nvidia", PCI: pci,
			Nodes: []topology.DeviceNode{node(minor)}}
	}
	instance := func(uuid, pci, instance string, minor uint32) topology.Device {
		d := gpu(uuid, pci, minor)
		d.Parent, d.Instance = "GPU-of-"+uuid, instance
		return d
	}
	whole, swapped := gpu("GPU-1", "0000:01:00.0", 0), gpu("GPU-3", "0000:03:00.0", 7)
	whole.Memory, whole.Index, swapped.Memory = 80<<30, 4, 40<<30
	old := &inventory.Inventory{Shared: map[string][]topology.DeviceNode{"nvidia": nvidiaShared},
		Devices: []topology.Device{whole, instance("MIG-1", "0000:02:00.0", "1.0", 1),
			instance("MIG-2", "0000:02:00.0", "2.0", 1), instance("MIG-3", "0000:04:00.0", "1.0", 2), swapped}}
	fresh := gpu("", "0000:01:00.0", 1)
	fresh.ID, fresh.NUMA = fresh.PCI, 1
	inv := &inventory.Inventory{
		Devices: []topology.Device{fresh, gpu("GPU-4", "0000:03:00.0", 2)},
		MIG:     map[string]map[string][]topology.DeviceNode{"0000:02:00.0": {"1.0": {node(0)}}},
		Sources: []inventory.Source{{Name: "nvml", Error: "x"}, {Name: "nvidia", Count: 2}}}
	moved := whole
	moved.NUMA, moved.Nodes = 1, []topology.DeviceNode{node(1)}
	kept := instance("MIG-1", "0000:02:00.0", "1.0", 0)
	must.Equal(t, "", []topology.Device{moved, kept, gpu("GPU-4", "0000:03:00.0", 2)}, succeed(old, inv).Devices)

	inv.Devices, inv.Sources[1].Count = nil, 0 // all GPUs are in MIG mode
	got := succeed(old, inv)
	must.Equal(t, "MIG alone", []topology.Device{kept}, got.Devices)
	must.Equal(t, "MIG alone", nvidiaShared, got.Shared["nvidia"])
	inv.MIG["0000:02:00.0"] = nil // their nodes are not known
	must.Equal(t, "nodes are not known", 0, len(succeed(old, inv).Devices))
}

// A scan that has its result is not late, even if it is still writing the file.
func TestScanWithAResultIsNotLate(t *testing.T) {
	log := logrus.New()
	log.SetOutput(t.Output())
	s := &inventoryKeeper{log: logrus.NewEntry(log),
		scan: func(context.Context) *inventory.Inventory { return &inventory.Inventory{} }}
	s.changed = func() { s.late(0) }
	var background sync.WaitGroup
	<-s.refresh(t.Context(), &background)
	if source := sourceOf(s.current(), lateSource); source.Error != "" {
		t.Errorf("its result is there, and it is called late: %s", source.Error)
	}
}

// Scans run one at a time. The inventory is written if a scan has found a change.
func TestScansComeOneAtATimeAndWriteWhatHasChanged(t *testing.T) {
	log := logrus.New()
	log.SetOutput(t.Output())
	var scans atomic.Int64
	begun, goOn := make(chan struct{}, 10), make(chan struct{})
	boot := func() ([]string, error) { return []string{"boot 1"}, nil }
	s := &inventoryKeeper{dir: t.TempDir(), log: logrus.NewEntry(log), numbering: boot,
		scan: func(context.Context) *inventory.Inventory {
			begun <- struct{}{}
			<-goOn
			return &inventory.Inventory{Numbering: []string{"boot 1"}, Sources: []inventory.Source{{Name: "nvml"}},
				Devices: make([]topology.Device, max(2, scans.Add(1)))}
		}}
	var background sync.WaitGroup
	defer background.Wait()
	s.load() // the file does not exist
	first := s.refresh(t.Context(), &background)
	<-begun
	if s.current() != nil {
		t.Error("there is an inventory before the first scan")
	}
	for range 5 {
		if s.refresh(t.Context(), &background) != first {
			t.Error("two scans at once")
		}
	}
	goOn <- struct{}{}
	<-first
	written := func() os.FileInfo {
		t.Helper()
		info, err := os.Stat(filepath.Join(s.dir, "devices.json"))
		must.NoError(t, err)
		return info
	}
	was := written()
	s.note(allowSource, "left out")
	noted := written()
	for i, want := range []struct {
		devices int
		same    bool
	}{{2, true}, {3, false}} {
		done := s.refresh(t.Context(), &background)
		goOn <- struct{}{}
		<-done
		if n := len(s.current().Devices); n != want.devices || os.SameFile(noted, written()) != want.same {
			t.Errorf("scan %d: %d devices, written anew: %t", i+2, n, !os.SameFile(noted, written()))
		}
	}
	if os.SameFile(was, noted) || sourceOf(s.current(), allowSource).Note != "left out" {
		t.Errorf("a note is not kept: %+v", s.current())
	}
	again := &inventoryKeeper{dir: s.dir, log: s.log, numbering: boot}
	if again.load(); again.current() == nil || len(again.current().Devices) != 3 {
		t.Errorf("after a restart: %+v", again.current())
	}
	rebooted := &inventoryKeeper{dir: s.dir, log: s.log, numbering: func() ([]string, error) {
		return []string{"boot 2"}, nil
	}}
	if rebooted.load(); rebooted.current() != nil {
		t.Errorf("after another boot: %+v", rebooted.current())
	}
	must.NoError(t, os.WriteFile(filepath.Join(s.dir, "devices.json"), []byte("{"), 0o644))
	broken := &inventoryKeeper{dir: s.dir, log: s.log}
	if broken.load(); broken.current() != nil {
		t.Errorf("of a broken file: %+v", broken.current())
	}
}

// The devices of a failed source are kept only as long as their numbers are valid.
func TestFailureAfterReload(t *testing.T) {
	gpu := topology.Device{ID: "n1", Vendor: "nvidia"}
	for _, tt := range []struct {
		name string
		now  []string
		want []string
	}{
		{"NVML hangs", []string{"boot 1", "c 507 nvidia-uvm", "c 508 knem"}, []string{"n1"}},
		{"NVML hangs after the driver was loaded anew", []string{"boot 1", "c 508 nvidia-uvm", "c 507 knem"}, nil},
		{"NVML hangs after a boot", []string{"boot 2", "c 507 nvidia-uvm"}, nil},
	} {
		log := logrus.New()
		log.SetOutput(t.Output())
		s := &inventoryKeeper{log: logrus.NewEntry(log), numbering: func() ([]string, error) { return tt.now, nil },
			inv: &inventory.Inventory{Devices: []topology.Device{gpu},
				Numbering: []string{"boot 1", "c 507 nvidia-uvm"}}}
		s.adopt(&inventory.Inventory{Sources: []inventory.Source{{Name: "nvidia", Error: "hangs"}}})
		must.Equal(t, tt.name, tt.want, ids(s.current()))
	}
}

func TestVnodesHaveTheirNUMANodesDevices(t *testing.T) {
	node := &topology.Node{NUMA: []topology.NUMANode{{ID: 0, CPUs: kernfs.IDs(0, 1), HasMemory: true},
		{ID: 1, CPUs: kernfs.IDs(2, 3), HasMemory: true}, {ID: 2}}}
	inv := &inventory.Inventory{}
	for i, numa := range []int{0, 1, 1, 1, 2, -1} {
		d := a100(i)
		d.NUMA = numa
		inv.Devices = append(inv.Devices, d)
	}
	inv.Devices = append(inv.Devices, topology.Device{Resource: "fpga", NUMA: 1})
	fpga := func(f *config.File) { f.Device = []config.Device{{Resource: "fpga"}} }
	perNUMA := func(f *config.File) { f.Vnodes.PerNUMANode = true; fpga(f) }
	four := 4
	tests := []struct {
		name string
		inv  *inventory.Inventory
		edit func(*config.File)
		want map[string]hostapi.Resources

		blocks *int
	}{
		{"the host", inv, fpga, map[string]hostapi.Resources{"n": {"ngpus": "6", "fpga": "1"}}, nil},
		{"by NUMA node", inv, perNUMA, map[string]hostapi.Resources{
			"n": {"ngpus": "0", "fpga": "0"}, "n[0]": {"ngpus": "3", "fpga": "0"}, "n[1]": {"ngpus": "3", "fpga": "1"}},
			nil},
		{"none", &inventory.Inventory{Sources: []inventory.Source{{Name: "nvidia"}}}, nil,
			map[string]hostapi.Resources{"n": {"ngpus": "0"}}, nil},
		{"not known", &inventory.Inventory{Sources: []inventory.Source{{Name: "nvidia", Error: "x"}}}, nil, nil, nil},
		{"not looked yet", nil, fpga, nil, nil},
		{"blocks", nil, func(f *config.File) { f.Devices.Blocks = 4 },
			map[string]hostapi.Resources{"n": {"blocks": "4"}}, &four},
		{"blocks that cannot be cut", nil, func(f *config.File) { f.Devices.Blocks = 4 },
			map[string]hostapi.Resources{"n": {"blocks": "0"}}, new(int)},
		{"blocks of what is not known", nil, func(f *config.File) { f.Devices.Blocks = 4 }, nil, nil},
		{"not to be looked for", inv, func(f *config.File) { f.Devices.DiscoverGPUs = false }, nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := &policy{File: *config.Default()}
			if tt.edit != nil {
				tt.edit(&p.File)
			}
			got := map[string]hostapi.Resources{}
			for name, v := range p.vnodes(node, tt.inv, "n", tt.blocks) {
				got[name] = v.ResourcesAvailable
			}
			if tt.want == nil {
				tt.want = map[string]hostapi.Resources{}
			}
			must.Equal(t, "", tt.want, got)
		})
	}
}
