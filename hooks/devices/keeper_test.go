package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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

// A source that fails says nothing about what is there; one that finds nothing does.
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

// Looks come one at a time. A change during a look makes one more, and nothing is scanned again
// that has not changed.
func TestLookIsOneAtATimeAndOnlyAfterAChange(t *testing.T) {
	log := logrus.New()
	log.SetOutput(t.Output())
	var scans atomic.Int64
	begun, goOn := make(chan struct{}, 10), make(chan struct{})
	var sign atomic.Pointer[string]
	name := func(s string) { sign.Store(&s) }
	name("1")
	clock := time.Unix(1000, 0)
	var problem string
	boot := func() ([]string, error) { return []string{"boot 1"}, nil }
	s := &inventoryKeeper{dir: t.TempDir(), log: logrus.NewEntry(log), now: func() time.Time { return clock },
		numbering: boot,
		signature: func() (string, error) { return *sign.Load(), nil },
		scan: func(context.Context) *inventory.Inventory {
			n := scans.Add(1)
			at := *sign.Load()
			begun <- struct{}{}
			<-goOn
			return &inventory.Inventory{Signature: at, Found: clock, Numbering: []string{"boot 1"},
				Devices: make([]topology.Device, n), Sources: []inventory.Source{{Name: "nvml", Error: problem}}}
		}}
	var background sync.WaitGroup
	defer background.Wait()
	s.load() // nothing there
	first := s.refreshSoon(t.Context(), &background)
	<-begun
	if s.current() != nil {
		t.Error("there is an inventory before the first scan")
	}
	name("2") // a device comes
	for range 5 {
		if s.refreshSoon(t.Context(), &background) != first {
			t.Error("two looks at once")
		}
	}
	goOn <- struct{}{}
	<-begun
	goOn <- struct{}{}
	<-first
	if n := scans.Load(); n != 2 || len(s.current().Devices) != 2 {
		t.Errorf("%d scans, %d devices, want 2 and 2", n, len(s.current().Devices))
	}
	<-s.refreshSoon(t.Context(), &background)
	if n := scans.Load(); n != 2 {
		t.Errorf("%d scans of what has not changed", n)
	}
	// After a failure it is tried again, but not all the time.
	name("3")
	problem = "hangs"
	for i, pause := range []time.Duration{0, time.Minute, askAgain} {
		clock = clock.Add(pause)
		done := s.refreshSoon(t.Context(), &background)
		if i != 1 {
			<-begun
			goOn <- struct{}{}
		}
		<-done
	}
	if n := scans.Load(); n != 4 {
		t.Errorf("%d scans, want 4", n)
	}
	again := &inventoryKeeper{dir: s.dir, log: s.log, numbering: boot}
	if again.load(); again.current() == nil || len(again.current().Devices) != 4 {
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

// The devices of a source that fails are as they were only while their numbers are.
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
		s := &inventoryKeeper{log: logrus.NewEntry(log), now: time.Now, numbering: func() ([]string, error) {
			return tt.now, nil
		},
			signature: func() (string, error) { return "new", nil },
			scan: func(context.Context) *inventory.Inventory {
				return &inventory.Inventory{Sources: []inventory.Source{{Name: "nvidia", Error: "hangs"}}}
			},
			inv: &inventory.Inventory{Devices: []topology.Device{gpu},
				Numbering: []string{"boot 1", "c 507 nvidia-uvm"}, Signature: "old"}}
		s.refresh(t.Context())
		must.Equal(t, tt.name, tt.want, ids(s.current()))
	}
}

// Parts that NVIDIA's driver lacks may be mended without a sign. They are asked for again by and
// by, and by a program that has just begun.
func TestLackingDriverIsAskedAgain(t *testing.T) {
	log := logrus.New()
	log.SetOutput(t.Output())
	clock := time.Unix(1000, 0)
	for _, tt := range []struct {
		source inventory.Source
		again  bool
	}{
		{inventory.Source{Name: "nvml", Count: 1}, false},
		{inventory.Source{Name: allowSource, Note: "x"}, false},
		{inventory.Source{Name: "device", Note: "nothing matches"}, false},
		{inventory.Source{Name: "nvml", Count: 1, Note: "run nvidia-modprobe"}, true},
		{inventory.Source{Name: "nvidia", Count: 1, Note: "without NVML"}, true},
		{inventory.Source{Name: "amd", Error: "x"}, true},
	} {
		scans := 0
		s := &inventoryKeeper{log: logrus.NewEntry(log), now: func() time.Time { return clock },
			numbering: func() ([]string, error) { return nil, nil },
			signature: func() (string, error) { return "1", nil },
			scan: func(context.Context) *inventory.Inventory {
				scans++
				return &inventory.Inventory{Signature: "1", Found: clock, Sources: []inventory.Source{tt.source}}
			},
			inv: &inventory.Inventory{Signature: "1", Found: clock, Sources: []inventory.Source{tt.source}}}
		var got []int
		for _, pause := range []time.Duration{askAtStart, time.Minute, askAgain} {
			clock = clock.Add(pause)
			s.refresh(t.Context())
			got = append(got, scans)
		}
		want := []int{0, 0, 0}
		if tt.again {
			want = []int{1, 1, 2}
		}
		must.Equal(t, fmt.Sprintf("%+v: scans at the start, after a minute and after %v", tt.source, askAgain), want,
			got)
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
