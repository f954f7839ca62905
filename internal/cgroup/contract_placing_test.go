package cgroup

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// testPlaced: a job is in every controller that was requested, and in none of the other placing
// ones.
func testPlaced(t *testing.T, w world) {
	for _, c := range placing {
		if plain := w.tree(t); plain.with(c) != nil {
			t.Errorf("jobs have a cgroup in %s, which nobody asked for", c)
		}
	}
	tree := w.tree(t, placing...)
	j := newJob(t, tree, testJob, tree.someLimits())
	p, other := w.start(t, j.Join()), w.start(t, Join{})
	must.NoError(t, attach(j, other.pid()))
	for _, c := range placing {
		h := tree.with(c)
		if h == nil {
			t.Logf("%s: not on this kernel; has is %t", c, tree.Has(c))
			continue
		}
		if !tree.Has(c) || !slices.Contains(tree.Controllers(), c) {
			t.Errorf("%s is said not to be there", c)
		}
		for _, pid := range []int{p.pid(), other.pid()} {
			if at := placeOf(t, tree, h, pid); !strings.HasSuffix(at, "/"+testJob) {
				t.Errorf("%s: process %d is in %q", c, pid, at)
			}
		}
	}
	for _, p := range []process{p, other} {
		p.end(t)
		p.gone(t)
	}
	must.NoError(t, j.Remove(soon(t)))
	for _, h := range tree.hierarchies {
		if h.jobs.Exists(testJob) {
			t.Errorf("%s is left", h.jobs.Path(testJob))
		}
	}
}

// placeOf returns a process's cgroup in a hierarchy.
func placeOf(t *testing.T, tree *Tree, h *hierarchy, pid int) string {
	t.Helper()
	b, err := tree.proc.ReadFile(fmt.Sprintf("%d/cgroup", pid))
	must.NoError(t, err)
	for line := range strings.Lines(string(b)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if h.v2 && f[1] == "" || !h.v2 && slices.Contains(strings.Split(f[1], ","), h.controllers()[0]) {
			return f[2]
		}
	}
	return ""
}

// testPlacedBefore: a job may have begun before its tree used a controller. Processes can still be
// attached to it, and it can be ended. A job that began with the controller is removed from there
// even by a tree that no longer uses it. On v2 one hierarchy has all controllers, so a job cannot
// be in only some of them.
func testPlacedBefore(t *testing.T, w world) {
	before := w.tree(t)
	if before.Mode() == ModeV2 {
		return
	}
	newJob(t, before, testJob, before.someLimits())
	later := again(t, w, before, placing...)
	h := later.with("blkio")
	same, err := later.Job(testJob)
	must.NoError(t, err)
	p := w.start(t, same.Join())
	if at := placeOf(t, later, h, p.pid()); !strings.HasSuffix(at, h.unit+"/"+h.leaf) {
		t.Errorf("a process of an older job is in %q", at)
	}
	if err := attach(same, p.pid()); err != nil {
		t.Error(err)
	}
	endJob(t, same)
	p.gone(t)
	newJob(t, later, "13.server", later.someLimits())
	if !h.jobs.Exists("13.server") {
		t.Fatal("no directory")
	}
	last := again(t, w, before)
	j, err := last.Job("13.server")
	must.NoError(t, err)
	attached := w.start(t, j.Join())
	if at := placeOf(t, later, h, attached.pid()); !strings.HasSuffix(at, "/13.server") {
		t.Errorf("a process of a job that is in blkio is in %q", at)
	}
	endJob(t, j)
	attached.gone(t)
	if h.jobs.Exists("13.server") {
		t.Errorf("%s is left", h.jobs.Path("13.server"))
	}
	if last.with("blkio") != nil {
		t.Error("blkio is one of the controllers still")
	}
	for _, dir := range []string{h.unit + "/" + h.leaf, h.unit} { // as if it were no longer mounted
		must.NoError(t, h.mount.Rmdir(dir))
	}
	j = newJob(t, last, "14.server", last.someLimits())
	if err := attach(j, w.start(t, j.Join()).pid()); err != nil {
		t.Error(err)
	}
}

// again opens the tree once more, as after a restart with another configuration.
func again(t *testing.T, w world, tree *Tree, controllers ...string) *Tree {
	t.Helper()
	prefix := strings.TrimSuffix(tree.hierarchies[0].unit, ".service")
	if k, ok := w.(kernel); ok {
		return k.openTree(t, prefix, controllers...)
	}
	return w.tree(t, controllers...)
}

// testSoftLimit: a job may have a soft limit, which disappears with its cgroup.
func testSoftLimit(t *testing.T, w world) {
	tree := w.tree(t)
	if !tree.Has("memory") {
		l := tree.someLimits()
		l.MemSoft = size(1 << 20)
		wantNotCreated(t, tree, l, ErrUnsupported)
		return
	}
	h := tree.with("memory")
	protects := func(want uint64) {
		t.Helper()
		if !h.v2 {
			return
		}
		for _, dir := range []string{h.unit, h.unit + "/" + h.leaf} {
			if got, err := h.mount.Uint(dir + "/" + memoryLow); err != nil || got != want {
				t.Errorf("memory.low of %s is %d, %v; want %d", dir, got, err, want)
			}
		}
	}
	l := tree.someLimits()
	l.Mem, l.MemSoft = size(64<<20), size(16<<20)
	j := newJob(t, tree, testJob, l)
	protects(16 << 20)
	other := newJob(t, tree, "13.server", l)
	protects(32 << 20)
	for _, soft := range []*int64{size(24 << 20), nil, size(16 << 20)} {
		l.MemSoft = soft
		must.NoError(t, j.Apply(l, nil))
		want := uint64(16 << 20)
		if soft != nil {
			want += uint64(*soft)
		}
		protects(want)
		for _, controllers := range [][]string{nil, {"memory"}} {
			if got, err := j.Limits(controllers...); err != nil || formatBytes(got.MemSoft) != formatBytes(soft) {
				t.Errorf("soft limit is %s, %v; want %s", formatBytes(got.MemSoft), err, formatBytes(soft))
			}
		}
	}
	for _, j := range []*Job{j, other} {
		must.NoError(t, j.Remove(soon(t)))
	}
	protects(0)
}

// testCpusetFlags: v1 has two more flags of a cpuset, which v2 ignores.
func testCpusetFlags(t *testing.T, w world) {
	tree := w.tree(t)
	h := tree.with("cpuset")
	if v1 := h != nil && !h.v2; tree.Has("hardwall") != v1 || tree.Has("spread") != v1 {
		t.Errorf("hardwall is %t, spread %t", tree.Has("hardwall"), tree.Has("spread"))
	}
	l := tree.someLimits()
	l.MemHardwall, l.SpreadPage = true, true
	j := newJob(t, tree, testJob, l)
	for _, hardwall := range []bool{true, false, true} {
		l.MemHardwall = hardwall
		must.NoError(t, j.Apply(l, nil))
		got, err := j.Limits()
		must.NoError(t, err)
		v1 := h != nil && !h.v2
		if got.MemHardwall != (hardwall && v1) || got.SpreadPage != v1 {
			t.Errorf("hardwall is %t, spread %t; want %t, %t", got.MemHardwall, got.SpreadPage, hardwall && v1, v1)
		}
	}
	l.CPUs, l.Mems = Limits{}.CPUs, Limits{}.Mems
	newJob(t, tree, "13.server", l) // without a cpuset there is nothing to set
}
