package main

import (
	"testing"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/topology"
)

// With exclhost_ignore_default the defaults do not apply to a job that has its hosts to itself.
func TestExclhostIgnoresDefaults(t *testing.T) {
	edit := func(memory, memsw, hugetlb bool) func(*config.File) {
		return func(f *config.File) {
			f.Hugetlb.Enabled = true
			f.Memory.Default, f.Memsw.Default, f.Hugetlb.Default = pbs.Size(256*mib), pbs.Size(64*mib), pbs.Size(4*mib)
			f.Memory.ExclhostIgnoreDefault = memory
			f.Memsw.ExclhostIgnoreDefault = memsw
			f.Hugetlb.ExclhostIgnoreDefault = hugetlb
		}
	}
	type limits struct{ mem, memsw, huge int64 }
	bounded := limits{256 * mib, 320 * mib, 4 * mib}
	for _, tt := range []struct {
		name, place string
		edit        func(*config.File)
		resources   hostapi.Resources
		want        limits
	}{
		{"no place", "", edit(true, true, true), nil, bounded},
		{"another place", "scatter:excl:group=exclhost", edit(true, true, true), nil, bounded},
		{"not configured", "exclhost", edit(false, false, false), nil, bounded},
		{"mem", "exclhost", edit(true, false, false), nil, limits{10 * gib, 10*gib + 64*mib, 4 * mib}},
		{"vmem", "exclhost", edit(false, true, false), nil, limits{256 * mib, 11 * gib, 4 * mib}},
		{"hpmem", "exclhost", edit(false, false, true), nil, limits{256 * mib, 320 * mib, 100 * mib}},
		{"all", "scatter:exclhost", edit(true, true, true), nil, limits{10 * gib, 11 * gib, 100 * mib}},
		{"what it asks for holds", "exclhost", edit(true, true, true),
			hostapi.Resources{"mem": "1gb", "vmem": "1gb", "hpmem": "10mb"}, limits{gib, gib, 10 * mib}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := fourCPUs(gib)
			h.hugePages = topology.HugePages{Default: 2 * mib, Total: map[int64]int64{2 * mib: 100 * mib}}
			list := hostapi.Resources{"place": tt.place}
			for name, value := range tt.resources {
				list[name] = value
			}
			a, err := askOf(&hostapi.Job{ID: "1.srv", ResourceList: list}, testNode)
			must.NoError(t, err)
			l, _, err := testPolicy(t, tt.edit).decide(h, a, nil)
			must.NoError(t, err)
			if got := (limits{*l.Mem, *l.MemSwap, l.Hugetlb[2*mib]}); got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
}
