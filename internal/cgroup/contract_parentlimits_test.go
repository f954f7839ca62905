package cgroup

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// testParentLimits: all jobs together have limits, in addition to those of each. Lowering a limit
// takes back page cache, but nothing that the jobs cannot give back, and kills nothing.
func testParentLimits(t *testing.T, w world) {
	tree := w.tree(t)
	if !tree.Has("memory") {
		kernfstest.Elsewhere(t, "no memory controller to limit")
	}
	want := func(when string, l Limits) {
		t.Helper()
		got, err := tree.ParentLimits()
		must.NoError(t, err)
		must.Equal(t, "limits of all jobs "+when, l, got, cmpSets)
	}
	limits := func(mib int64) (l Limits) {
		if l.Mem = size(mib << 20); tree.Has("memsw") {
			l.MemSwap = size(mib << 20)
		}
		if tree.Has("pids") {
			l.Pids = size(1000 + mib)
		}
		return l
	}
	want("at first", Limits{})
	j := newJob(t, tree, testJob, Limits{})
	p := w.start(t, j.Join())
	p.touch(t, 60<<20)
	p.cache(t, 150<<20)
	must.NoError(t, tree.LimitParent(limits(300)))
	want("above all in use", limits(300))
	must.NoError(t, tree.LimitParent(limits(100))) // the jobs give back page cache
	want("with page cache in use", limits(100))
	wantNoKill(t, j, p)

	low, kept := limits(40), limits(100)
	kept.Pids = low.Pids
	wantError(t, tree.LimitParent(low), ErrInUse)
	want("with more in use", kept)
	wantNoKill(t, j, p)
	p.burn(t, time.Millisecond)
	must.NoError(t, tree.LimitParent(limits(200)))
	want("raised", limits(200))

	second := newJob(t, tree, "13.server", Limits{})
	q := w.start(t, second.Join())
	q.touch(t, 170<<20) // this kills one of the two
	must.Eventually(t, "a kill in one of the jobs", func() bool {
		kills := int64(0)
		for _, job := range []*Job{j, second} {
			u, err := job.Usage()
			must.NoError(t, err)
			kills += *u.OOMKills
		}
		return kills > 0
	})
	must.NoError(t, tree.LimitParent(Limits{}))
	want("lifted", Limits{})
	must.NoError(t, tree.LimitParent(Limits{}))
}

// testParentCPUs: the cpus of all jobs together are also those of a job without cpus. A job with
// cpus keeps them.
func testParentCPUs(t *testing.T, w world) {
	tree := w.tree(t)
	all, err := tree.CPUsAbove()
	if !tree.Has("cpuset") || err != nil || all.Len() < 2 {
		kernfstest.Elsewhere(t, "cpus are %s, %v", all, err)
	}
	first := kernfs.IDs(all.List()[0])
	none := tree.someLimits()
	none.CPUs, none.Mems = kernfs.IDSet{}, kernfs.IDSet{}
	j := newJob(t, tree, testJob, none)
	p := w.start(t, j.Join())
	want := func(when string, set kernfs.IDSet) {
		t.Helper()
		if got, err := tree.CPUs(); err != nil || !got.Equal(set) {
			t.Errorf("cpus of all jobs %s are %s, %v; want %s", when, got, err, set)
		}
		if got := allowed(t, tree, p.pid()); !got.Equal(set) {
			t.Errorf("a job without cpus %s runs on %s, want %s", when, got, set)
		}
		if got, err := tree.CPUsAbove(); err != nil || !got.Equal(all) {
			t.Errorf("cpus that jobs may have %s are %s, %v; want %s", when, got, err, all)
		}
	}
	want("at first", all)
	must.NoError(t, tree.LimitParent(Limits{CPUs: all.Minus(first)}))
	want("less one", all.Minus(first))
	must.NoError(t, tree.LimitParent(Limits{CPUs: all.Union(kernfs.IDs(4095))}))
	want("with one that the node does not have", all)

	l := tree.someLimits()
	l.CPUs = first
	second := newJob(t, tree, "13.server", l)
	q := w.start(t, second.Join())
	if tree.Mode() != ModeV2 {
		wantError(t, tree.LimitParent(Limits{CPUs: all.Minus(first)}), ErrInUse)
		want("with a job on the first", all)
	}
	must.NoError(t, tree.LimitParent(Limits{CPUs: first}))
	want("less all but one", first)
	must.NoError(t, tree.LimitParent(Limits{}))
	want("lifted", all)
	if got := allowed(t, tree, q.pid()); !got.Equal(first) {
		t.Errorf("a job with cpus %s runs on %s", first, got)
	}
}

// allowed returns the cpus on which a process may run.
func allowed(t *testing.T, tree *Tree, pid int) kernfs.IDSet {
	t.Helper()
	b, err := tree.proc.ReadFile(fmt.Sprintf("%d/status", pid))
	must.NoError(t, err)
	_, after, _ := strings.Cut(string(b), "Cpus_allowed_list:")
	list, _, _ := strings.Cut(after, "\n")
	set, err := kernfs.ParseIDSet(strings.TrimSpace(list))
	must.NoError(t, err)
	return set
}
