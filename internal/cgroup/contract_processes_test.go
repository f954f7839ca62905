package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

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
	for _, taken := range []bool{true, false} {
		for _, pid := range []int{p.pid(), q.pid()} {
			if got, err := j.Attach(number(pid), nil); err != nil || got != taken {
				t.Errorf("taken is %t, %v; want %t", got, err, taken)
			}
		}
		if err := attach(j, dead.pid()); err != nil && !errors.Is(err, ErrEnded) {
			t.Errorf("a process that has ended: %v", err)
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
		if err := attach(j, pid); err == nil {
			t.Errorf("process %d was attached", pid)
		}
	}
}

func testSignal(t *testing.T, w world) {
	tree := w.tree(t)
	j := newJob(t, tree, testJob, tree.someLimits())
	if err := j.SignalEach(unix.SIGTERM); err != nil {
		t.Errorf("signal to nobody: %v", err)
	}
	p, outside := w.start(t, j.Join()), w.start(t, Join{})
	must.NoError(t, j.SignalEach(unix.SIGTERM))
	p.gone(t)
	outside.burn(t, time.Millisecond) // it is alive
	if err := j.Wait(soon(t)); err != nil {
		t.Error(err)
	}
}

func testKill(t *testing.T, w world) {
	tree := w.tree(t)
	j := newJob(t, tree, testJob, tree.someLimits())
	p, outside := w.start(t, j.Join()), w.start(t, Join{})
	p.fork(t, 100)
	_, err := j.Kill(soon(t))
	must.NoError(t, err)
	if pids, err := j.Processes(); err != nil || len(pids) != 0 {
		t.Errorf("%v survived, %v", pids, err)
	}
	outside.burn(t, time.Millisecond)
	if _, err := j.Kill(soon(t)); err != nil {
		t.Errorf("second kill: %v", err)
	}
}

func testKillFrozen(t *testing.T, w world) {
	tree := w.tree(t)
	if !tree.Has("freeze") {
		kernfstest.Elsewhere(t, "no freezer")
	}
	j := newJob(t, tree, testJob, tree.someLimits())
	p := w.start(t, j.Join())
	must.NoError(t, j.Suspend(soon(t)))
	if _, err := j.Kill(soon(t)); err != nil {
		t.Fatal(err)
	}
	p.gone(t)
}

// testHasten: a job that is being ended gets the share of one cpu, and a quota below that is
// lifted. Before SIGKILL it gets the greatest share, and all quotas are lifted, including those of
// a container below it.
func testHasten(t *testing.T, w world) {
	tree := w.tree(t)
	if !tree.Has("cpu") {
		kernfstest.Elsewhere(t, "no cpu controller")
	}
	shares, quota, none, below, share := cpuShares, cpuQuota, "-1", "container", func(n uint64) uint64 { return n }
	if tree.with("cpu").v2 {
		shares, quota, none, below, share = cpuWeight, cpuMax, "max 100000", mainGroup, weight
	}
	for i, tt := range []struct {
		shares uint64
		quota  time.Duration
		idle   bool
		want   uint64
		left   string // the quota that remains before SIGKILL
	}{
		{shares: 2, quota: 20 * time.Millisecond, want: 1000, left: none},
		{shares: 2, quota: 20 * time.Millisecond, idle: true, want: sharesDefault, left: none},
		{shares: 3000, quota: 200 * time.Millisecond, want: 3000, left: "200000"},
	} {
		l := tree.someLimits()
		l.CPUShares, l.Quota, l.CPUs = tt.shares, tt.quota, kernfs.IDSet{}
		j := newJob(t, tree, fmt.Sprintf("%d.server", i), l)
		must.NoError(t, j.Split())
		j = j.WithSubgroups()
		d, _ := j.with("cpu")
		if tt.idle && !d.Exists(cpuIdle) {
			continue
		}
		if !d.h.v2 {
			must.NoError(t, d.Mkdir(below))
		}
		must.NoError(t, d.Write(below+"/"+quota, "5000"))
		if tt.idle {
			must.NoError(t, d.Write(cpuIdle, "1"))
		}
		check := func(want uint64, own string) {
			t.Helper()
			if got, err := d.Uint(shares); err != nil || got != share(want) {
				t.Errorf("%s: %d, %v; want %d", d.Path(shares), got, err, share(want))
			}
			for dir, want := range map[string]string{"./": own, below + "/": none} {
				if got, err := d.ReadValue(dir + quota); err != nil || !strings.HasPrefix(trim(got), want) {
					t.Errorf("%s: %q, %v; want %q", d.Path(dir+quota), got, err, want)
				}
			}
		}
		p := w.start(t, j.Join())
		for range 2 {
			must.NoError(t, j.Hasten())
			check(tt.want, tt.left)
		}
		p.burn(t, time.Millisecond)
		if _, err := j.Kill(soon(t)); err != nil {
			t.Fatal(err)
		}
		check(sharesMax, none)
		must.NoError(t, j.Remove(soon(t)), j.Hasten())
	}
}

func testFreeze(t *testing.T, w world) {
	tree := w.tree(t)
	if !tree.Has("freeze") {
		kernfstest.Elsewhere(t, "no freezer")
	}
	j := newJob(t, tree, testJob, tree.someLimits())
	p := w.start(t, j.Join())
	p.fork(t, 3)
	for range 2 {
		must.NoError(t, j.Suspend(soon(t)))
	}
	for range 2 {
		must.NoError(t, j.Thaw(soon(t)))
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
			must.NoError(t, d.Mkdir(name))
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
		must.NoError(t, j.Remove(soon(t)))
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
	must.NoError(t, err)
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

// testLockIsRoots: after Prepare only root can open the file that is locked. Lock corrects the mode
// if the file is open to others.
func testLockIsRoots(t *testing.T, w world) {
	tree := w.tree(t)
	mode := func(name string) (fd uintptr, mode uint32) {
		t.Helper()
		f, err := tree.hierarchies[0].jobs.OpenFile(name, os.O_RDONLY)
		must.NoError(t, err)
		t.Cleanup(func() { f.Close() })
		var st unix.Stat_t
		fd = f.Fd()
		must.NoError(t, unix.Fstat(int(fd), &st))
		return fd, st.Mode & 0o777
	}
	fd, got := mode(lockFile)
	if got != 0o600 {
		t.Errorf("mode of the lock is %o, want 600", got)
	}
	must.NoError(t, unix.Fchmod(int(fd), 0o644))
	unlock, err := tree.Lock(soon(t))
	must.NoError(t, err)
	unlock()
	if _, got := mode(lockFile); got != 0o600 {
		t.Errorf("mode is %o after Lock, want 600", got)
	}
}

// testRemoveNested: directories that a job made below its cgroup are removed with it, deepest
// first, whatever was in them.
func testRemoveNested(t *testing.T, w world) {
	tree := w.tree(t)
	j := newJob(t, tree, testJob, tree.someLimits())
	join := j.Join()
	for _, d := range j.dirs {
		for _, name := range []string{"a", "a/b", "a/b/c", "d"} {
			if err := d.Mkdir(name); err != nil && !errors.Is(err, fs.ErrExist) {
				t.Fatal(err)
			}
		}
	}
	for i, tasks := range join.Tasks {
		if !strings.Contains(tasks, "cpuset") { // v1: an empty cpuset accepts no task
			join.Tasks[i] = strings.TrimSuffix(tasks, "tasks") + "a/b/c/tasks"
		}
	}
	if join.CgroupDir != "" {
		join.CgroupDir += "/a/b/c"
	}
	p := w.start(t, join)
	pids := append(p.fork(t, 3), p.pid())
	slices.Sort(pids)
	if got, err := j.Processes(); err != nil || !slices.Equal(got, pids) {
		t.Errorf("processes are %v, %v; want %v", got, err, pids)
	}
	if _, err := j.Kill(soon(t)); err != nil {
		t.Fatal(err)
	}
	p.gone(t)
	must.NoError(t, j.Remove(soon(t)))
	if j.Exists() {
		t.Error("something is left")
	}
}
