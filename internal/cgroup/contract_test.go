package cgroup

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/must"
)

// world is a kernel to test on: a fake one or the running one.
type world interface {
	// tree returns a separate tree, prepared, which is removed when the test ends. Its jobs also
	// have those of the named controllers that only place processes.
	tree(t *testing.T, controllers ...string) *Tree
	// start starts an idle process inside join, or outside every job for the zero Join, and ends it
	// with the test.
	start(t *testing.T, join Join) process
	// disk returns a block device whose I/O can be limited.
	disk(t *testing.T) (major, minor uint32, ok bool)
}

// process is a process that the test controls.
type process interface {
	pid() int
	burn(t *testing.T, d time.Duration)    // uses cpu time
	touch(t *testing.T, n int64)           // allocates n bytes and keeps them; the process may be killed for it
	cache(t *testing.T, n int64)           // reads n bytes of files
	huge(t *testing.T, n int64) bool       // allocates n bytes of huge pages of 2 MiB; false if there are none
	fork(t *testing.T, n int) (pids []int) // starts n processes that leave the session
	end(t *testing.T)                      // exits
	gone(t *testing.T)                     // waits until it has ended
}

// number stands for a held process: the test prevents it from being reaped.
type number int

func (n number) PID() int                    { return int(n) }
func (n number) Signal(syscall.Signal) error { return nil }

// attach attaches processes, one after the other.
func attach(j *Job, pids ...int) error {
	var errs []error
	for _, pid := range pids {
		_, err := j.Attach(number(pid), nil)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// attachSubgroup attaches processes to a subgroup, one after the other.
func attachSubgroup(j *Job, name string, pids ...int) error {
	var errs []error
	for _, pid := range pids {
		errs = append(errs, j.AttachSubgroup(name, number(pid)))
	}
	return errors.Join(errs...)
}

// contract tests what every kernel must do for a job.
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
		{"shrink in use", testShrinkInUse},
		{"shrink cache", testShrinkCache},
		{"resize cpus", testResizeCPUs},
		{"changed meanwhile", testChangedMeanwhile},
		{"parent limits", testParentLimits},
		{"cpus of the parent", testParentCPUs},
		{"quota", testQuota},
		{"hugetlb", testHugetlb},
		{"io", testIO},
		{"soft limit", testSoftLimit},
		{"cpuset flags", testCpusetFlags},
		{"placed", testPlaced},
		{"placed before", testPlacedBefore},
		{"features", testFeatures},
		{"names", testNames},
		{"foreign directories", testForeignDirectories},
		{"marks", testMarks},
		{"join", testJoin},
		{"attach", testAttach},
		{"attach of another job's", testAttachOfAnotherJob},
		{"attach below the job", testAttachBelow},
		{"attach of a held memory map", testAttachHeldMap},
		{"attach of what has ended", testAttachEnded},
		{"missing job", testMissing},
		{"usage", testUsage},
		{"oom", testOOM},
		{"oom at once", testOOMAtOnce},
		{"watch", testWatchPeak},
		{"watch removed", testWatchRemoved},
		{"signal", testSignal},
		{"kill", testKill},
		{"kill frozen", testKillFrozen},
		{"cpu time to end", testHasten},
		{"freeze", testFreeze},
		{"wait", testWait},
		{"remove", testRemove},
		{"remove nested", testRemoveNested},
		{"subgroups", testSubgroups},
		{"subgroup usage", testSubgroupUsage},
		{"subgroup oom", testSubgroupOOM},
		{"subgroup resize", testSubgroupResize},
		{"subgroup missing", testSubgroupMissing},
		{"subgroup of others", testSubgroupOfOthers},
		{"delegate", testDelegate},
		{"delegate bounds", testDelegateBounds},
		{"delegate processes", testDelegateProcesses},
		{"delegate inner", testDelegateInner},
		{"delegate oom", testDelegateOOM},
		{"delegate empty", testDelegateEmpty},
		{"lock", testLock},
		{"lock is root's", testLockIsRoots},
		{"available", testAvailable},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, w) })
	}
}

const testJob = "12.server"

func size(n int64) *int64 { return &n }

// someLimits returns limits that every node supports.
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
	must.NoError(t, err)
	must.NoError(t, j.Create(l))
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
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func wantError(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got error %v, want %v", err, want)
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
		must.NoError(t, h.jobs.Mkdir(name))
		defer h.jobs.Rmdir(name)
	}
	want := []string{testJob}
	if len(tree.hierarchies) > 1 {
		want = append(want, "88.orphan") // exists only in some of the hierarchies
	}
	if ids, err := tree.JobIDs(); err != nil || !slices.Equal(ids, want) {
		t.Errorf("jobs are %q, %v; want %q", ids, err, want)
	}
	if len(want) > 1 {
		j, err := tree.Job(want[1])
		must.NoError(t, err)
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
		must.NoError(t, j.SetMark(name, []byte(value)))
		if got, err := j.Mark(name); err != nil || string(got) != value {
			t.Errorf("mark is %q, %v; want %q", got, err, value)
		}
	}
}

func testMissing(t *testing.T, w world) {
	tree := w.tree(t)
	j, err := tree.Job("404.server")
	must.NoError(t, err)
	_, err = j.Limits()
	wantError(t, err, ErrNotFound)
	_, err = j.Usage()
	wantError(t, err, ErrNotFound)
	_, err = j.Processes()
	wantError(t, err, ErrNotFound)
	_, err = j.Mark("trusted.x")
	wantError(t, err, ErrNotFound)
	wantError(t, j.SetMark("trusted.x", nil), ErrNotFound)
	wantError(t, j.Apply(Limits{}, nil), ErrNotFound)
	wantError(t, j.Suspend(soon(t)), ErrNotFound)
	wantError(t, attach(j, w.start(t, Join{}).pid()), ErrNotFound)
	if _, err := j.Kill(soon(t)); err != nil {
		t.Errorf("kill: %v", err)
	}
	if err := errors.Join(j.Remove(soon(t)), j.Wait(soon(t))); err != nil {
		t.Error(err)
	}
	if tree.Has("memory") {
		if err := j.Watch(soon(t), func(int64) {}, nil); err != nil {
			t.Error(err)
		}
	}
	if j.Exists() {
		t.Error("something was made")
	}
}
