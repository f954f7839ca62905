package cgroup

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// testOOMAtOnce: a kill in an idle job is reported within 100 ms. It takes the best of five tries,
// because other programs may use the cpus.
func testOOMAtOnce(t *testing.T, w world) {
	tree := w.tree(t)
	if !tree.Has("memory") {
		kernfstest.Elsewhere(t, "no memory controller to run out of memory in")
	}
	l := tree.someLimits()
	l.Mem = size(48 << 20)
	if tree.Has("memsw") {
		l.MemSwap = l.Mem
	}
	for id := range 5 {
		j := newJob(t, tree, fmt.Sprint(id), l)
		told := make(chan time.Time, 16)
		stop := watch(t, j, func(int64) { told <- time.Now() })
		p := w.start(t, j.Join())
		time.Sleep(500 * time.Millisecond) // until the watcher's pauses are long
		p.touch(t, 128<<20)
		p.gone(t)
		dead := time.Now()
		select {
		case at := <-told:
			t.Logf("told %v after the end", at.Sub(dead))
			if at.Sub(dead) <= 100*time.Millisecond {
				return
			}
		case <-soon(t).Done():
			t.Fatal("the watcher did not tell of the kill")
		}
		stop()
	}
	t.Error("each kill was known more than 100 ms after the end")
}

// testWatchRemoved: a watcher ends soon after its cgroup is removed.
func testWatchRemoved(t *testing.T, w world) {
	tree := w.tree(t)
	if !tree.Has("memory") {
		kernfstest.Elsewhere(t, "no memory controller to watch")
	}
	j := newJob(t, tree, testJob, tree.someLimits())
	done := make(chan error, 1)
	go func() { done <- j.Watch(context.Background(), func(int64) {}, nil) }()
	p := w.start(t, j.Join())
	p.touch(t, 1<<20)
	p.end(t)
	p.gone(t)
	time.Sleep(100 * time.Millisecond)
	must.NoError(t, j.Remove(soon(t)))
	start := time.Now()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
		t.Logf("after %v", time.Since(start))
	case <-time.After(10 * SamplePause):
		t.Error("the watcher does not notice that the cgroup is gone")
	}
}
