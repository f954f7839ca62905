package series

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/must"
)

// usageOf has n points of a host and of a device.
func usageOf(r *rand.Rand, start int64, n int) *hostapi.HostUsage {
	return &hostapi.HostUsage{NCPUs: 2, Series: random(r, start, n), Devices: []hostapi.DeviceUsage{
		{ID: "gpu0", Series: random(r, start, n)}, {ID: "gpu1"},
	}}
}

func TestSeriesOfAJobIsAppendedByHostAndDevice(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	first := map[string]*hostapi.HostUsage{"n1": usageOf(r, 0, 10), "n2": {NCPUs: 1}, "n3": nil}
	second := map[string]*hostapi.HostUsage{"n1": usageOf(r, 1000, 10), "n2": usageOf(r, 1000, 10)}
	j := Job(nil).Append(first, MostPoints).Append(second, MostPoints)
	want := Job{
		"n1": {Append(first["n1"].Series, second["n1"].Series), map[string]*hostapi.Series{
			"gpu0": Append(first["n1"].Devices[0].Series, second["n1"].Devices[0].Series)}},
		"n2": {Append(nil, second["n2"].Series), map[string]*hostapi.Series{
			"gpu0": Append(nil, second["n2"].Devices[0].Series)}},
	}
	if diff := cmp.Diff(want, j, cmpopts.EquateNaNs()); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(j, j.Append(second, MostPoints), cmpopts.EquateNaNs()); diff != "" {
		t.Errorf("the same answer twice (-once +twice):\n%s", diff)
	}
	joined := j.Join(first)
	if joined["n1"].Series != j["n1"].Host || joined["n1"].Devices[0].Series != j["n1"].Devices["gpu0"] ||
		joined["n2"].Series != j["n2"].Host || joined["n3"] != nil || first["n2"].Series != nil {
		t.Errorf("joined: %+v", joined)
	}
	bare := Job{}.Join(joined)
	if !In(joined) || In(bare) || bare["n1"].NCPUs != 2 || len(bare["n1"].Devices) != 2 {
		t.Errorf("without series: %+v", bare)
	}
}

// A report of many hosts stays one that can be read and sent: api's answers have 64 MiB at most.
func TestSeriesOfManyHostsStaySmall(t *testing.T) {
	for _, c := range []struct{ hosts, points, most int }{
		{1, MostPoints, 40 << 10}, {66, MostPoints, 4 << 20}, {1000, 24, 4 << 20}, {20_000, 4, 12 << 20},
	} {
		share := Share(c.hosts)
		if share != c.points {
			t.Errorf("%d hosts: %d points each, want %d", c.hosts, share, c.points)
		}
		columns := map[string]hostapi.Column{}
		long := &hostapi.Series{Columns: columns}
		r := rand.New(rand.NewPCG(5, 6))
		for at := range int64(MostPoints) {
			long.Times = append(long.Times, 1_700_000_000+30*at)
			for _, name := range []string{"cpu", "rss_bytes", "cache_bytes", "pids", "read_bytes_per_second",
				"write_bytes_per_second", "cpu_pressure", "memory_pressure", "io_pressure"} {
				columns[name] = append(columns[name], r.Float64()*1e9)
			}
		}
		hosts := map[string]*hostapi.HostUsage{}
		for i := range c.hosts {
			hosts[fmt.Sprintf("n%d", i)] = &hostapi.HostUsage{Series: long}
		}
		j := Job(nil).Append(hosts, share)
		text, err := json.Marshal(j)
		must.NoError(t, err)
		if n := len(j["n0"].Host.Times); n > share || n < share/4 || len(text) > c.most {
			t.Errorf("%d hosts: %d points each, %d bytes", c.hosts, n, len(text))
		}
	}
}
