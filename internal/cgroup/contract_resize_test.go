package cgroup

import (
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// testShrinkInUse: what a job uses and cannot give back is not taken away. In that case nothing has
// changed, nothing was killed, and the error says how much is in use and how much was wanted.
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
	must.NoError(t, err)
	l.Mem, l.Pids = size(50<<20), nil
	if tree.Has("memsw") {
		l.MemSwap = l.Mem
	}
	err = j.Apply(l, nil)
	wantError(t, err, ErrInUse)
	if err != nil && !strings.Contains(err.Error(), "52428800") {
		t.Errorf("error does not say what was wanted: %v", err)
	}
	after, err := j.Limits()
	must.NoError(t, err)
	must.Equal(t, "a refused change left something", before, after, cmpSets)
	wantNoKill(t, j, p)
	l.Mem = size(200 << 20)
	if tree.Has("memsw") {
		l.MemSwap = l.Mem
	}
	if err := j.Apply(l, nil); err != nil {
		t.Errorf("what is in use fits: %v", err)
	}
	wantNoKill(t, j, p)
}

func wantNoKill(t *testing.T, j *Job, p process) {
	t.Helper()
	p.burn(t, time.Millisecond)
	u, err := j.Usage()
	must.NoError(t, err)
	between(t, "oom kills", u.OOMKills, 0, 0)
	if d, ok := j.freezesV2(); ok {
		if b, err := d.ReadFile(freezeFile); err == nil && trim(b) != "0" {
			t.Errorf("%s is %q", d.Path(freezeFile), b)
		}
	}
}

// testShrinkCache: the job gives back page cache for a lower limit.
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
	must.NoError(t, err)
	between(t, "file", u.File, 100<<20, 200<<20)
	high, err := j.Limits()
	must.NoError(t, err)
	l.Mem = size(64 << 20)
	must.NoError(t, j.Apply(l, nil))
	wantNoKill(t, j, p)
	got, err := j.Limits()
	must.NoError(t, err)
	want := high
	want.Mem = l.Mem
	must.Equal(t, "limits", want, got, cmpSets)
}

// testResizeCPUs: a running job loses cpus and gets them back.
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
		must.NoError(t, j.Apply(l, nil))
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
		wantError(t, j.Apply(l, nil), ErrUnsupported)
	}
}

// testChangedMeanwhile: a limit that another caller changes at the same moment is distinguished
// from one that the kernel refuses. On v1 the kernel compares the memory limit with that of memory
// and swap.
func testChangedMeanwhile(t *testing.T, w world) {
	tree := w.tree(t)
	if !tree.Has("memsw") || tree.Mode() == ModeV2 { // the kernel does not compare limits
		return
	}
	j := newJob(t, tree, testJob, Limits{Mem: size(100 << 20), MemSwap: size(100 << 20)})
	was, err := j.Limits()
	must.NoError(t, err)
	for _, n := range []int64{50 << 20, 200 << 20} {
		to := was
		to.Mem, to.MemSwap = &n, &n
		plan := j.plan(&was, to)
		done, err := j.apply(plan[1:], nil)
		wantError(t, err, ErrNotInForce)
		must.NoError(t, j.undo(plan[1:][:done]))
		after, err := j.Limits()
		must.NoError(t, err)
		must.Equal(t, "limits", was, after, cmpSets)
	}
}
