package host

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookhost/hookhost/hostapi"
)

// Hooks share a vnode as long as they do not contradict each other.
func TestMergeVnodes(t *testing.T) {
	type vnodes = map[string]*hostapi.Vnode
	res := func(kv ...string) hostapi.Resources {
		r := hostapi.Resources{}
		for i := 0; i < len(kv); i += 2 {
			r[kv[i]] = kv[i+1]
		}
		return r
	}
	text := func(s string) *string { return &s }
	for _, tt := range []struct {
		name       string
		a, b, want vnodes
		err        string
	}{
		{name: "resources", a: vnodes{"n1": {ResourcesAvailable: res("ncpus", "2", "vntype", "x")}},
			b:    vnodes{"n1": {ResourcesAvailable: res("ngpus", "1", "vntype", "x")}},
			want: vnodes{"n1": {ResourcesAvailable: res("ncpus", "2", "ngpus", "1", "vntype", "x")}}},
		{name: "resource conflict", a: vnodes{"n1": {ResourcesAvailable: res("ncpus", "2")}},
			b: vnodes{"n1": {ResourcesAvailable: res("ncpus", "3", "mem", "1kb")}},
			want: vnodes{"n1": {ResourcesAvailable: res("ncpus", "2", "mem",
				"1kb")}}, err: "hooks a and b both set resources_available.ncpus of vnode n1 to different values"},
		{name: "other vnodes", a: vnodes{"n1[0]": {State: "free"}},
			b:    vnodes{"n1[1]": {State: "offline"}, "n1[2]": nil},
			want: vnodes{"n1[0]": {State: "free"}, "n1[1]": {State: "offline"}}},
		{name: "state conflict", a: vnodes{"n1": {State: "free", Sharing: "default_shared"}},
			b: vnodes{"n1": {State: "offline", Sharing: "default_shared"}},
			want: vnodes{"n1": {State: "free",
				Sharing: "default_shared"}}, err: "hooks a and b both set state of vnode n1"},
		{name: "comment", a: vnodes{"n1": {Comment: text("")}}, b: vnodes{"n1": {Comment: text("")}},
			want: vnodes{"n1": {Comment: text("")}}},
		{name: "comment conflict", a: vnodes{"n1": {Comment: text("")}}, b: vnodes{"n1": {Comment: text("x")}},
			want: vnodes{"n1": {Comment: text("")}},
			err:  "hooks a and b both set comment of vnode n1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var m merger
			if err := m.add("a", &hostapi.Outcome{Vnodes: tt.a}); err != nil {
				t.Fatal(err)
			}
			err := m.add("b", &hostapi.Outcome{Vnodes: tt.b})
			if tt.err == "" && err != nil || tt.err != "" &&
				(err == nil || !strings.Contains(err.Error(), tt.err) || hostapi.KindOf(err) != hostapi.KindNode) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
			if diff := cmp.Diff(tt.want, m.out.Vnodes); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestForeignVnodesAreRefused(t *testing.T) {
	req := &hostapi.Request{Node: "n1", VnodeList: map[string]*hostapi.Vnode{"special": nil}}
	all := map[string]*hostapi.Vnode{"n1": {}, "n1[0]": {}, "n1[11]": {}, "special": {}, "n2": {}, "n10": {}, "n1[": {},
		"n1[]": {}}
	out := &hostapi.Outcome{Vnodes: all}
	err := foreignVnodes(req, out)
	if err == nil || !strings.Contains(err.Error(), "vnodes of other hosts than n1: n10, n1[, n1[], n2") {
		t.Errorf("error %v", err)
	}
	want := map[string]*hostapi.Vnode{"n1": {}, "n1[0]": {}, "n1[11]": {}, "special": {}}
	if diff := cmp.Diff(want, out.Vnodes); diff != "" || len(all) != 8 {
		t.Errorf("-want +got:\n%s", diff)
	}
	if err := foreignVnodes(req, &hostapi.Outcome{Vnodes: want}); err != nil {
		t.Error(err)
	}
}
