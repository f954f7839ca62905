package cgroup

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// world is a kernel to try jobs on: the fake one or the running one.
type world interface {
	// tree returns a tree of the test's own, prepared, that goes away with the test.
	tree(t *testing.T) *Tree
	// start starts an idle process inside join, or outside of every job for the zero Join, and ends it with the test.
	start(t *testing.T, join Join) process
}

// process is one that does as it is told.
type process interface {
	pid() int
	burn(t *testing.T, d time.Duration)    // use cpu time
	touch(t *testing.T, n int64)           // take n bytes of memory and keep them; the process may die of it
	fork(t *testing.T, n int) (pids []int) // start n processes that leave the session
	end(t *testing.T)                      // exit
	gone(t *testing.T)                     // wait until it has ended
}

// contract is what every kernel has to do for a job. It is run on each that there is.
func contract(t *testing.T, w world) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, world)
	}{
		{"create", testCreate},
		{"create exists", testCreateExists},
		{"create undo", testCreateUndo},
		{"create unsupported", testCreateUnsupported},
		{"no cpuset", testNoCpuset},
		{"apply", testApply},
		{"apply undo", testApplyUndo},
		{"names", testNames},
		{"foreign directories", testForeignDirectories},
		{"marks", testMarks},
		{"join", testJoin},
		{"attach", testAttach},
		{"missing job", testMissing},
		{"usage", testUsage},
		{"oom", testOOM},
		{"watch", testWatchPeak},
		{"signal", testSignal},
		{"kill", testKill},
		{"kill frozen", testKillFrozen},
		{"freeze", testFreeze},
		{"wait", testWait},
		{"remove", testRemove},
		{"lock", testLock},
		{"available", testAvailable},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, w) })
	}
}

const testJob = "12.server"

func size(n int64) *int64 { return &n }

// limits are some that every node can hold.
func (t *Tree) someLimits() Limits {
	var l Limits
	if t.Has("memory") {
		l.Mem = size(256 << 20)
	}
	if t.Has("cpuset") {
		l.CPUs, l.Mems = kernfs.IDs(0), kernfs.IDs(0)
	}
	return l
}

func newJob(t *testing.T, tree *Tree, id string, l Limits) *Job {
	t.Helper()
	j, err := tree.Job(id)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Create(l); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { endJob(t, j) })
	return j
}

func endJob(t testing.TB, j *Job) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := j.Kill(ctx); err != nil {
		t.Error(err)
	}
	if err := j.Remove(ctx); err != nil {
		t.Error(err)
	}
}

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func wantError(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got error %v, want %v", err, want)
	}
}

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
	j := newJob(t, tree, testJob, l)
	got, err := j.Limits()
	if err != nil {
		t.Fatal(err)
	}
	want := l
	if l.Mem != nil {
		want.Mem = size(64 << 20) // whole pages
	}
	if l.MemSwap != nil && tree.with("memory").v2 {
		want.MemSwap = size(96<<20 - 4096) // swap and memory are each rounded
	}
	if diff := cmp.Diff(want, got, cmpSets); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
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
		if err != nil {
			t.Fatal(err)
		}
		if err := h.jobs.Mkdir(testJob); err != nil {
			t.Fatal(err)
		}
		for _, l := range []Limits{tree.someLimits(), {}} {
			wantError(t, j.Create(l), ErrExists)
		}
		for k, other := range tree.hierarchies {
			if got := other.jobs.Exists(testJob); got != (k == i) {
				t.Errorf("with a directory in %s: existence in %s is %t", h.mount.Path("."), other.mount.Path("."), got)
			}
		}
		if err := h.jobs.Rmdir(testJob); err != nil {
			t.Fatal(err)
		}
	}
}

func testCreateUndo(t *testing.T, w world) {
	tree := w.tree(t)
	j, err := tree.Job(testJob)
	if err != nil {
		t.Fatal(err)
	}
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
		if err != nil {
			t.Fatal(err)
		}
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

// testNoCpuset is PBS's rule for ncpus=0: no cpuset of its own, tasks in the parent's.
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
	if err := j.Attach([]int{outside.pid()}); err != nil {
		t.Fatal(err)
	}
	if pids, err := j.Processes(); err != nil || !slices.Contains(pids, p.pid()) || !slices.Contains(pids, outside.pid()) {
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
		t.Skip("no memory controller to change limits of")
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
		if err := j.Apply(l); err != nil {
			t.Fatal(err)
		}
		got, err := j.Limits()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]*int64{l.Mem, l.MemSwap, l.Pids}, []*int64{got.Mem, got.MemSwap, got.Pids}); diff != "" {
			t.Errorf("limits after %d MiB (-want +got):\n%s", mem, diff)
		}
	}
	l.Mem, l.MemSwap, l.Pids = nil, nil, nil
	if err := j.Apply(l); err != nil {
		t.Fatal(err)
	}
	if got, err := j.Limits(); err != nil || got.Mem != nil || got.MemSwap != nil || got.Pids != nil {
		t.Errorf("lifted limits are %+v, %v", got, err)
	}
}

func testApplyUndo(t *testing.T, w world) {
	tree := w.tree(t)
	if !tree.Has("cpuset") || !tree.Has("memory") {
		t.Skip("no cpuset controller to ask the impossible of")
	}
	l := tree.someLimits()
	j := newJob(t, tree, testJob, l)
	before, err := j.Limits()
	if err != nil {
		t.Fatal(err)
	}
	l.Mem, l.CPUs = size(64<<20), kernfs.IDs(4095)
	if err := j.Apply(l); err == nil {
		t.Error("impossible cpus were applied")
	}
	after, err := j.Limits()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, after, cmpSets); diff != "" {
		t.Errorf("a failed change left something (-before +after):\n%s", diff)
	}
}

func testNames(t *testing.T, w world) {
	tree := w.tree(t)
	for _, id := range []string{"1", "12[].server", "12[34].pbs-server.example.org", "7.a..b"} {
		j := newJob(t, tree, id, tree.someLimits())
		if !j.Exists() || j.ID() != id {
			t.Errorf("job %s does not exist", id)
		}
	}
	for _, id := range []string{"", ".", "..", "../1", "1/2", "x", "1.srv/..", "1\n"} {
		if _, err := tree.Job(id); err == nil {
			t.Errorf("job %q was taken", id)
		}
	}
}

func testForeignDirectories(t *testing.T, w world) {
	tree := w.tree(t)
	newJob(t, tree, testJob, tree.someLimits())
	for i, h := range tree.hierarchies {
		name := []string{"machine.slice", "88.orphan"}[i%2]
		if err := h.jobs.Mkdir(name); err != nil {
			t.Fatal(err)
		}
		defer h.jobs.Rmdir(name)
	}
	want := []string{testJob}
	if len(tree.hierarchies) > 1 {
		want = append(want, "88.orphan") // in some of the hierarchies only
	}
	if ids, err := tree.JobIDs(); err != nil || !slices.Equal(ids, want) {
		t.Errorf("jobs are %q, %v; want %q", ids, err, want)
	}
	if len(want) > 1 {
		j, err := tree.Job(want[1])
		if err != nil {
			t.Fatal(err)
		}
		if err := j.Remove(soon(t)); err != nil {
			t.Error(err)
		}
		if j.Exists() {
			t.Error("an incomplete job is not removed")
		}
	}
}

func testMarks(t *testing.T, w world) {
	tree := w.tree(t)
	j := newJob(t, tree, testJob, tree.someLimits())
	const name = "trusted.hookhost.test"
	_, err := j.Mark(name)
	wantError(t, err, unix.ENODATA)
	for _, value := range []string{"one", "two and more"} {
		if err := j.SetMark(name, []byte(value)); err != nil {
			t.Fatal(err)
		}
		if got, err := j.Mark(name); err != nil || string(got) != value {
			t.Errorf("mark is %q, %v; want %q", got, err, value)
		}
	}
}

func testJoin(t *testing.T, w world) {
	tree := w.tree(t)
	j := newJob(t, tree, testJob, tree.someLimits())
	p := w.start(t, j.Join())
	for _, d := range j.dirs {
		if pids, err := d.pids("cgroup.procs"); err != nil || !slices.Equal(pids, []int{p.pid()}) {
			t.Errorf("%s has %v, %v; want %d", d.Path("."), pids, err, p.pid())
		}
	}
	if pids, err := j.Processes(); err != nil || !slices.Equal(pids, []int{p.pid()}) {
		t.Errorf("processes are %v, %v; want %d", pids, err, p.pid())
	}
}

func testAttach(t *testing.T, w world) {
	tree := w.tree(t)
	j := newJob(t, tree, testJob, tree.someLimits())
	p, q, dead := w.start(t, Join{}), w.start(t, Join{}), w.start(t, Join{})
	dead.end(t)
	dead.gone(t)
	for range 2 {
		if err := j.Attach([]int{p.pid(), dead.pid(), q.pid()}); err != nil {
			t.Fatal(err)
		}
	}
	want := []int{p.pid(), q.pid()}
	slices.Sort(want)
	for _, d := range j.dirs {
		if pids, err := d.pids("cgroup.procs"); err != nil || !slices.Equal(pids, want) {
			t.Errorf("%s has %v, %v; want %v", d.Path("."), pids, err, want)
		}
	}
	want = append(want, p.fork(t, 1)...)
	slices.Sort(want)
	if pids, err := j.Processes(); err != nil || !slices.Equal(pids, want) {
		t.Errorf("after a fork: processes are %v, %v; want %v", pids, err, want)
	}
	for _, pid := range []int{0, -1} {
		if err := j.Attach([]int{pid}); err == nil {
			t.Errorf("process %d was attached", pid)
		}
	}
}

func testMissing(t *testing.T, w world) {
	tree := w.tree(t)
	j, err := tree.Job("404.server")
	if err != nil {
		t.Fatal(err)
	}
	_, err = j.Limits()
	wantError(t, err, ErrNotFound)
	_, err = j.Usage()
	wantError(t, err, ErrNotFound)
	_, err = j.Processes()
	wantError(t, err, ErrNotFound)
	_, err = j.Mark("trusted.x")
	wantError(t, err, ErrNotFound)
	wantError(t, j.SetMark("trusted.x", nil), ErrNotFound)
	wantError(t, j.Apply(Limits{}), ErrNotFound)
	wantError(t, j.Freeze(soon(t)), ErrNotFound)
	wantError(t, j.Attach([]int{w.start(t, Join{}).pid()}), ErrNotFound)
	if r, err := j.Kill(soon(t)); err != nil || r.Processes != 0 {
		t.Errorf("kill: %+v, %v", r, err)
	}
	if err := errors.Join(j.Remove(soon(t)), j.Wait(soon(t))); err != nil {
		t.Error(err)
	}
	if tree.Has("memory") {
		if err := j.Watch(soon(t), func(int64) {}); err != nil {
			t.Error(err)
		}
	}
	if j.Exists() {
		t.Error("something was made")
	}
}

func testUsage(t *testing.T, w world) {
	tree := w.tree(t)
	j := newJob(t, tree, testJob, tree.someLimits())
	p := w.start(t, j.Join())
	p.burn(t, 300*time.Millisecond)
	const touched = 20 << 20
	p.touch(t, touched)
	u, err := j.Usage()
	if err != nil {
		t.Fatal(err)
	}
	between(t, "cpu", u.CPU, 250*time.Millisecond, 5*time.Second)
	if u.User == nil || u.System == nil || (*u.User+*u.System-*u.CPU).Abs() > 40*time.Millisecond {
		t.Errorf("user %v and system %v are not cpu %v", u.User, u.System, u.CPU)
	}
	if tree.Has("pids") {
		between(t, "pids", u.Pids, 1, 100)
		if d, _ := j.with("pids"); d.Exists("pids.peak") {
			between(t, "pids peak", u.PidsPeak, 1, 100)
		} else if u.PidsPeak != nil {
			t.Errorf("pids peak is %d on a kernel that does not tell", *u.PidsPeak)
		}
	}
	if !tree.Has("memory") {
		if u.Anon != nil || u.CgroupPeak != nil || u.OOMKills != nil {
			t.Errorf("memory is told without a controller: %+v", u)
		}
		return
	}
	between(t, "anon", u.Anon, touched, 200<<20)
	between(t, "shmem", u.Shmem, 0, 1<<20)
	between(t, "file", u.File, 0, 200<<20)
	between(t, "cgroup peak", u.CgroupPeak, touched, 256<<20)
	between(t, "memory limit", u.MemLimit, 256<<20, 256<<20)
	between(t, "oom kills", u.OOMKills, 0, 0)
	if u.MemPeak != nil {
		t.Errorf("peak is %d, and nobody has watched", *u.MemPeak)
	}
	if tree.Has("memsw") {
		between(t, "memory and swap peak", u.MemSwapPeak, touched, 512<<20)
	}
	p.end(t)
	p.gone(t)
	if u, err = j.Usage(); err != nil {
		t.Fatal(err)
	}
	between(t, "cpu after the end", u.CPU, 250*time.Millisecond, 5*time.Second)
	between(t, "anon after the end", u.Anon, 0, 2<<20)
	between(t, "cgroup peak after the end", u.CgroupPeak, touched, 256<<20)
}

func between[T int64 | time.Duration](t *testing.T, what string, got *T, low, high T) {
	t.Helper()
	if got == nil {
		t.Errorf("%s is not told", what)
	} else if *got < low || *got > high {
		t.Errorf("%s is %v, want %v to %v", what, *got, low, high)
	}
}

// testWatchPeak has a job that takes memory and gives it back faster than anybody looks.
func testWatchPeak(t *testing.T, w world) {
	tree := w.tree(t)
	if !tree.Has("memory") {
		t.Skip("no memory controller to watch")
	}
	j := newJob(t, tree, testJob, tree.someLimits())
	d, _ := j.with("memory")
	watch(t, j, nil)
	await(t, "the first sample", func() bool { _, ok := d.loadPeak(); return ok })
	before, err := j.Usage()
	if err != nil {
		t.Fatal(err)
	}
	between(t, "peak of an empty job", before.MemPeak, 0, 1<<20)

	p := w.start(t, j.Join())
	const touched = 50 << 20
	p.touch(t, touched)
	p.end(t)
	p.gone(t)
	u, err := j.Usage()
	if err != nil {
		t.Fatal(err)
	}
	// The process itself needs some memory of its own.
	between(t, "peak", u.MemPeak, touched, touched+24<<20)
	await(t, "the watcher to see it", func() bool { p, _ := d.loadPeak(); return p.used >= touched })
}

// watch runs Watch until the test ends.
func watch(t *testing.T, j *Job, onOOM func(int64)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	if onOOM == nil {
		onOOM = func(int64) {}
	}
	go func() { done <- j.Watch(ctx, onOOM) }()
	stopped := false
	stop = func() {
		cancel()
		if stopped {
			return
		}
		stopped = true
		if err := <-done; err != nil {
			t.Errorf("watch: %v", err)
		}
	}
	t.Cleanup(stop)
	return stop
}

// await waits for something that no event tells a test of.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func testOOM(t *testing.T, w world) {
	tree := w.tree(t)
	if !tree.Has("memory") {
		t.Skip("no memory controller to run out of memory in")
	}
	l := tree.someLimits()
	l.Mem = size(48 << 20)
	if tree.Has("memsw") {
		l.MemSwap = size(49 << 20) // were it the same, neither failcnt would count (seen on Linux 6.18)
	}
	j := newJob(t, tree, testJob, l)
	kills := make(chan int64, 16)
	watch(t, j, func(n int64) { kills <- n })
	p := w.start(t, j.Join())
	p.touch(t, 128<<20)
	p.gone(t)
	u, err := j.Usage()
	if err != nil {
		t.Fatal(err)
	}
	between(t, "oom kills", u.OOMKills, 1, 100)
	between(t, "failcnt", u.MemFailcnt, 1, 1<<40)
	select {
	case n := <-kills:
		if n < 1 {
			t.Errorf("told of %d kills", n)
		}
	case <-soon(t).Done():
		t.Error("the watcher did not tell of the kill")
	}
	// A watcher that starts later tells as well.
	again := make(chan int64, 16)
	watch(t, j, func(n int64) { again <- n })
	select {
	case <-again:
	case <-soon(t).Done():
		t.Error("a new watcher did not tell of the kill")
	}
}

func testSignal(t *testing.T, w world) {
	tree := w.tree(t)
	j := newJob(t, tree, testJob, tree.someLimits())
	if err := j.Signal(unix.SIGTERM); err != nil {
		t.Errorf("signal to nobody: %v", err)
	}
	p, outside := w.start(t, j.Join()), w.start(t, Join{})
	if err := j.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.gone(t)
	outside.burn(t, time.Millisecond) // it can
	if err := j.Wait(soon(t)); err != nil {
		t.Error(err)
	}
}

func testKill(t *testing.T, w world) {
	tree := w.tree(t)
	j := newJob(t, tree, testJob, tree.someLimits())
	p, outside := w.start(t, j.Join()), w.start(t, Join{})
	const n = 100
	p.fork(t, n)
	r, err := j.Kill(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d processes in %v", r.Processes, r.Took)
	if r.Processes != n+1 {
		t.Errorf("kill found %d processes, want %d", r.Processes, n+1)
	}
	if pids, err := j.Processes(); err != nil || len(pids) != 0 {
		t.Errorf("%v survived, %v", pids, err)
	}
	outside.burn(t, time.Millisecond)
	if r, err := j.Kill(soon(t)); err != nil || r.Processes != 0 {
		t.Errorf("second kill: %+v, %v", r, err)
	}
}

func testKillFrozen(t *testing.T, w world) {
	tree := w.tree(t)
	if !tree.Has("freeze") {
		t.Skip("no freezer")
	}
	j := newJob(t, tree, testJob, tree.someLimits())
	p := w.start(t, j.Join())
	if err := j.Freeze(soon(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Kill(soon(t)); err != nil {
		t.Fatal(err)
	}
	p.gone(t)
}

func testFreeze(t *testing.T, w world) {
	tree := w.tree(t)
	if !tree.Has("freeze") {
		t.Skip("no freezer")
	}
	j := newJob(t, tree, testJob, tree.someLimits())
	p := w.start(t, j.Join())
	p.fork(t, 3)
	for range 2 {
		if err := j.Freeze(soon(t)); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := j.Thaw(soon(t)); err != nil {
			t.Fatal(err)
		}
	}
	p.burn(t, time.Millisecond)
}

func testWait(t *testing.T, w world) {
	tree := w.tree(t)
	j := newJob(t, tree, testJob, tree.someLimits())
	if err := j.Wait(soon(t)); err != nil {
		t.Errorf("empty job: %v", err)
	}
	p := w.start(t, j.Join())
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	err := j.Wait(ctx)
	wantError(t, err, ErrNotEmpty)
	wantError(t, err, context.DeadlineExceeded)
	done := make(chan error)
	go func() { done <- j.Wait(soon(t)) }()
	p.end(t)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func testRemove(t *testing.T, w world) {
	tree := w.tree(t)
	j := newJob(t, tree, testJob, tree.someLimits())
	for _, d := range j.dirs {
		for _, name := range []string{"container", "container/inner"} {
			if err := d.Mkdir(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	p := w.start(t, j.Join())
	err := j.Remove(soon(t))
	wantError(t, err, ErrBusy)
	if !j.Exists() {
		t.Fatal("a populated job was removed")
	}
	p.end(t)
	p.gone(t)
	for range 2 {
		if err := j.Remove(soon(t)); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range j.dirs {
		if d.Exists(".") {
			t.Errorf("%s is left", d.Path("."))
		}
	}
}

func testLock(t *testing.T, w world) {
	tree := w.tree(t)
	unlock, err := tree.Lock(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if _, err := tree.Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("second lock: %v", err)
	}
	locked := make(chan error)
	go func() {
		unlock, err := tree.Lock(soon(t))
		if err == nil {
			unlock()
		}
		locked <- err
	}()
	unlock()
	if err := <-locked; err != nil {
		t.Error(err)
	}
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
