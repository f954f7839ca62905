package cgroup

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

func testHugetlb(t *testing.T, w world) {
	tree := w.tree(t)
	const page = 2 << 20
	l := tree.someLimits()
	if !tree.Has("hugetlb") {
		kernfstest.Elsewhere(t, "no hugetlb controller")
	}
	l.Hugetlb = map[int64]int64{4096: 4096}
	wantNotCreated(t, tree, l, ErrUnsupported)
	l.Hugetlb = map[int64]int64{page: 8 * page}
	j := newJob(t, tree, testJob, l)
	p := w.start(t, j.Join())
	held := p.huge(t, 4*page)
	for _, n := range []int64{6, 10} {
		l.Hugetlb = map[int64]int64{page: n * page}
		must.NoError(t, j.Apply(l, nil))
		if got, err := j.Limits(); err != nil || !cmp.Equal(got.Hugetlb, l.Hugetlb) {
			t.Errorf("limits are %v, %v; want %v", got.Hugetlb, err, l.Hugetlb)
		}
	}
	if held {
		before, err := j.Limits()
		must.NoError(t, err)
		small := l
		small.Hugetlb = map[int64]int64{page: 2 * page}
		wantError(t, j.Apply(small, nil), ErrInUse)
		if after, err := j.Limits(); err != nil || !cmp.Equal(before, after, cmpSets) {
			t.Errorf("a refused change left something: %v, %v", after, err)
		}
		if u, err := j.Usage(); err != nil {
			t.Error(err)
		} else if d, _ := j.with("hugetlb"); d.h.v2 && u.HugetlbPeak != nil {
			t.Errorf("peak of huge pages is %d, v2 does not tell", *u.HugetlbPeak)
		} else if !d.h.v2 {
			between(t, "peak of huge pages", u.HugetlbPeak, 4*page, 4*page)
		}
	} else {
		t.Log("no huge pages to take")
	}
	l.Hugetlb = nil
	must.NoError(t, j.Apply(l, nil))
	if got, err := j.Limits(); err != nil || len(got.Hugetlb) > 0 {
		t.Errorf("lifted limits are %v, %v", got.Hugetlb, err)
	}
}

// wantNotCreated checks that a job with these limits cannot be created.
func wantNotCreated(t *testing.T, tree *Tree, l Limits, want error) {
	t.Helper()
	j, err := tree.Job(testJob)
	must.NoError(t, err)
	err = j.Create(l)
	if err == nil || want != nil && !errors.Is(err, want) {
		t.Errorf("got error %v, want %v", err, want)
	} else {
		t.Log(err)
	}
	if j.Exists() {
		t.Error("something is left")
		endJob(t, j)
	}
}

func testIO(t *testing.T, w world) {
	tree := w.tree(t)
	l := tree.someLimits()
	l.IO = []IOLimit{{Major: 8, ReadBytes: size(1 << 20)}}
	if !tree.Has("io") {
		wantNotCreated(t, tree, l, ErrUnsupported)
		return
	}
	l.IO[0].Major, l.IO[0].Minor = 4095, 77
	wantNotCreated(t, tree, l, nil)
	major, minor, ok := w.disk(t)
	if !ok {
		kernfstest.Elsewhere(t, "no block device")
	}
	disk := IOLimit{Major: major, Minor: minor, ReadBytes: size(1 << 20), WriteOps: size(120)}
	l.IO = []IOLimit{disk}
	j := newJob(t, tree, testJob, l)
	other := disk
	other.ReadBytes, other.WriteBytes = nil, size(5<<20)
	for _, want := range [][]IOLimit{{disk}, {other}, nil, {disk}} {
		l.IO = want
		must.NoError(t, j.Apply(l, nil))
		got, err := j.Limits()
		if diff := cmp.Diff(want, got.IO); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
	bad := l
	bad.IO = []IOLimit{other, {Major: 4095, Minor: 77, ReadOps: size(1)}}
	if err := j.Apply(bad, nil); err == nil {
		t.Error("a device that is not there was limited")
	}
	if got, err := j.Limits(); err != nil || !cmp.Equal(got.IO, l.IO) {
		t.Errorf("a failed change left %v, %v; want %v", got.IO, err, l.IO)
	}
}

// testFeatures checks that Has agrees with the files that exist.
func testFeatures(t *testing.T, w world) {
	tree := w.tree(t)
	j := newJob(t, tree, testJob, tree.someLimits())
	for _, tt := range []struct{ feature, controller, v1, v2 string }{
		{"oomgroup", "memory", "", "memory.oom.group"},
		{"peak", "memory", "memory.max_usage_in_bytes", "memory.peak"},
		{"reclaim", "memory", "", "memory.reclaim"},
		{"hugetlb", "hugetlb", "hugetlb.2MB.limit_in_bytes", "hugetlb.2MB.max"},
		{"io", "io", "", "io.max"},
	} {
		want := false
		if d, ok := j.with(tt.controller); ok {
			file := tt.v1
			if d.h.v2 {
				file = tt.v2
			}
			want = file != "" && d.Exists(file)
		}
		if got := tree.Has(tt.feature); got != want {
			t.Errorf("%s is %t, want %t", tt.feature, got, want)
		}
	}
	d, ok := j.v2()
	u, err := j.Usage()
	must.NoError(t, err)
	psi := ok && d.Exists("cpu.pressure")
	if tree.Has("psi") != psi || (u.CPUSome != nil) != psi || (u.MemorySome != nil) != psi || (u.IOFull != nil) != psi {
		t.Errorf("pressure: has is %t, want %t; usage is %+v", tree.Has("psi"), psi, u)
	}
	if (u.MajorFaults != nil) != tree.Has("memory") || (u.Throttled != nil) != tree.Has("cpu") {
		t.Errorf("faults %v, throttled %v", u.MajorFaults, u.Throttled)
	}
}
