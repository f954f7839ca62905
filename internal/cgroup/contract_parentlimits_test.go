package cgroup

import (
	"testing"
	"time"

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
