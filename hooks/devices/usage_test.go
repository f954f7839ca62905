package main

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/inventory"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/topology"
)

func ptr[T any](v T) *T { return &v }

func TestDevicesUsed(t *testing.T) {
	begun := time.UnixMicro(1_000_000_000)
	now := begun.Add(100 * time.Second)
	at := func(seconds int) uint64 { return uint64(begun.Add(time.Duration(seconds) * time.Second).UnixMicro()) }
	process := func(start, seconds int, percent, peak int) inventory.NVIDIAProcess {
		return inventory.NVIDIAProcess{StartMicros: at(start), Milliseconds: uint64(1000 * seconds),
			GPUPercent: ptr(uint32(percent)), MemPeakBytes: ptr(uint64(peak))}
	}
	tests := []struct {
		name  string
		got   had
		after inventory.NVIDIACounters
		want  hostapi.DeviceUsage
	}{
		{"two processes, and one of the job before", had{Micros: begun.UnixMicro(), EnergyMillijoul: ptr(uint64(5000))},
			inventory.NVIDIACounters{EnergyMillijoules: ptr(uint64(12_500)),
				Processes: []inventory.NVIDIAProcess{process(-10, 9, 100, 999), process(0, 50, 80, 7),
					process(50, 20, 50, 9)}},
			hostapi.DeviceUsage{UtilizationPercent: ptr(50.0), MemPeakBytes: ptr(int64(9)), EnergyJoules: ptr(7.5)}},
		{"one that runs", had{Micros: begun.UnixMicro()},
			inventory.NVIDIACounters{Processes: []inventory.NVIDIAProcess{
				{StartMicros: at(60), Running: true, GPUPercent: ptr(uint32(50)), MemPeakBytes: ptr(uint64(3))}}},
			hostapi.DeviceUsage{UtilizationPercent: ptr(20.0), MemPeakBytes: ptr(int64(3))}},
		{"more than the device has", had{Micros: begun.UnixMicro()},
			inventory.NVIDIACounters{Processes: []inventory.NVIDIAProcess{
				process(0, 100, 90, 1), process(0, 100, 90, 1)}},
			hostapi.DeviceUsage{UtilizationPercent: ptr(100.0), MemPeakBytes: ptr(int64(1))}},
		{"never used", had{Micros: begun.UnixMicro(), EnergyMillijoul: ptr(uint64(5))},
			inventory.NVIDIACounters{EnergyMillijoules: ptr(uint64(5))},
			hostapi.DeviceUsage{UtilizationPercent: ptr(0.0), MemPeakBytes: ptr(int64(0)), EnergyJoules: ptr(0.0)}},
		{"no accounting", had{Micros: begun.UnixMicro(), EnergyMillijoul: ptr(uint64(0))},
			inventory.NVIDIACounters{EnergyMillijoules: ptr(uint64(1000)), Error: "accounting mode is off"},
			hostapi.DeviceUsage{EnergyJoules: ptr(1.0)}},
		{"the driver was loaded anew", had{Micros: begun.UnixMicro(), EnergyMillijoul: ptr(uint64(9))},
			inventory.NVIDIACounters{EnergyMillijoules: ptr(uint64(8)), Error: "x"}, hostapi.DeviceUsage{}},
		{"what NVML has not of a process", had{Micros: begun.UnixMicro()},
			inventory.NVIDIACounters{Processes: []inventory.NVIDIAProcess{{StartMicros: at(1), Milliseconds: 5}}},
			hostapi.DeviceUsage{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := a100(0)
			tt.want.ID, tt.want.Resource, tt.want.Model, tt.want.PCI = d.ID, d.Resource, d.Model, d.PCI
			got := devicesUsed(&inventory.Grant{Devices: []topology.Device{d, {ID: "/dev/fpga0", Resource: "fpga"}}},
				since{d.UUID: tt.got},
				&inventory.NVIDIAUsage{Devices: map[string]inventory.NVIDIACounters{d.UUID: tt.after}}, now)
			want := []hostapi.DeviceUsage{tt.want, {ID: "/dev/fpga0", Resource: "fpga"}}
			must.Equal(t, "", want, got, cmpopts.EquateApprox(0, 1e-9))
		})
	}
	for name, got := range map[string][]hostapi.DeviceUsage{
		"no answer": devicesUsed(&inventory.Grant{Devices: []topology.Device{a100(0)}}, since{uuid(0): {}}, nil, now),
		"no figures": devicesUsed(&inventory.Grant{Devices: []topology.Device{a100(0)}}, since{},
			&inventory.NVIDIAUsage{}, now),
	} {
		if len(got) != 1 || got[0].UtilizationPercent != nil || got[0].EnergyJoules != nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// meter plays NVML with an energy counter that has grown by 1 kJ at each look.
type meter struct{ looks atomic.Int64 }

func (m *meter) ask(_ context.Context, _ time.Duration, uuids ...string) (*inventory.NVIDIAUsage, error) {
	looks := m.looks.Add(1)
	u := &inventory.NVIDIAUsage{Devices: map[string]inventory.NVIDIACounters{}}
	for _, id := range uuids {
		u.Devices[id] = inventory.NVIDIACounters{EnergyMillijoules: ptr(uint64(1_000_000 * looks))}
	}
	return u, nil
}

// The use of a device is counted from when the job got it, even if the hook restarts.
func TestUsageOfJob(t *testing.T) {
	n := newNode(t, 0, eight(), nil)
	n.do(hostapi.EventStartup)
	m := &meter{}
	clock := time.UnixMicro(1_000_000_000)
	set := func() { n.ask, n.now = m.ask, func() time.Time { return clock } }
	set()
	j := n.job("1.srv", a100(0), a100(1))
	energyKnown := func(uuids ...string) {
		t.Helper()
		must.Eventually(t, "the energy before is noted", func() bool {
			s, err := sinceOf(j)
			for _, id := range uuids {
				if err != nil || s[id].EnergyMillijoul == nil {
					return false
				}
			}
			return true
		})
	}
	n.do(hostapi.EventBegin, "1.srv") // look 1
	energyKnown(uuid(0), uuid(1))
	clock = clock.Add(time.Minute)
	n.grant(j, a100(1), a100(2))
	n.do(hostapi.EventResize, "1.srv") // look 2
	energyKnown(uuid(1), uuid(2))
	h, err := n.boot()
	must.NoError(t, err)
	n.hook = h
	set()
	n.do(hostapi.EventBegin, "1.srv") // repeated: nothing is lost, and NVML is not asked
	clock = clock.Add(time.Minute)
	got := n.do(hostapi.EventEpilogue, "1.srv").Usage.Devices // look 3
	zero := hostapi.DeviceUsage{Resource: "ngpus", Model: a100(0).Model, UtilizationPercent: ptr(0.0),
		MemPeakBytes: ptr(int64(0))}
	want := []hostapi.DeviceUsage{zero, zero}
	want[0].ID, want[0].PCI, want[0].EnergyJoules = uuid(1), a100(1).PCI, ptr(2000.0)
	want[1].ID, want[1].PCI, want[1].EnergyJoules = uuid(2), a100(2).PCI, ptr(1000.0)
	must.Equal(t, "", want, got)
}

// The report of a running job has the figures of each periodic.
func TestUsageOfARunningJob(t *testing.T) {
	n := newNode(t, 0, eight(), nil)
	n.do(hostapi.EventStartup)
	m := &meter{}
	n.ask = m.ask
	j := n.job("1.srv", a100(0))
	n.do(hostapi.EventBegin, "1.srv") // look 1
	must.Eventually(t, "the energy before is noted", func() bool {
		s, err := sinceOf(j)
		return err == nil && s[uuid(0)].EnergyMillijoul != nil
	})
	for look := range 2 {
		must.Eventually(t, "no scan is under way", func() bool { return !n.keeper.scanning() })
		u := n.do(hostapi.EventPeriodic, "1.srv").Jobs["1.srv"].Usage
		if u == nil || len(u.Devices) != 1 || u.Devices[0].EnergyJoules == nil ||
			*u.Devices[0].EnergyJoules != float64(1000*(look+1)) {
			t.Errorf("periodic %d: %+v", look, u)
		}
	}
	n.do(hostapi.EventEpilogue, "1.srv")
	n.do(hostapi.EventEnd, "1.srv")
}

// The counters are not read while a scan is using NVML.
func TestPeriodicAsksNVMLForOneThingAtATime(t *testing.T) {
	n := newNode(t, 0, eight(), nil)
	n.do(hostapi.EventStartup)
	n.job("1.srv", a100(0))
	var looks atomic.Int64
	n.ask = func(context.Context, time.Duration, ...string) (*inventory.NVIDIAUsage, error) {
		looks.Add(1)
		if n.keeper.scanning() {
			t.Error("a scan is under way")
		}
		return &inventory.NVIDIAUsage{}, nil
	}
	scan, found := n.keeper.scan, make(chan struct{})
	t.Cleanup(func() { close(found) }) // runs before the hook waits for the scan
	n.keeper.scan = func(ctx context.Context) *inventory.Inventory {
		<-found
		return scan(ctx)
	}
	n.do(hostapi.EventPeriodic, "1.srv") // leaves a scan that does not end
	n.do(hostapi.EventPeriodic, "1.srv")
	if looks.Load() != 1 {
		t.Errorf("NVML was asked %d times, want 1", looks.Load())
	}
}

// If several jobs hold a device, its counters are not those of one job.
func TestUsageOfSharedDevice(t *testing.T) {
	n := newNode(t, 0, eight(), func(f *config.File) { f.Devices.JobsPerDevice = 2 })
	m := &meter{}
	if got := n.do(hostapi.EventStartup).Vnodes[testNode].ResourcesAvailable["ngpus"]; got != "16" {
		t.Errorf("ngpus %s, want 16: PBS gives each to two jobs", got)
	}
	n.ask = m.ask
	n.job("1.srv", a100(0))
	n.do(hostapi.EventBegin, "1.srv")
	if got := n.do(hostapi.EventEpilogue, "1.srv").Usage.Devices; len(got) != 1 || got[0].EnergyJoules != nil ||
		got[0].UtilizationPercent != nil {
		t.Errorf("%+v", got)
	}
	if looks := m.looks.Load(); looks > 0 {
		t.Errorf("NVML was asked %d times", looks)
	}
}

// If a job has given up its last GPU, there is nothing to ask NVML about.
func TestUsageOfNone(t *testing.T) {
	n := newNode(t, 0, eight(), nil)
	n.do(hostapi.EventStartup)
	var nobody atomic.Int64
	n.ask = func(_ context.Context, _ time.Duration, uuids ...string) (*inventory.NVIDIAUsage, error) {
		if len(uuids) == 0 {
			nobody.Add(1)
		}
		return &inventory.NVIDIAUsage{}, nil
	}
	j := n.job("1.srv", a100(0))
	n.do(hostapi.EventBegin, "1.srv")
	n.grant(j)
	n.do(hostapi.EventResize, "1.srv")
	if out := n.do(hostapi.EventEpilogue, "1.srv"); out.Usage != nil || nobody.Load() > 0 {
		t.Errorf("usage %+v; asked about nothing %d times", out.Usage, nobody.Load())
	}
}

// Only the administrator turns accounting mode off.
func TestAccountingModeIsTheAdministrators(t *testing.T) {
	for _, on := range []bool{true, false} {
		n := newNode(t, 0, eight(), func(f *config.File) { f.Devices.Accounting = on })
		var asked atomic.Bool
		n.account = func(context.Context, time.Duration) error { asked.Store(true); return nil }
		n.do(hostapi.EventStartup)
		if on {
			must.Eventually(t, "accounting mode is turned on", asked.Load)
		} else if asked.Load() {
			t.Error("accounting = false, and it is turned on")
		}
	}
}
