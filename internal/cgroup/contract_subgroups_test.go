package cgroup

import (
	"errors"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// splitJob creates a job with two subgroups, rank.0 and rank.1.
func splitJob(t *testing.T, tree *Tree, l Limits) *Job {
	t.Helper()
	if len(newJobOf(t, tree).subgroupDirs()) == 0 {
		kernfstest.Elsewhere(t, "neither memory nor cpu time is counted by cgroup")
	}
	j := newJob(t, tree, testJob, l)
	for range 2 {
		must.NoError(t, j.Split())
	}
	j = j.WithSubgroups()
	for _, name := range []string{"rank.0", "rank.1"} {
		must.NoError(t, j.MakeSubgroup(name, []byte("of "+name)))
	}
	return j
}

func newJobOf(t *testing.T, tree *Tree) *Job {
	t.Helper()
	j, err := tree.Job(testJob)
	must.NoError(t, err)
	return j
}

func wantPids(t *testing.T, what string, got []int, err error, want ...int) {
	t.Helper()
	slices.Sort(want)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%s: %v, %v; want %v", what, got, err, want)
	}
}

// testSubgroups: processes in subgroups belong to the job in every respect, and their usage is
// counted separately.
func testSubgroups(t *testing.T, w world) {
	tree := w.tree(t)
	j := splitJob(t, tree, tree.someLimits())
	p, q, r := w.start(t, j.Join()), w.start(t, j.Join()), w.start(t, Join{})
	must.NoError(t, attach(j, r.pid()))
	pids, err := j.Ungrouped()
	wantPids(t, "in no subgroup", pids, err, p.pid(), q.pid(), r.pid())
	for range 2 {
		must.NoError(t, attachSubgroup(j, "rank.1", q.pid(), r.pid()))
	}
	forked := q.fork(t, 2)
	inside := append([]int{q.pid(), r.pid()}, forked...)
	// When a session is attached again, its ranks stay where they are.
	must.NoError(t, attach(j, p.pid(), q.pid()))
	pids, err = j.Ungrouped()
	wantPids(t, "in no subgroup", pids, err, p.pid())
	pids, err = j.Processes()
	wantPids(t, "in the job", pids, err, append(inside, p.pid())...)
	pids, err = j.Entered()
	wantPids(t, "to be signalled", pids, err, append(inside, p.pid())...)
	for _, pid := range inside {
		if name, ok, err := j.SubgroupOf(pid); err != nil || !ok || name != "rank.1" {
			t.Errorf("subgroup of %d: %q, %v, %v", pid, name, ok, err)
		}
		if id, ok, err := tree.JobOf(pid); err != nil || !ok || id != testJob {
			t.Errorf("job of %d: %q, %v, %v", pid, id, ok, err)
		}
	}
	for _, pid := range []int{p.pid(), w.start(t, Join{}).pid(), 0} {
		if name, ok, err := j.SubgroupOf(pid); err != nil || ok {
			t.Errorf("subgroup of %d: %q, %v, %v", pid, name, ok, err)
		}
	}
	subgroups, err := j.Subgroups()
	want := []Subgroup{{"rank.0", []byte("of rank.0")}, {"rank.1", []byte("of rank.1")}}
	same := func(a, b Subgroup) bool { return a.Name == b.Name && string(a.Mark) == string(b.Mark) }
	if err != nil || !slices.EqualFunc(subgroups, want, same) {
		t.Errorf("subgroups %q, %v; want %q", subgroups, err, want)
	}
	if tree.Has("freeze") {
		if err := errors.Join(j.Suspend(soon(t)), j.Thaw(soon(t))); err != nil {
			t.Error(err)
		}
	}
	if err := j.RemoveSubgroup("rank.1"); !errors.Is(err, ErrBusy) {
		t.Errorf("a subgroup with processes was removed, or %v", err)
	}
	if _, err := j.Kill(soon(t)); err != nil {
		t.Errorf("kill: %v", err)
	}
	for _, a := range []process{p, q, r} {
		a.gone(t)
	}
	must.NoError(t, j.Remove(soon(t)))
	if j.Exists() {
		t.Error("something is left of a job with subgroups")
	}
}

// testSubgroupUsage: usage of a subgroup counts for the subgroup and for the job, and for the job
// permanently.
func testSubgroupUsage(t *testing.T, w world) {
	tree := w.tree(t)
	j := splitJob(t, tree, tree.someLimits())
	p, q := w.start(t, j.Join()), w.start(t, j.Join())
	must.NoError(t, errors.Join(attachSubgroup(j, "rank.0", p.pid()), attachSubgroup(j, "rank.1", q.pid())))
	const burnt, touched = 300 * time.Millisecond, 24 << 20
	used := func(name string) SubgroupUsage {
		t.Helper()
		u, err := j.SubgroupUsage(name)
		must.NoError(t, err)
		return u
	}
	p.burn(t, burnt)
	a, b := used("rank.0"), used("rank.1")
	if a.CPU != nil && b.CPU != nil && (*a.CPU < burnt*9/10 || *b.CPU >= *a.CPU) {
		t.Errorf("cpu time %v and %v, want %v in the first and less in the second", *a.CPU, *b.CPU, burnt)
	}
	if (a.CPU == nil) != (tree.with("cpuacct") == nil && tree.mode != ModeV2) {
		t.Errorf("cpu time %v", a.CPU)
	}
	q.touch(t, touched)
	a, b = used("rank.0"), used("rank.1")
	if (b.MemPeak == nil) != !tree.Has("peak") {
		t.Errorf("peak %v", b.MemPeak)
	}
	if b.MemPeak != nil && (*b.MemPeak < touched || *a.MemPeak >= touched) {
		t.Errorf("peaks %d and %d, want %d in the second alone", *a.MemPeak, *b.MemPeak, touched)
	}
	q.end(t)
	q.gone(t)
	before, err := j.Usage()
	must.NoError(t, err)
	end := time.Now().Add(10 * time.Second)
	// A process leaves the list before it leaves the cgroup.
	for err = errNotYet; err != nil && time.Now().Before(end); time.Sleep(time.Millisecond) {
		if empty, emptyErr := j.SubgroupEmpty("rank.1"); emptyErr != nil || !empty {
			err = errors.Join(emptyErr, errNotYet)
			continue
		}
		err = j.RemoveSubgroup("rank.1")
	}
	must.NoError(t, err)
	if empty, err := j.SubgroupEmpty("rank.0"); err != nil || empty {
		t.Errorf("a subgroup with a process is empty: %v, %v", empty, err)
	}
	_, err = j.SubgroupUsage("rank.1")
	wantError(t, err, ErrNotFound)
	after, err := j.Usage()
	must.NoError(t, err)
	if before.CPU != nil && *after.CPU < *before.CPU {
		t.Errorf("the job's cpu time was %v and is %v when a subgroup is gone", *before.CPU, *after.CPU)
	}
	if before.CgroupPeak != nil && *after.CgroupPeak < touched {
		t.Errorf("the job's peak is %d when a subgroup is gone, want %d", *after.CgroupPeak, touched)
	}
	if err := j.RemoveSubgroup("rank.1"); err != nil {
		t.Errorf("removed again: %v", err)
	}
}

var errNotYet = errors.New("not yet")

// testSubgroupOOM: the kernel kills at the job's limit, and the victim's rank is known.
func testSubgroupOOM(t *testing.T, w world) {
	tree := w.tree(t)
	if !tree.Has("memory") {
		kernfstest.Elsewhere(t, "no memory controller")
	}
	l := tree.someLimits()
	l.Mem, l.MemSwap = size(64<<20), nil
	if tree.Has("memsw") {
		l.MemSwap = size(64 << 20)
	}
	j := splitJob(t, tree, l)
	p, q := w.start(t, j.Join()), w.start(t, j.Join())
	must.NoError(t, errors.Join(attachSubgroup(j, "rank.0", p.pid()), attachSubgroup(j, "rank.1", q.pid())))
	q.touch(t, 256<<20)
	q.gone(t)
	p.burn(t, time.Millisecond)
	u, err := j.Usage()
	if err != nil || u.OOMKills == nil || *u.OOMKills != 1 {
		t.Errorf("kills in the job: %v, %v; want 1", u.OOMKills, err)
	}
	for name, want := range map[string]int64{"rank.0": 0, "rank.1": 1} {
		u, err := j.SubgroupUsage(name)
		if err != nil || u.OOMKills == nil || *u.OOMKills != want {
			t.Errorf("kills in %s: %v, %v; want %d", name, u.OOMKills, err, want)
		}
	}
}

// testSubgroupResize: subgroups do not prevent changes of the job's limits.
func testSubgroupResize(t *testing.T, w world) {
	tree := w.tree(t)
	l := tree.someLimits()
	j := splitJob(t, tree, l)
	p := w.start(t, j.Join())
	must.NoError(t, attachSubgroup(j, "rank.0", p.pid()))
	if l.Mem != nil {
		l.Mem = size(128 << 20)
	}
	if cpus, err := tree.CPUs(); err == nil && cpus.Has(1) {
		l.CPUs = kernfs.IDs(1)
	}
	if tree.Has("pids") {
		l.Pids = size(100)
	}
	must.NoError(t, j.Apply(l, nil))
	got, err := j.Limits()
	if err != nil || !got.CPUs.Equal(l.CPUs) || l.Mem != nil && *got.Mem != *l.Mem {
		t.Errorf("limits %+v, %v; want %+v", got, err, l)
	}
}

// testSubgroupMissing: calls on missing subgroups fail and create nothing.
func testSubgroupMissing(t *testing.T, w world) {
	tree := w.tree(t)
	j := newJobOf(t, tree)
	if len(j.subgroupDirs()) == 0 {
		kernfstest.Elsewhere(t, "neither memory nor cpu time is counted by cgroup")
	}
	wantError(t, j.MakeSubgroup("rank.0", nil), ErrNotFound)
	subgroups, err := j.Subgroups()
	if err != nil || len(subgroups) != 0 {
		t.Errorf("subgroups %v, %v", subgroups, err)
	}
	pids, err := j.Ungrouped()
	wantPids(t, "in no subgroup", pids, err)
	if j.Exists() {
		t.Error("something was made")
	}
	j = splitJob(t, tree, tree.someLimits())
	dead := w.start(t, Join{})
	dead.end(t)
	dead.gone(t)
	if err := attachSubgroup(j, "rank.0", dead.pid()); err != nil && !errors.Is(err, ErrEnded) {
		t.Errorf("a process that is gone: %v", err)
	}
	wantError(t, attachSubgroup(j, "rank.9", w.start(t, j.Join()).pid()), ErrNotFound)
	for _, name := range []string{"", ".", "..", "a/b", mainGroup} {
		if err := j.MakeSubgroup(name, nil); err == nil {
			t.Errorf("subgroup %q was made", name)
		}
	}
	for _, pid := range []int{0, -1} {
		if err := attachSubgroup(j, "rank.0", pid); err == nil {
			t.Errorf("process %d was attached", pid)
		}
	}
	// A directory below the job's cgroup without our mark is not a subgroup.
	d := j.subgroupDirs()[0]
	must.NoError(t, d.Mkdir("container"))
	if _, err := d.Xattr("container", subgroupMark); !errors.Is(err, unix.ENODATA) {
		t.Errorf("mark of a container: %v", err)
	}
	if subgroups, err := j.Subgroups(); err != nil || len(subgroups) != 2 {
		t.Errorf("subgroups %v, %v; want two", subgroups, err)
	}
}
