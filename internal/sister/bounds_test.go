package sister

import (
	"context"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/must"
)

// An answer of another host is bounded, and no terminal is steered by it.
func TestCheckedAnswer(t *testing.T) {
	ranks := func(n int, world string) *hostapi.HostUsage {
		u := &hostapi.HostUsage{Ranks: make([]hostapi.RankUsage, n)}
		for i := range u.Ranks {
			u.Ranks[i] = hostapi.RankUsage{World: world, Rank: i, Comm: `<solver> "a\b"`}
		}
		return u
	}
	used := func(name, value string) hostapi.Resources { return hostapi.Resources{name: value} }
	devices := &hostapi.HostUsage{Devices: make([]hostapi.DeviceUsage, maxDevices+1)}
	for _, tt := range []struct {
		name  string
		usage *hostapi.HostUsage
		used  hostapi.Resources
		why   string
	}{
		{"nothing", nil, nil, ""},
		{"as it should be", ranks(hostapi.MaxRanks, strings.Repeat("w", 255)), used("mem", "10kb"), ""},
		{"letters of all kinds", &hostapi.HostUsage{MemSource: "é<&>\u00a0"}, used("größe", "1"), ""},
		{"ranks", ranks(hostapi.MaxRanks+1, ""), nil, "usage: 4097 ranks are more than 4096"},
		{"devices", devices, nil, "usage: 1025 devices are more than 1024"},
		{"length", ranks(1, strings.Repeat("w", maxUsage)), nil, "are more than 4194304"},
		{"escape", &hostapi.HostUsage{MemSource: "\x1b[2J"}, nil, "usage: a text in it is not one line"},
		{"two lines", &hostapi.HostUsage{CPUs: "0\n1"}, nil, "usage: a text in it is not one line"},
		{"C1", ranks(1, "\u009b2J"), nil, "usage: a text in it is not one line"},
		{"resource", nil, used("a\x1b", "1"), "resources_used: a : not a resource"},
		{"value", nil, used("mem", strings.Repeat("1", maxName+1)), "resources_used: mem: not a resource"},
	} {
		o := &hostapi.Outcome{Usage: tt.usage, ResourcesUsed: tt.used, Notes: []string{"its own"}[:1:1]}
		got := checked(o)
		notes := strings.Join(got.Notes, "|")
		leftOut := strings.HasPrefix(notes, "its own|left out of what it told: ") && strings.HasSuffix(notes, tt.why)
		switch {
		case tt.why == "" && got != o:
			t.Errorf("%s: left out: %s", tt.name, notes)
		case tt.why != "" && (got.Usage != nil || got.ResourcesUsed != nil || !leftOut):
			t.Errorf("%s: %+v, notes %q", tt.name, got, notes)
		}
	}
}

// A report does not take what it cannot hold either: the host is missing, with its last numbers.
func TestAskedUsageIsChecked(t *testing.T) {
	c := newCluster(t, 2, func(string) string { return "cput = 2.0\n" }, nil)
	c.must(begin, launch)
	jobs := c.members["n1"].jobs
	jobs.Others = steersTerminals{c}
	must.NoError(t, c.head().Refresh(t.Context(), "1.srv"))
	rec := c.members["n1"].record("1.srv")
	if rec.Missing["n2"] != "usage: a text in it is not one line" || rec.Hosts["n2"] != nil {
		t.Errorf("missing %q, hosts %v", rec.Missing, rec.Hosts)
	}
	jobs.Others = c
	c.must(end)
}

type steersTerminals struct{ *cluster }

func (s steersTerminals) Usage(ctx context.Context, id string, hosts []string) map[string]Usage {
	return map[string]Usage{hosts[0]: {Usage: &hostapi.HostUsage{CPUs: "\x1b[2J"}}}
}
