package main

import (
	"testing"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/topology"
)

func TestDecideHugetlb(t *testing.T) {
	on := func(more func(*config.Hugetlb)) func(*config.File) {
		return func(f *config.File) {
			f.Hugetlb.Enabled = true
			if more != nil {
				more(&f.Hugetlb)
			}
		}
	}
	pages := func(mb2, gb1 int64) map[int64]int64 { return map[int64]int64{2 * mib: mb2, gib: gb1} }
	h := fourCPUs(0)
	h.hugePages = topology.HugePages{Default: 2 * mib, Total: pages(100*mib, 4*gib)}
	holds := func(m map[int64]int64) []holding {
		return []holding{testPolicy(t, on(nil)).holdingOf(h, assignment{limits: cgroup.Limits{Hugetlb: m}})}
	}
	for _, tt := range []struct {
		name   string
		edit   func(*config.File)
		ask    hostapi.Resources
		others []holding
		want   map[int64]int64
		kind   hostapi.Kind
		text   string
	}{
		{name: "not enabled", ask: hostapi.Resources{"hpmem": "4mb"}},
		{name: "nothing asked: none", edit: on(nil), want: pages(0, 0)},
		{name: "nothing asked, a default", edit: on(func(h *config.Hugetlb) { h.Default = pbs.Size(5 * mib) }),
			want: pages(4*mib, 0)},
		{name: "a default that is not enforced", edit: on(func(h *config.Hugetlb) { h.EnforceDefault = false }),
			want: pages(100*mib, 4*gib)},
		{name: "as asked", edit: on(nil), ask: hostapi.Resources{"hpmem": "10mb"}, want: pages(10*mib, 0)},
		{name: "a part of a page takes a page", edit: on(nil), ask: hostapi.Resources{"hpmem": "9mb"},
			want: pages(10*mib, 0)},
		{name: "by size", edit: on(nil), ask: hostapi.Resources{"hpmem_2mb": "10mb", "hpmem_1gb": "1gb"},
			want: pages(10*mib, gib)},
		{name: "both names of one size", edit: on(nil), ask: hostapi.Resources{"hpmem": "10mb", "hpmem_2mb": "10mb"},
			want: pages(20*mib, 0)},
		{name: "a site's own resource", edit: on(nil), ask: hostapi.Resources{"hpmem_kind": "x"}, want: pages(0, 0)},
		{name: "beside another", edit: on(nil), ask: hostapi.Resources{"hpmem": "40mb"},
			others: holds(pages(60*mib, 0)), want: pages(40*mib, 0)},
		{name: "a job that may have all by default holds nothing",
			edit: on(func(h *config.Hugetlb) { h.EnforceDefault = false }), ask: hostapi.Resources{"hpmem": "40mb"},
			others: holds(pages(100*mib, 4*gib)), want: pages(40*mib, 4*gib)},
		{name: "more than is free", edit: on(nil), ask: hostapi.Resources{"hpmem": "42mb"},
			others: holds(pages(60*mib, 0)),
			kind:   hostapi.KindBusy, text: "hpmem limit (43008kb) exceeds available (40960kb)"},
		{name: "more than there is", edit: on(func(h *config.Hugetlb) {
			h.ReservePercent, h.ReserveAmount = 10, pbs.Size(5*mib)
		}), ask: hostapi.Resources{"hpmem": "86mb"},
			kind: hostapi.KindJob, text: "hpmem limit (88064kb) exceeds available (86016kb)"},
		{name: "as much as can be said", edit: on(nil), ask: hostapi.Resources{"hpmem": "9223372036854775807b"},
			kind: hostapi.KindJob, text: "hpmem limit (9007199254740992kb) exceeds available (102400kb)"},
		{name: "more than can be said", edit: on(nil),
			ask: hostapi.Resources{"hpmem": "9223372036854775807b", "hpmem_2mb": "9223372036854775807b",
				"hpmem_2048kb": "1b"},
			kind: hostapi.KindJob, text: "hpmem limit (9007199254740992kb) exceeds available (102400kb)"},
		{name: "a size that the kernel lacks", edit: on(nil), ask: hostapi.Resources{"hpmem_16mb": "16mb"},
			kind: hostapi.KindJob, text: "hpmem_16384kb limit (16384kb) exceeds available (0kb)"},
		{name: "none of a size that the kernel lacks", edit: on(nil), ask: hostapi.Resources{"hpmem_16mb": "0"},
			want: pages(0, 0)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, err := askOf(&hostapi.Job{ID: "1.srv", ResourceList: tt.ask}, testNode)
			must.NoError(t, err)
			l, notes, err := testPolicy(t, tt.edit).decide(h, a, tt.others)
			if hostapi.KindOf(err) != tt.kind || err != nil && err.Error() != tt.text {
				t.Fatalf("error %q of kind %q, want %q of kind %q", err, hostapi.KindOf(err), tt.text, tt.kind)
			}
			must.Equal(t, "", tt.want, l.Hugetlb)
			if noted := len(notes) > 0; noted != (tt.edit == nil) {
				t.Errorf("notes %q", notes)
			}
		})
	}
}
