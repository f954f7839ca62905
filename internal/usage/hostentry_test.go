package usage

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/must"
)

func TestHostEntryIsReadAsItWasWritten(t *testing.T) {
	gpu := func(i int, percent, joules *float64, mem *int64) hostapi.DeviceUsage {
		return hostapi.DeviceUsage{ID: fmt.Sprintf("GPU %d", i), Resource: "ngpus", UtilizationPercent: percent,
			MemPeakBytes: mem, EnergyJoules: joules}
	}
	for _, tt := range []struct {
		text string
		h    hostapi.HostUsage
	}{
		{`{"cput":7200.1,"mem":105208,"peak":209715,"vmem":209716,"limit":4194304,"oom":0,"quota":0,` +
			`"wait":[1.5,0,0,120],"gpu":[[97,41943040,1234567],[0,12]]}`,
			hostapi.HostUsage{CPUTSeconds: ptr(7200.1), MemBytes: ptr(int64(105208 << 10)),
				CgroupPeakBytes: ptr(int64(209715 << 10)), VmemBytes: ptr(int64(209716 << 10)),
				MemLimitBytes: ptr(int64(4 << 30)), OOMKills: ptr(int64(0)), ThrottledSeconds: ptr(0.0),
				Pressure: &hostapi.Pressure{CPUSome: ptr(1.5), MemorySome: ptr(0.0), MemoryFull: ptr(0.0),
					IOSome: ptr(120.0)},
				Devices: []hostapi.DeviceUsage{gpu(0, ptr(97.0), ptr(1234567.0), ptr(int64(40<<30))),
					gpu(1, ptr(0.0), nil, ptr(int64(12<<10)))}}},
		{`{"mem":0,"wait":[null,null,null,2]}`, hostapi.HostUsage{MemBytes: ptr(int64(0)),
			Pressure: &hostapi.Pressure{IOSome: ptr(2.0)}}},
		{`{"gpu":[[50,null,7]]}`, hostapi.HostUsage{
			Devices: []hostapi.DeviceUsage{gpu(0, ptr(50.0), ptr(7.0), nil)}}},
	} {
		must.Equal(t, "written", tt.text, HostEntry(&tt.h))
		// In single quotes and with blanks as MoM writes it, and as the mother superior's alone.
		spaced := strings.NewReplacer(",", ", ", ":", ": ").Replace(tt.text)
		for _, value := range []string{`{"n1":` + tt.text + `}`, `'{"n1": ` + spaced + `}'`} {
			hosts, err := ParseHostUsage(value)
			must.NoError(t, err)
			must.Equal(t, value, map[string]*hostapi.HostUsage{"n1": &tt.h}, hosts)
		}
	}
}

func TestHostEntryRoundsAndLeavesOutWhatIsNotKnown(t *testing.T) {
	for _, tt := range []struct {
		want string
		h    hostapi.HostUsage
	}{
		{"", hostapi.HostUsage{}},
		{"", hostapi.HostUsage{NCPUs: 4, CPUs: "0-3", CPUTSeconds: ptr(math.NaN()), MemBytes: ptr(int64(-1))}},
		{`{"cput":2,"mem":2}`, hostapi.HostUsage{CPUTSeconds: ptr(1.96), MemBytes: ptr(int64(1025))}},
		{`{"mem":9007199254740992}`, hostapi.HostUsage{MemBytes: ptr(int64(math.MaxInt64))}},
		{"", hostapi.HostUsage{Pressure: &hostapi.Pressure{IOFull: ptr(3.0)}}},
		{`{"gpu":[[33]]}`, hostapi.HostUsage{Devices: []hostapi.DeviceUsage{
			{ID: "/dev/fpga", Resource: "fpga"}, {ID: "a", UtilizationPercent: ptr(99.0), Returned: true},
			{ID: "b", UtilizationPercent: ptr(32.6), EnergyJoules: ptr(math.Inf(1))}}}},
	} {
		must.Equal(t, "", tt.want, HostEntry(&tt.h))
	}
}

// A longer text than 2,048 bytes would be cut on its way to MoM, which would then drop that of all
// hosts.
func TestHostEntryIsBounded(t *testing.T) {
	h := busiest(200)
	text := HostEntry(h)
	if len(text) > maxEntry || strings.Contains(text, "gpu") || !strings.Contains(text, "mem") {
		t.Errorf("%d bytes: %s", len(text), text)
	}
	if text := HostEntry(busiest(30)); !strings.Contains(text, "gpu") {
		t.Errorf("30 GPUs do not fit: %s", text)
	}
}

// The bound of a job is 1 MB for 1,000 hosts. This is what jobs of a day on 1,000 large nodes have.
func TestHostUsageOfAThousandHostsIsSmall(t *testing.T) {
	for gpus, most := range map[int]int{0: 180_000, 8: 400_000} {
		h := &hostapi.HostUsage{CPUTSeconds: ptr(1234567.8), MemBytes: ptr(int64(200 << 30)),
			CgroupPeakBytes: ptr(int64(210 << 30)), VmemBytes: ptr(int64(210 << 30)),
			MemLimitBytes: ptr(int64(256 << 30)), OOMKills: ptr(int64(0)), ThrottledSeconds: ptr(0.0),
			Pressure: &hostapi.Pressure{CPUSome: ptr(12345.6), MemorySome: ptr(0.0), MemoryFull: ptr(0.0),
				IOSome: ptr(123.4)},
			Devices: busiest(gpus).Devices}
		var all []string
		for i := range 1000 {
			all = append(all, fmt.Sprintf(`"node%04d":%s`, i, HostEntry(h)))
		}
		// MoM writes it by Python's json.dumps.
		text := strings.NewReplacer(",", ", ", ":", ": ").Replace("{" + strings.Join(all, ",") + "}")
		t.Logf("1,000 hosts with %d GPUs: %d bytes", gpus, len(text))
		if hosts, err := ParseHostUsage(text); err != nil || len(hosts) != 1000 || len(text) > most {
			t.Errorf("%d GPUs on each: %d bytes, %d hosts, %v", gpus, len(text), len(hosts), err)
		}
	}
}

// busiest has figures as long as they get, of so many GPUs.
func busiest(gpus int) *hostapi.HostUsage {
	h := &hostapi.HostUsage{CPUTSeconds: ptr(123456789.5), MemBytes: ptr(int64(4 << 40)),
		CgroupPeakBytes: ptr(int64(4 << 40)), VmemBytes: ptr(int64(4 << 40)), MemLimitBytes: ptr(int64(4 << 40)),
		OOMKills: ptr(int64(1000)), ThrottledSeconds: ptr(123456.7),
		Pressure: &hostapi.Pressure{CPUSome: ptr(123456.7), MemorySome: ptr(123456.7), MemoryFull: ptr(123456.7),
			IOSome: ptr(123456.7)}}
	for i := range gpus {
		h.Devices = append(h.Devices, hostapi.DeviceUsage{ID: fmt.Sprint(i), UtilizationPercent: ptr(100.0),
			MemPeakBytes: ptr(int64(80 << 30)), EnergyJoules: ptr(123456789.0)})
	}
	return h
}

func TestValuesThatAreNoHostUsageAreErrors(t *testing.T) {
	for _, text := range []string{"", "'", "x", `{"n1":`, `{"n1":1}`, `["n1"]`, `{"n1":{"mem":-1}}`,
		`{"n1":{"mem":1e300}}`, `{"n1":{"wait":[1,-2]}}`, `{"n1":{"gpu":[[-1]]}}`, `{"n1":{"mem":"1kb"}}`} {
		if hosts, err := ParseHostUsage(text); err == nil {
			t.Errorf("%q: %v", text, hosts)
		}
	}
	hosts, err := ParseHostUsage(`{"n1":{"mem":1,"later":{"a":[]}},"n2":{}}`)
	must.NoError(t, err)
	if len(hosts) != 2 || *hosts["n1"].MemBytes != 1024 || hosts["n2"].MemBytes != nil {
		t.Errorf("%+v", hosts)
	}
}

// FuzzParseHostUsage: what was read is written and read again as the same.
func FuzzParseHostUsage(f *testing.F) {
	f.Add(`{"n1":{"cput":1.5,"mem":1,"wait":[1,null,2],"gpu":[[1,2,3],[]]}}`)
	f.Add(`'{"n1": {"oom": 3}}'`)
	f.Fuzz(func(t *testing.T, text string) {
		hosts, err := ParseHostUsage(text)
		if err != nil {
			return
		}
		for _, h := range hosts {
			entry := HostEntry(h)
			if entry == "" {
				continue
			}
			if len(entry) > maxEntry || !json.Valid([]byte(entry)) {
				t.Fatalf("%q becomes %q", text, entry)
			}
			again, err := ParseHostUsage(`{"n":` + entry + `}`)
			if err != nil || HostEntry(again["n"]) != entry {
				t.Fatalf("%q becomes %q, then %q: %v", text, entry, HostEntry(again["n"]), err)
			}
		}
	})
}
