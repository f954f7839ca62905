package cgroup

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
)

// testShrinkInUse: what a job uses and cannot give back is not taken from it. Nothing has changed then, nobody was killed,
// and the error says how much is in use and what was wanted.
func testShrinkInUse(t *testing.T, w world) {
	tree := w.tree(t)
	if !tree.Has("memory") {
		kernfstest.Elsewhere(t, "no memory controller to change limits of")
	}
	l := tree.someLimits()
	if tree.Has("memsw") {
		l.MemSwap = l.Mem
	}
	if tree.Has("pids") {
		l.Pids = size(100)
	}
	j := newJob(t, tree, testJob, l)
	p := w.start(t, j.Join())
	p.touch(t, 80<<20)
	before, err := j.Limits()
	if err != nil {
		t.Fatal(err)
	}
	l.Mem, l.Pids = size(50<<20), nil
	if tree.Has("memsw") {
		l.MemSwap = l.Mem
	}
	err = j.Apply(l)
	wantError(t, err, ErrInUse)
	if err != nil && !strings.Contains(err.Error(), "52428800") {
		t.Errorf("error does not say what was wanted: %v", err)
	}
	after, err := j.Limits()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, after, cmpSets); diff != "" {
		t.Errorf("a refused change left something (-before +after):\n%s", diff)
	}
	wantNoKill(t, j, p)
	l.Mem = size(200 << 20)
	if tree.Has("memsw") {
		l.MemSwap = l.Mem
	}
	if err := j.Apply(l); err != nil {
		t.Errorf("what is in use fits: %v", err)
	}
	wantNoKill(t, j, p)
}

func wantNoKill(t *testing.T, j *Job, p process) {
	t.Helper()
	p.burn(t, time.Millisecond)
	u, err := j.Usage()
	if err != nil {
		t.Fatal(err)
	}
	between(t, "oom kills", u.OOMKills, 0, 0)
	if d, ok := j.freezesV2(); ok {
		if b, err := d.ReadFile(freezeFile); err == nil && trim(b) != "0" {
			t.Errorf("%s is %q", d.Path(freezeFile), b)
		}
	}
}

// testShrinkCache: page cache is given back for a lower limit.
func testShrinkCache(t *testing.T, w world) {
	tree := w.tree(t)
	if !tree.Has("memory") {
		kernfstest.Elsewhere(t, "no memory controller to change limits of")
	}
	l := tree.someLimits()
	j := newJob(t, tree, testJob, l)
	p := w.start(t, j.Join())
	p.touch(t, 20<<20)
	p.cache(t, 150<<20)
	u, err := j.Usage()
	if err != nil {
		t.Fatal(err)
	}
	between(t, "file", u.File, 100<<20, 200<<20)
	high, err := j.Limits()
	if err != nil {
		t.Fatal(err)
	}
	l.Mem = size(64 << 20)
	if err := j.Apply(l); err != nil {
		t.Fatal(err)
	}
	wantNoKill(t, j, p)
	got, err := j.Limits()
	if err != nil {
		t.Fatal(err)
	}
	want := high
	want.Mem = l.Mem
	if diff := cmp.Diff(want, got, cmpSets); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
}

// testResizeCPUs: a running job's cpus go and come back.
func testResizeCPUs(t *testing.T, w world) {
	tree := w.tree(t)
	cpus, err := tree.CPUs()
	if !tree.Has("cpuset") || err != nil || cpus.Len() < 2 {
		kernfstest.Elsewhere(t, "cpus are %s, %v", cpus, err)
	}
	l := tree.someLimits()
	l.CPUs = cpus
	j := newJob(t, tree, testJob, l)
	p := w.start(t, j.Join())
	one := kernfs.IDs(cpus.List()[0])
	for _, set := range []kernfs.IDSet{one, cpus.Minus(one), cpus} {
		l.CPUs = set
		if err := j.Apply(l); err != nil {
			t.Fatal(err)
		}
		if got, err := j.Limits(); err != nil || !got.CPUs.Equal(set) || !got.Mems.Equal(l.Mems) {
			t.Errorf("cpus are %s, mems %s, %v; want %s and %s", got.CPUs, got.Mems, err, set, l.Mems)
		}
		p.burn(t, time.Millisecond)
	}
	if d, _ := j.with("cpuset"); !d.h.v2 {
		if b, err := d.ReadFile(migrateKnob.file); err != nil || trim(b) != "0" {
			t.Errorf("memory_migrate is left at %q, %v", b, err)
		}
		l.CPUs = kernfs.IDSet{}
		wantError(t, j.Apply(l), ErrUnsupported)
	}
}
