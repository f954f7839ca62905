package host

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookhost/hookhost/hostapi"
)

func TestMergeJoinsOutcomesOrNamesTheConflict(t *testing.T) {
	type o = hostapi.Outcome
	ptr := func(s string) *string { return &s }
	n := func(i int64) *int64 { return &i }
	tests := []struct {
		name string
		a, b o
		want o
		err  string
	}{
		{name: "nothing"},
		{name: "environment",
			a:    o{SetEnv: map[string]string{"A": "1", "S": "same"}, UnsetEnv: []string{"X"}},
			b:    o{SetEnv: map[string]string{"B": "2", "S": "same"}, UnsetEnv: []string{"Y", "X"}},
			want: o{SetEnv: map[string]string{"A": "1", "B": "2", "S": "same"}, UnsetEnv: []string{"X", "Y"}}},
		{name: "environment conflict", a: o{SetEnv: map[string]string{"A": "1"}},
			b: o{SetEnv: map[string]string{"A": "2", "B": "2"}},
			want: o{SetEnv: map[string]string{"A": "1",
				"B": "2"}}, err: "hooks a and b both set environment variable A to different values"},
		{name: "set and unset", a: o{SetEnv: map[string]string{"A": "1"}}, b: o{UnsetEnv: []string{"A"}},
			want: o{SetEnv: map[string]string{"A": "1"}}, err: "hooks a and b both set environment variable A"},
		{name: "unset and set", a: o{UnsetEnv: []string{"A"}}, b: o{SetEnv: map[string]string{"A": ""}},
			want: o{UnsetEnv: []string{"A"}}, err: "hooks a and b both set environment variable A"},
		{name: "environment of attached processes conflict",
			a:    o{AttachEnv: map[string]string{"A": "1", "S": "same"}},
			b:    o{AttachEnv: map[string]string{"A": "2", "S": "same"}, SetEnv: map[string]string{"S": "other"}},
			want: o{AttachEnv: map[string]string{"A": "1", "S": "same"}, SetEnv: map[string]string{"S": "other"}},
			err:  "hooks a and b both set attached processes' environment variable A to different values"},
		{name: "program cascades", a: o{Progname: ptr("/bin/nice"), Argv: []string{"job"}},
			b:    o{Progname: ptr("/bin/time"), Argv: []string{"nice", "job"}},
			want: o{Progname: ptr("/bin/time"), Argv: []string{"nice", "job"}}},
		{name: "no arguments are arguments", a: o{Argv: []string{"x"}}, b: o{Argv: []string{}},
			want: o{Argv: []string{}}},
		{name: "resources", a: o{ResourcesUsed: hostapi.Resources{"mem": "1kb", "cput": "00:00:01"}},
			b: o{ResourcesUsed: hostapi.Resources{"mem": "2kb", "vmem": "1kb"}},
			want: o{ResourcesUsed: hostapi.Resources{"mem": "1kb", "cput": "00:00:01",
				"vmem": "1kb"}}, err: "hooks a and b both set resources_used.mem"},
		{name: "usage by field", a: o{Usage: &hostapi.HostUsage{NCPUs: 2, MemBytes: n(5)}},
			b:    o{Usage: &hostapi.HostUsage{NCPUs: 2, PidsPeak: n(1)}},
			want: o{Usage: &hostapi.HostUsage{NCPUs: 2, MemBytes: n(5), PidsPeak: n(1)}}},
		{name: "usage conflict", a: o{Usage: &hostapi.HostUsage{MemBytes: n(5)}},
			b:    o{Usage: &hostapi.HostUsage{MemBytes: n(6)}},
			want: o{Usage: &hostapi.HostUsage{MemBytes: n(5)}}, err: "hooks a and b both set usage.mem_bytes"},
		{name: "limit", a: o{WalltimeLimit: new(time.Hour), CallAtElapsed: 1},
			b: o{WalltimeLimit: new(time.Hour), CallAtElapsed: 2}, want: o{WalltimeLimit: new(time.Hour)}},
		{name: "limit conflict", a: o{WalltimeLimit: new(time.Hour)}, b: o{WalltimeLimit: new(time.Duration(0))},
			want: o{WalltimeLimit: new(time.Hour)}, err: "hooks a and b both set walltime_limit to different values"},
		{name: "limits of jobs", a: o{Jobs: map[string]*hostapi.JobUpdate{"1": {WalltimeLimit: new(time.Hour)},
			"2": {WalltimeLimit: new(time.Hour)}}},
			b: o{Jobs: map[string]*hostapi.JobUpdate{"1": {WalltimeLimit: new(time.Minute)},
				"2": {WalltimeLimit: new(time.Hour)}}},
			want: o{Jobs: map[string]*hostapi.JobUpdate{"1": {WalltimeLimit: new(time.Hour)},
				"2": {WalltimeLimit: new(time.Hour)}}},
			err: "hooks a and b both set walltime_limit of job 1 to different values"},
		{name: "texts", a: o{Diag: "x", Notes: []string{"1"}, JobStderr: []string{"e"}, State: []byte("1"),
			CallAgain: 1, Message: "no"},
			b:    o{Diag: "y", Notes: []string{"2"}, JobStderr: []string{"f"}},
			want: o{Diag: "x; y", Notes: []string{"1", "2"}, JobStderr: []string{"e", "f"}}},
		{name: "too many texts", a: o{Notes: make([]string, 100_000), JobStderr: make([]string, 100_000)},
			want: o{Notes: make([]string, 257), JobStderr: make([]string, 257)}},
		{name: "jobs", a: o{Jobs: map[string]*hostapi.JobUpdate{"1": {ResourcesUsed: hostapi.Resources{"mem": "1kb"}},
			"3": nil}},
			b: o{Jobs: map[string]*hostapi.JobUpdate{"1": {ResourcesUsed: hostapi.Resources{"mem": "2kb"},
				Diag: "d"}, "2": {ResourcesUsed: hostapi.Resources{"mem": "2kb"}}}},
			want: o{Jobs: map[string]*hostapi.JobUpdate{"1": {ResourcesUsed: hostapi.Resources{"mem": "1kb"},
				Diag: "d"}, "2": {ResourcesUsed: hostapi.Resources{"mem": "2kb"}}}},
			err: "hooks a and b both set resources_used.mem of job 1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var m merger
			if err := m.add("a", &tt.a); err != nil {
				t.Fatal(err)
			}
			err := m.add("b", &tt.b)
			if tt.err == "" && err != nil || tt.err != "" &&
				(err == nil || !strings.Contains(err.Error(), tt.err) || hostapi.KindOf(err) != hostapi.KindNode) {
				t.Errorf("error %v, want a node error %q", err, tt.err)
			}
			if diff := cmp.Diff(tt.want, m.out); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// A site's hook does not replace what a hook of hookhost has measured, and the error is its own,
// whichever of them comes first.
func TestConflictWithAHookOfHookhostIsTheSiteHooksError(t *testing.T) {
	const want = "hook 'site' sets resources_used.mem to another value than hook 'cgroup': leave it out of the answer"
	outcomes := map[string]*hostapi.Outcome{
		"site": {ResourcesUsed: hostapi.Resources{"mem": "5", "x": "1"}, SetEnv: map[string]string{"A": "1"},
			UnsetEnv: []string{"B"}},
		"cgroup": {ResourcesUsed: hostapi.Resources{"mem": "1kb"}, SetEnv: map[string]string{"B": "2"},
			UnsetEnv: []string{"A"}},
	}
	for _, order := range [][]string{{"site", "cgroup"}, {"cgroup", "site"}} {
		m := merger{builtIn: map[string]bool{"cgroup": true}}
		errs := map[string]error{}
		for _, hook := range order {
			errs[hook] = m.add(hook, outcomes[hook])
		}
		err := errors.Join(errs["site"], m.charged["site"])
		if errs["cgroup"] != nil || err == nil || !strings.Contains(err.Error(), want) ||
			hostapi.KindOf(err) != hostapi.KindNode {
			t.Errorf("%v: errors %v, %v", order, errs["cgroup"], err)
		}
		wanted := hostapi.Outcome{ResourcesUsed: hostapi.Resources{"mem": "1kb", "x": "1"},
			SetEnv: map[string]string{"B": "2"}, UnsetEnv: []string{"A"}}
		if diff := cmp.Diff(wanted, m.out); diff != "" {
			t.Errorf("%v: -want +got\n%s", order, diff)
		}
	}
}
