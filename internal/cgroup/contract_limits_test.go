package cgroup

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

func testCreate(t *testing.T, w world) {
	tree := w.tree(t)
	l := Limits{}
	if tree.Has("memory") {
		l.Mem = size(64<<20 + 1)
	}
	if tree.Has("memsw") {
		l.MemSwap = size(96 << 20)
	}
	if tree.Has("swappiness") {
		n := 10
		l.Swappiness = &n
	}
	if tree.Has("cpuset") {
		l.CPUs, l.Mems = kernfs.IDs(1), kernfs.IDs(0)
	}
	if tree.Has("cpu") {
		l.CPUShares, l.Quota, l.Period = 2048, 50*time.Millisecond, 80*time.Millisecond
	}
	if tree.Has("pids") {
		l.Pids = size(77)
	}
	if tree.Has("oomgroup") {
		on := true
		l.OOMGroup, l.MemHigh = &on, size(60<<20)
	}
	if tree.Has("hugetlb") {
		l.Hugetlb = map[int64]int64{2 << 20: 5 << 20}
	}
	j := newJob(t, tree, testJob, l)
	got, err := j.Limits()
	must.NoError(t, err)
	want := l
	if l.Mem != nil {
		want.Mem = size(64 << 20) // rounded to whole pages
	}
	if l.MemSwap != nil && tree.with("memory").v2 {
		want.MemSwap = size(96<<20 - 4096) // swap and memory are rounded separately
	}
	if l.Hugetlb != nil {
		want.Hugetlb = map[int64]int64{2 << 20: 4 << 20} // rounded to whole pages
	}
	must.Equal(t, "limits", want, got, cmpSets)
	ids, err := tree.JobIDs()
	if err != nil || !slices.Equal(ids, []string{testJob}) {
		t.Errorf("jobs are %q, %v", ids, err)
	}
	if pids, err := j.Processes(); err != nil || len(pids) != 0 {
		t.Errorf("new job has processes %v, %v", pids, err)
	}
}

var cmpSets = cmp.Comparer(func(a, b kernfs.IDSet) bool { return a.Equal(b) })

func testCreateExists(t *testing.T, w world) {
	tree := w.tree(t)
	for i, h := range tree.hierarchies {
		j, err := tree.Job(testJob)
		must.NoError(t, err)
		must.NoError(t, h.jobs.Mkdir(testJob))
		for _, l := range []Limits{tree.someLimits(), {}} {
			wantError(t, j.Create(l), ErrExists)
		}
		for k, other := range tree.hierarchies {
			if got := other.jobs.Exists(testJob); got != (k == i) {
				t.Errorf("with a directory in %s: existence in %s is %t", h.mount.Path("."), other.mount.Path("."), got)
			}
		}
		must.NoError(t, h.jobs.Rmdir(testJob))
	}
}

func testCreateUndo(t *testing.T, w world) {
	tree := w.tree(t)
	j, err := tree.Job(testJob)
	must.NoError(t, err)
	for _, tt := range []struct {
		name       string
		controller string
		limits     Limits
	}{
		{"no such cpu", "cpuset", Limits{CPUs: kernfs.IDs(4095)}},
		{"no such node", "cpuset", Limits{CPUs: kernfs.IDs(0), Mems: kernfs.IDs(63)}},
		{"quota too small", "cpu", Limits{Quota: time.Microsecond}},
		{"memory above memory and swap", "memory", Limits{Mem: size(2 << 20), MemSwap: size(1 << 20)}},
		{"negative", "pids", Limits{Pids: size(-1)}},
	} {
		if !tree.Has(tt.controller) {
			continue
		}
		if err := j.Create(tt.limits); err == nil {
			t.Errorf("%s: created", tt.name)
		} else {
			t.Logf("%s: %v", tt.name, err)
		}
		if j.Exists() {
			t.Errorf("%s: something is left", tt.name)
			endJob(t, j)
		}
	}
}

func testCreateUnsupported(t *testing.T, w world) {
	tree := w.tree(t)
	for _, tt := range []struct {
		controller string
		limits     Limits
	}{
		{"memory", Limits{Mem: size(1 << 20)}},
		{"cpuset", Limits{CPUs: kernfs.IDs(0)}},
		{"cpu", Limits{CPUShares: 100}},
		{"pids", Limits{Pids: size(5)}},
	} {
		if tree.Has(tt.controller) {
			continue
		}
		j, err := tree.Job(testJob)
		must.NoError(t, err)
		err = j.Create(tt.limits)
		wantError(t, err, ErrUnsupported)
		if err != nil && !strings.Contains(err.Error(), tt.controller) {
			t.Errorf("error does not name %s: %v", tt.controller, err)
		}
		if j.Exists() {
			t.Error("something is left")
		}
	}
}

// testNoCpuset checks PBS's rule for ncpus=0: the job has no cpuset, and its tasks are in the
// parent's.
func testNoCpuset(t *testing.T, w world) {
	tree := w.tree(t)
	l := tree.someLimits()
	l.CPUs = kernfs.IDSet{}
	j := newJob(t, tree, testJob, l)
	got, err := j.Limits()
	if err != nil || !got.CPUs.IsEmpty() {
		t.Errorf("cpus are %s, %v", got.CPUs, err)
	}
	p := w.start(t, j.Join())
	outside := w.start(t, Join{})
	must.NoError(t, attach(j, outside.pid()))
	pids, err := j.Processes()
	if err != nil || !slices.Contains(pids, p.pid()) || !slices.Contains(pids, outside.pid()) {
		t.Errorf("processes are %v, %v", pids, err)
	}
	d, ok := j.with("cpuset")
	if !ok || d.h.v2 {
		return
	}
	if d.Exists(".") {
		t.Errorf("%s exists", d.Path("."))
	}
	parent, err := directory{FS: d.h.jobs, h: d.h}.pids("tasks")
	if err != nil || !slices.Contains(parent, p.pid()) || !slices.Contains(parent, outside.pid()) {
		t.Errorf("tasks of the parent are %v, %v", parent, err)
	}
}

func testApply(t *testing.T, w world) {
	tree := w.tree(t)
	if !tree.Has("memory") {
		kernfstest.Elsewhere(t, "no memory controller to change limits of")
	}
	l := tree.someLimits()
	j := newJob(t, tree, testJob, l)
	for _, mem := range []int64{300, 100, 200, 200} {
		l.Mem, l.MemSwap = size(mem<<20), size((mem+20)<<20)
		if !tree.Has("memsw") {
			l.MemSwap = nil
		}
		if tree.Has("pids") {
			l.Pids = size(mem)
		}
		must.NoError(t, j.Apply(l, nil))
		got, err := j.Limits()
		must.NoError(t, err)
		must.Equal(t, fmt.Sprintf("limits after %d MiB", mem),
			[]*int64{l.Mem, l.MemSwap, l.Pids}, []*int64{got.Mem, got.MemSwap, got.Pids})
	}
	l.Mem, l.MemSwap, l.Pids = nil, nil, nil
	must.NoError(t, j.Apply(l, nil))
	if got, err := j.Limits(); err != nil || got.Mem != nil || got.MemSwap != nil || got.Pids != nil {
		t.Errorf("lifted limits are %+v, %v", got, err)
	}
}

func testApplyUndo(t *testing.T, w world) {
	tree := w.tree(t)
	if !tree.Has("cpuset") || !tree.Has("memory") {
		kernfstest.Elsewhere(t, "no cpuset controller to ask the impossible of")
	}
	l := tree.someLimits()
	j := newJob(t, tree, testJob, l)
	before, err := j.Limits()
	must.NoError(t, err)
	l.Mem, l.CPUs = size(64<<20), kernfs.IDs(4095)
	if err := j.Apply(l, nil); err == nil {
		t.Error("impossible cpus were applied")
	}
	after, err := j.Limits()
	must.NoError(t, err)
	must.Equal(t, "a failed change left something", before, after, cmpSets)
}

func testAvailable(t *testing.T, w world) {
	tree := w.tree(t)
	cpus, err := tree.CPUs()
	mems, merr := tree.Mems()
	if !tree.Has("cpuset") {
		wantError(t, err, ErrUnsupported)
		wantError(t, merr, ErrUnsupported)
		return
	}
	if err != nil || merr != nil || !cpus.Has(0) || !mems.Has(0) {
		t.Errorf("cpus %s, %v; mems %s, %v", cpus, err, mems, merr)
	}
}
