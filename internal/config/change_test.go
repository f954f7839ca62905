package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookhost/hookhost/internal/must"
)

func TestChangesNameEachSettingThatDiffers(t *testing.T) {
	parse := func(text string) *File {
		t.Helper()
		f, err := Parse([]byte(text), Here{Host: "n1"})
		must.NoError(t, err)
		return f
	}
	for _, tt := range []struct {
		name, from, to string
		want           []Change
	}{
		{"nothing", "", "[cgroup]\nprefix = \"pbs_jobs\"", nil},
		{"strings", "", "[cgroup]\nprefix = \"x\"", []Change{{"cgroup.prefix", `"pbs_jobs"`, `"x"`}}},
		{"a condition that holds otherwise", "[cpu]\nenabled = \"host in: n1\"", "[cpu]\nenabled = \"host in: n2\"",
			[]Change{{"cpu.enabled", "true", "false"}}},
		{"several", "[host]\nlog_level = \"debug\"", "[memory]\nreserve_amount = \"1gb\"",
			[]Change{{"host.log_level", `"debug"`, `"info"`}, {"memory.reserve_amount", `"0kb"`, `"1048576kb"`}}},
		{"lists", "[cgroup]\nenable_controllers = []", "[cgroup]\nenable_controllers = [\"io\"]",
			[]Change{{"cgroup.enable_controllers", "[]", `["io"]`}}},
	} {
		got, err := Changes(parse(tt.from), parse(tt.to))
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v, -want +got:\n%s", tt.name, err, diff)
		}
	}
}
