package usage

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/pbs"
)

func ptr[T any](v T) *T { return &v }

func TestResourcesAreInPBSsFormats(t *testing.T) {
	for _, tt := range []struct {
		name string
		h    *hostapi.HostUsage
		wall time.Duration
		want hostapi.Resources
	}{
		{"nil", nil, time.Hour, hostapi.Resources{}},
		{"nothing measured", &hostapi.HostUsage{}, 0, hostapi.Resources{}},
		{"measured zero", &hostapi.HostUsage{NCPUs: 1, CPUTSeconds: ptr(0.0), MemBytes: ptr(int64(0)),
			VmemBytes: ptr(int64(0))}, time.Minute,
			hostapi.Resources{"ncpus": "1", "cput": "00:00:00", "cpupercent": "0", "mem": "0kb", "vmem": "0kb",
				"walltime": "00:01:00"}},
		{"rounding", &hostapi.HostUsage{NCPUs: 2, CPUTSeconds: ptr(1.999), MemBytes: ptr(int64(1025)),
			VmemBytes: ptr(int64(1))}, 2500 * time.Millisecond,
			hostapi.Resources{"ncpus": "2", "cput": "00:00:02", "cpupercent": "80", "mem": "2kb", "vmem": "1kb",
				"walltime": "00:00:02"}},
		{"huge pages", &hostapi.HostUsage{HugetlbPeakBytes: ptr(int64(4 << 20))}, 0,
			hostapi.Resources{"hpmem": "4096kb"}},
		{"long", &hostapi.HostUsage{CPUTSeconds: ptr(400 * 3600.0)}, 100 * time.Hour,
			hostapi.Resources{"cput": "400:00:00", "cpupercent": "400", "walltime": "100:00:00"}},
		{"no walltime", &hostapi.HostUsage{CPUTSeconds: ptr(5.0)}, 0, hostapi.Resources{"cput": "00:00:05"}},
		{"shorter than a second", &hostapi.HostUsage{CPUTSeconds: ptr(0.1)}, 300 * time.Millisecond,
			hostapi.Resources{"cput": "00:00:00", "cpupercent": "33", "walltime": "00:00:00"}},
		{"nonsense", &hostapi.HostUsage{CPUTSeconds: ptr(-1.0), MemBytes: ptr(int64(-1))}, -1, hostapi.Resources{}},
		{"too long", &hostapi.HostUsage{CPUTSeconds: ptr(1e300)}, 1, hostapi.Resources{"walltime": "00:00:00"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			must.Equal(t, "", tt.want, Resources(tt.h, tt.wall))
		})
	}
}

func TestSumAddsUpWhatHostsUsed(t *testing.T) {
	for _, tt := range []struct{ name, resource, a, b, want string }{ // want "": left out
		{"cput", "cput", "00:00:59", "01:00:02", "01:01:01"},
		{"cput in seconds", "cput", "0.6", "00:00:01.600", "00:00:02"},
		{"bad cput", "cput", "banana", "00:00:01", ""},
		{"walltime", "walltime", "00:10:00", "00:09:59", "00:10:00"},
		{"cpupercent", "cpupercent", "99", "101", "200"},
		{"ncpus", "ncpus", "2", "4", "6"},
		{"mem", "mem", "100kb", "1mb", "1124kb"},
		{"mem in bytes", "mem", "1024", "1", "2kb"},
		{"bad mem", "mem", "100kb", "-1kb", ""},
		{"mem overflows", "mem", "4611686018427387904b", "4611686018427387904b", ""},
		{"unknown size", "scratch", "1gb", "5kb", "1048581kb"},
		{"unknown int", "ngpus", "1", "2", "3"},
		{"int overflows", "n", "9223372036854775807", "1", ""},
		{"unknown float", "energy", "1.5", "2", "3.5"},
		{"not a number", "energy", "nan", "nan", ""},
		{"infinite", "energy", "inf", "1", ""},
		{"negative", "energy", "-3", "4.5", ""},
		{"unknown duration", "gput", "00:01:00", "00:00:59", "00:01:59"},
		{"objects", "cpus", `{"a":"0-1","x":1}`, `{"b":"2","x":{"y": 2}}`, `{"a":"0-1","b":"2","x":{"y":2}}`},
		{"object and text", "cpus", `{"a":1}`, "0-1", ""},
		{"broken object", "cpus", `{"a":1}`, `{"b":`, ""},
		{"same text", "arch", "linux", "linux", "linux"},
		{"other text", "arch", "linux", "aix", ""},
		{"boolean", "b", "True", "False", ""},
		{"empty", "s", "", "", ""},
		{"kinds mixed", "x", "1", "00:00:01", "00:00:02"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := Sum(map[string]hostapi.Resources{"h1": {tt.resource: tt.a}, "h2": {tt.resource: tt.b},
				"h3": {}})[tt.resource]
			if got != tt.want {
				t.Errorf("%s and %s: got %q, want %q", tt.a, tt.b, got, tt.want)
			}
		})
	}
	if got := Sum(nil); len(got) != 0 {
		t.Errorf("no hosts: %v", got)
	}
	one := hostapi.Resources{"mem": "5kb", "cput": "00:00:01", "note": "x"}
	must.Equal(t, "one host", one, Sum(map[string]hostapi.Resources{"h": one}))
}

// FuzzSum: a total of one host is a fixed point, and no value makes it panic.
func FuzzSum(f *testing.F) {
	for _, v := range []string{"1", "1kb", "00:00:01", `{"a":1}`, "x", "1.5", "-3", "9223372036854775807"} {
		f.Add("mem", v, "2")
		f.Add("x", v, v)
	}
	f.Fuzz(func(t *testing.T, name, a, b string) {
		total := Sum(map[string]hostapi.Resources{"h1": {name: a}, "h2": {name: b}})
		again := Sum(map[string]hostapi.Resources{"h": total})
		must.Equal(t, "not stable:", total, again)
	})
}

func TestFoldLosesNoCounter(t *testing.T) {
	early := &hostapi.HostUsage{
		CPUs: "0-1", Mems: "0", NCPUs: 2, CPUTSeconds: ptr(10.0), UserSeconds: ptr(9.0), SystemSeconds: ptr(1.0),
		MemBytes: ptr(int64(100)), MemSource: "sampled", VmemBytes: ptr(int64(300)), CgroupPeakBytes: ptr(int64(200)),
		MemLimitBytes: ptr(int64(1000)), OOMKills: ptr(int64(1)), PidsPeak: ptr(int64(7)), ProcessesAttached: 2,
	}
	kill := &hostapi.KillReport{Signal: "SIGKILL", Seconds: 0.5, Stragglers: 3}
	late := &hostapi.HostUsage{
		CPUs: "0-3", NCPUs: 4, CPUTSeconds: ptr(9.0), UserSeconds: ptr(12.0),
		MemBytes: ptr(int64(50)), MemSource: "peak", MemLimitBytes: ptr(int64(500)), OOMKills: ptr(int64(0)),
		ProcessesAttached: 1, Kill: kill,
	}
	want := &hostapi.HostUsage{
		CPUs: "0-3", Mems: "0", NCPUs: 4, CPUTSeconds: ptr(10.0), UserSeconds: ptr(12.0), SystemSeconds: ptr(1.0),
		MemBytes: ptr(int64(100)), MemSource: "sampled", VmemBytes: ptr(int64(300)), CgroupPeakBytes: ptr(int64(200)),
		MemLimitBytes: ptr(int64(500)), OOMKills: ptr(int64(1)), PidsPeak: ptr(int64(7)), ProcessesAttached: 2,
		Kill: kill,
	}
	for _, tt := range []struct {
		name           string
		old, new, want *hostapi.HostUsage
	}{
		{"both", early, late, want},
		{"again", want, late, want},
		{"first sample", nil, early, early},
		{"no sample", early, nil, early},
		{"empty sample", early, &hostapi.HostUsage{}, early},
		{"nothing", nil, nil, &hostapi.HostUsage{}},
		{"larger peak brings its source", &hostapi.HostUsage{MemBytes: ptr(int64(1)), MemSource: "a"},
			&hostapi.HostUsage{MemBytes: ptr(int64(2)), MemSource: "b"},
			&hostapi.HostUsage{MemBytes: ptr(int64(2)), MemSource: "b"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			must.Equal(t, "", tt.want, Fold(tt.old, tt.new))
		})
	}
	waits := &hostapi.HostUsage{Pressure: &hostapi.Pressure{MemorySome: ptr(2.0), IOFull: ptr(1.0)},
		ThrottledSeconds: ptr(3.0), MajorFaults: ptr(int64(7))}
	less := &hostapi.HostUsage{Pressure: &hostapi.Pressure{MemorySome: ptr(1.0), CPUSome: ptr(5.0)},
		ThrottledSeconds: ptr(2.0), HugetlbPeakBytes: ptr(int64(9))}
	both := &hostapi.HostUsage{Pressure: &hostapi.Pressure{MemorySome: ptr(2.0), IOFull: ptr(1.0), CPUSome: ptr(5.0)},
		ThrottledSeconds: ptr(3.0), MajorFaults: ptr(int64(7)), HugetlbPeakBytes: ptr(int64(9))}
	must.Equal(t, "waits", both, Fold(waits, less))
	if *Fold(nil, waits).Pressure.MemorySome = 9; *waits.Pressure.MemorySome != 2 {
		t.Error("the result shares its pressure with a sample")
	}
	before := &hostapi.HostUsage{Devices: []hostapi.DeviceUsage{{ID: "a", Resource: "ngpus", Model: "A100",
		PCI: "0000:07:00.0"}, {ID: "b", Resource: "ngpus",
		UtilizationPercent: ptr(50.0), MemPeakBytes: ptr(int64(8)), EnergyJoules: ptr(9.0)}}}
	after := &hostapi.HostUsage{Devices: []hostapi.DeviceUsage{{ID: "c", Resource: "fpga"},
		{ID: "b", Resource: "ngpus", UtilizationPercent: ptr(40.0),
			MemPeakBytes: ptr(int64(7)), EnergyJoules: ptr(10.0)}}}
	devices := &hostapi.HostUsage{Devices: []hostapi.DeviceUsage{before.Devices[0],
		{ID: "b", Resource: "ngpus", UtilizationPercent: ptr(40.0),
			MemPeakBytes: ptr(int64(8)), EnergyJoules: ptr(10.0)}, after.Devices[0]}}
	for _, sample := range []*hostapi.HostUsage{after, devices} {
		must.Equal(t, "devices", devices, Fold(Fold(before, after), sample))
	}
	// A device that was given back stays, and is the job's again when a later sample says so.
	back := &hostapi.HostUsage{Devices: []hostapi.DeviceUsage{{ID: "a", Returned: true}}}
	gone := Fold(Fold(before, back), after)
	if !gone.Devices[0].Returned || gone.Devices[0].Model != "A100" || gone.Devices[1].Returned ||
		Fold(gone, before).Devices[0].Returned {
		t.Errorf("devices %+v", gone.Devices)
	}
	if *Fold(before, nil).Devices[1].EnergyJoules = 99; *before.Devices[1].EnergyJoules != 9 {
		t.Error("the result shares its devices with a sample")
	}
	got := Fold(early, late)
	*got.CPUTSeconds, got.Kill.Signal = 99, "x"
	if *early.CPUTSeconds != 10 || kill.Signal != "SIGKILL" {
		t.Error("the result shares memory with a sample")
	}
}

// TestFoldKeepsEveryField fails when HostUsage gets a field that Fold forgets.
func TestFoldKeepsEveryField(t *testing.T) {
	full := &hostapi.HostUsage{}
	v := reflect.ValueOf(full).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.Pointer:
			f.Set(reflect.New(f.Type().Elem()))
		case reflect.String:
			f.SetString("x")
		case reflect.Int:
			f.SetInt(1)
		case reflect.Slice:
			f.Set(reflect.MakeSlice(f.Type(), 1, 1))
		default:
			t.Fatalf("field %s: unknown kind", v.Type().Field(i).Name)
		}
	}
	for name, got := range map[string]*hostapi.HostUsage{"old": Fold(full, nil), "new": Fold(nil, full)} {
		must.Equal(t, fmt.Sprintf("%s lost", name), full, got)
	}
}

func TestEfficiencyIsCPUTOverWalltimeAndNCPUs(t *testing.T) {
	for _, tt := range []struct {
		cput, wall time.Duration
		ncpus      int
		want       float64
		ok         bool
	}{
		{90 * time.Second, time.Minute, 2, 0.75, true},
		{0, time.Minute, 2, 0, true},
		{3 * time.Minute, time.Minute, 2, 1.5, true},
		{1, 0, 2, 0, false},
		{1, 1, 0, 0, false},
	} {
		if got, ok := CPUEfficiency(tt.cput, tt.wall, tt.ncpus); got != tt.want || ok != tt.ok {
			t.Errorf("cpu %v/%v*%d: %v, %t, want %v, %t", tt.cput, tt.wall, tt.ncpus, got, ok, tt.want, tt.ok)
		}
	}
	for _, tt := range []struct {
		mem, limit int64
		want       float64
		ok         bool
	}{{1, 4, 0.25, true}, {0, 4, 0, true}, {1, 0, 0, false}, {-1, 4, 0, false}} {
		if got, ok := MemEfficiency(tt.mem, tt.limit); got != tt.want || ok != tt.ok {
			t.Errorf("mem %d/%d: %v, %t, want %v, %t", tt.mem, tt.limit, got, ok, tt.want, tt.ok)
		}
	}
}

func TestBillingRateIsTheSumOfWeightedAmounts(t *testing.T) {
	held, err := pbs.OnHost([]pbs.VnodeChunk{
		{Vnode: "n1", Host: "n1", Resources: map[string]string{"ncpus": "4", "mem": "2gb", "ngpus": "1",
			"scratch": "512mb", "licence": "3", "colour": "red", "endless": "inf", "huge": "1e308",
			"none": "nan", "less": "-5"}},
		{Vnode: "n1", Host: "n1", Resources: map[string]string{"ncpus": "4", "mem": "2gb"}},
		{Vnode: "n2", Host: "n2", Resources: map[string]string{"ncpus": "64"}},
	}, "n1")
	must.NoError(t, err)
	for _, tt := range []struct {
		name    string
		weights map[string]float64
		want    float64
	}{
		{"none", nil, 0},
		{"cpus of this host", map[string]float64{"ncpus": 1.5}, 12},
		{"memory by the gb", map[string]float64{"mem": 0.25}, 1},
		{"a size of the site", map[string]float64{"scratch": 2}, 1},
		{"a count of the site", map[string]float64{"licence": 10}, 30},
		{"a text", map[string]float64{"colour": 10}, 0},
		{"no number that can be added up", map[string]float64{"endless": 1e9, "huge": 1e9, "none": 1, "less": 1}, 0},
		{"not held", map[string]float64{"vmem": 1, "fpga": 1}, 0},
		{"several", map[string]float64{"ncpus": 1, "mem": 0.25, "ngpus": 20}, 29},
	} {
		t.Run(tt.name, func(t *testing.T) {
			must.Equal(t, "rate", tt.want, BillingRate(tt.weights, held))
		})
	}
}

func TestBillingResourcesAreFloatsOfPBS(t *testing.T) {
	must.Equal(t, "energy and billing", hostapi.Resources{"energy": "2.000000", "billing": "0.333333"},
		BillingResources(&hostapi.HostUsage{EnergyJoules: ptr(7.2e6), Billing: ptr(1.0 / 3)}))
	must.Equal(t, "not configured", hostapi.Resources{}, BillingResources(&hostapi.HostUsage{}))
	must.Equal(t, "summed", hostapi.Resources{"energy": "3.5", "billing": "1.25"},
		Sum(map[string]hostapi.Resources{"n1": {"energy": "2.000000", "billing": "1.000000"},
			"n2": {"energy": "1.500000", "billing": "0.250000"}}))
}
