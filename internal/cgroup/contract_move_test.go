package cgroup

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/proc"
)

// places returns where a process is in each hierarchy, in their order.
func places(t *testing.T, tree *Tree, pid int) (list []string) {
	t.Helper()
	for _, h := range tree.hierarchies {
		list = append(list, placeOf(t, tree, h, pid))
	}
	return list
}

// wantPlaces checks that a process has not been moved.
func wantPlaces(t *testing.T, tree *Tree, pid int, want []string) {
	t.Helper()
	if got := places(t, tree, pid); !slices.Equal(got, want) {
		t.Errorf("process %d was moved from %q to %q", pid, want, got)
	}
}

// testAttachOfAnotherJob: a process in another job stays where it is, even if it is in that job in
// only one hierarchy.
func testAttachOfAnotherJob(t *testing.T, w world) {
	tree := w.tree(t)
	j, other := newJob(t, tree, testJob, tree.someLimits()), newJob(t, tree, "13.server", tree.someLimits())
	whole, half := w.start(t, other.Join()), w.start(t, Join{})
	must.NoError(t, other.home().Write("cgroup.procs", fmt.Sprint(half.pid())))
	for _, p := range []process{whole, half} {
		before := places(t, tree, p.pid())
		taken, err := j.Attach(number(p.pid()), nil)
		var in OtherJobError
		if taken || !errors.As(err, &in) || in != "13.server" {
			t.Errorf("taken is %t, %v", taken, err)
		}
		wantPlaces(t, tree, p.pid(), before)
	}
}

// testAttachBelow: a process that the job has moved below its cgroup stays there. If a process is
// in the job in a single hierarchy, it is attached in all of them.
func testAttachBelow(t *testing.T, w world) {
	tree := w.tree(t)
	j := newJob(t, tree, testJob, tree.someLimits())
	below, half := w.start(t, j.Join()), w.start(t, Join{})
	d := j.home()
	must.NoError(t, errors.Join(d.Mkdir("container"), d.Write("container/cgroup.procs", fmt.Sprint(below.pid())),
		d.Write("cgroup.procs", fmt.Sprint(half.pid()))))
	before := places(t, tree, below.pid())
	for _, p := range []process{below, half} {
		if taken, err := j.Attach(number(p.pid()), nil); taken || err != nil {
			t.Errorf("taken is %t, %v", taken, err)
		}
	}
	wantPlaces(t, tree, below.pid(), before)
	for _, d := range j.dirs {
		if pids, err := d.pids("cgroup.procs"); err != nil || !slices.Contains(pids, half.pid()) {
			t.Errorf("%s has %v, %v; want %d as well", d.Path("."), pids, err, half.pid())
		}
	}
}

// testAttachHeldMap: the memory map is free before anything is moved, and still is right before the
// process enters the cpuset. By then the process has a limit of memory, and so has a child that it
// forks. A later attach completes the first.
func testAttachHeldMap(t *testing.T, w world) {
	tree := w.tree(t)
	j := newJob(t, tree, testJob, tree.someLimits())
	cpuset, memory := tree.with("cpuset"), tree.with("memory")
	if cpuset == nil || memory == nil {
		return
	}
	p := w.start(t, Join{})
	before := places(t, tree, p.pid())
	left := 0
	check := func() error {
		if left--; left < 0 {
			return proc.ErrHangs
		}
		return nil
	}
	attach := func() (taken bool) {
		t.Helper()
		taken, err := j.Attach(number(p.pid()), check)
		wantError(t, err, proc.ErrHangs)
		return taken
	}
	attach()
	wantPlaces(t, tree, p.pid(), before)
	if cpuset != memory {
		left = 1
		if !attach() {
			t.Error("no part of the job contained the process before")
		}
		in := map[*hierarchy]bool{}
		for _, h := range tree.hierarchies {
			_, in[h] = h.jobAt(placeOf(t, tree, h, p.pid()))
		}
		if !in[memory] || in[cpuset] {
			t.Errorf("it is in memory: %t, in the cpuset: %t", in[memory], in[cpuset])
		}
	}
	left = 2
	if taken, err := j.Attach(number(p.pid()), check); taken == (cpuset != memory) || err != nil {
		t.Errorf("taken is %t, %v", taken, err)
	}
	for _, d := range j.dirs {
		if pids, err := d.pids("cgroup.procs"); err != nil || !slices.Contains(pids, p.pid()) {
			t.Errorf("%s has %v, %v; want %d as well", d.Path("."), pids, err, p.pid())
		}
	}
}

// passed holds a process that has ended and whose pid another process has.
type passed struct{ number }

func (passed) Signal(syscall.Signal) error { return proc.ErrGone }

// testAttachEnded: a process that got the pid of an ended one is not moved.
func testAttachEnded(t *testing.T, w world) {
	tree := w.tree(t)
	j, other := newJob(t, tree, testJob, tree.someLimits()), newJob(t, tree, "13.server", tree.someLimits())
	if err := j.MakeSubgroup("rank.0", nil); err != nil && !errors.Is(err, ErrUnsupported) {
		t.Fatal(err)
	}
	for _, join := range []Join{{}, j.Join(), other.Join()} {
		p := w.start(t, join)
		before := places(t, tree, p.pid())
		taken, err := j.Attach(passed{number(p.pid())}, nil)
		var in OtherJobError
		if taken || !errors.Is(err, ErrEnded) && !errors.As(err, &in) {
			t.Errorf("taken is %t, %v", taken, err)
		}
		wantError(t, j.AttachSubgroup("rank.0", passed{number(p.pid())}), ErrEnded)
		wantPlaces(t, tree, p.pid(), before)
	}
}

// testSubgroupOfOthers: a subgroup accepts only processes of the job.
func testSubgroupOfOthers(t *testing.T, w world) {
	tree := w.tree(t)
	j := splitJob(t, tree, tree.someLimits())
	other := newJob(t, tree, "13.server", tree.someLimits())
	must.NoError(t, j.MakeSubgroup("rank.0", nil))
	for _, join := range []Join{{}, other.Join()} {
		p := w.start(t, join)
		before := places(t, tree, p.pid())
		if err := attachSubgroup(j, "rank.0", p.pid()); err != nil {
			t.Error(err)
		}
		wantPlaces(t, tree, p.pid(), before)
	}
}
