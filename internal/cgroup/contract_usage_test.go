package cgroup

import (
	"context"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

func testUsage(t *testing.T, w world) {
	tree := w.tree(t)
	j := newJob(t, tree, testJob, tree.someLimits())
	p := w.start(t, j.Join())
	p.burn(t, 300*time.Millisecond)
	const touched = 20 << 20
	p.touch(t, touched)
	u, err := j.Usage()
	must.NoError(t, err)
	between(t, "cpu", u.CPU, 250*time.Millisecond, 5*time.Second)
	resolution := 40 * time.Millisecond
	// cpu.idle exists since Linux 5.15. Until 5.17 cpuacct.stat counted ticks, of which a busy
	// machine loses some.
	if d, ok := j.with("cpu"); ok && !d.h.v2 && !d.Exists("cpu.idle") {
		resolution = *u.CPU / 2
	}
	if u.User == nil || u.System == nil || (*u.User+*u.System-*u.CPU).Abs() > resolution {
		t.Errorf("user %v and system %v are not cpu %v", u.User, u.System, u.CPU)
	}
	wantPresent(t, j, u)
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
	if tree.Has("peak") {
		between(t, "cgroup peak", u.CgroupPeak, touched, 256<<20)
	} else if u.CgroupPeak != nil {
		t.Errorf("cgroup peak is %d on a kernel that does not tell, and nobody has watched", *u.CgroupPeak)
	}
	between(t, "memory limit", u.MemLimit, 256<<20, 256<<20)
	between(t, "oom kills", u.OOMKills, 0, 0)
	if u.MemPeak != nil {
		t.Errorf("peak is %d, and nobody has watched", *u.MemPeak)
	}
	if d, _ := j.with("memory"); tree.Has("memsw") && (!d.h.v2 || d.Exists("memory.swap.peak")) {
		between(t, "memory and swap peak", u.MemSwapPeak, touched, 512<<20)
	} else if u.MemSwapPeak != nil {
		t.Errorf("memory and swap peak is %d on a kernel that does not tell", *u.MemSwapPeak)
	}
	p.end(t)
	p.gone(t)
	if u, err = j.Usage(); err != nil {
		t.Fatal(err)
	}
	between(t, "cpu after the end", u.CPU, 250*time.Millisecond, 5*time.Second)
	between(t, "anon after the end", u.Anon, 0, 2<<20)
	if tree.Has("peak") {
		between(t, "cgroup peak after the end", u.CgroupPeak, touched, 256<<20)
	}
}

func between[T int64 | time.Duration](t *testing.T, what string, got *T, low, high T) {
	t.Helper()
	if got == nil {
		t.Errorf("%s is not told", what)
	} else if *got < low || *got > high {
		t.Errorf("%s is %v, want %v to %v", what, *got, low, high)
	}
}

// testWatchPeak has a job that allocates memory and frees it again.
func testWatchPeak(t *testing.T, w world) {
	tree := w.tree(t)
	if !tree.Has("memory") {
		kernfstest.Elsewhere(t, "no memory controller to watch")
	}
	j := newJob(t, tree, testJob, tree.someLimits())
	d, _ := j.with("memory")
	watch(t, j, nil)
	must.Eventually(t, "the first sample", func() bool { _, watched, _ := d.loadPeak(); return watched })
	before, err := j.Usage()
	must.NoError(t, err)
	between(t, "peak of an empty job", before.MemPeak, 0, 1<<20)

	p := w.start(t, j.Join())
	const touched = 50 << 20
	p.touch(t, touched)
	must.Eventually(t, "the watcher to see it", func() bool { p, _, _ := d.loadPeak(); return p.used >= touched })
	p.end(t)
	p.gone(t)
	u, err := j.Usage()
	must.NoError(t, err)
	between(t, "cgroup peak", u.CgroupPeak, touched, 256<<20)
	// The process itself needs some memory too.
	between(t, "peak", u.MemPeak, touched, touched+24<<20)
}

// watch runs Watch until the test ends.
func watch(t *testing.T, j *Job, onOOM func(int64)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	if onOOM == nil {
		onOOM = func(int64) {}
	}
	go func() { done <- j.Watch(ctx, onOOM, nil) }()
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

func testOOM(t *testing.T, w world) {
	tree := w.tree(t)
	if !tree.Has("memory") {
		kernfstest.Elsewhere(t, "no memory controller to run out of memory in")
	}
	l := tree.someLimits()
	l.Mem = size(48 << 20)
	if tree.Has("memsw") {
		l.MemSwap = size(49 << 20) // if both were the same, neither failcnt would count (seen on Linux 6.18)
	}
	j := newJob(t, tree, testJob, l)
	kills := make(chan int64, 16)
	watch(t, j, func(n int64) { kills <- n })
	p := w.start(t, j.Join())
	p.touch(t, 128<<20)
	p.gone(t)
	u, err := j.Usage()
	must.NoError(t, err)
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
	// A watcher that starts later also reports the kills.
	again := make(chan int64, 16)
	watch(t, j, func(n int64) { again <- n })
	select {
	case <-again:
	case <-soon(t).Done():
		t.Error("a new watcher did not tell of the kill")
	}
}

// wantPresent compares what a job uses now with its usage, since both read the same kernel.
func wantPresent(t *testing.T, j *Job, u Usage) {
	t.Helper()
	p, err := j.Present()
	must.NoError(t, err)
	between(t, "present cpu", p.CPU, *u.CPU, *u.CPU+5*time.Second)
	between(t, "present user", p.User, *u.User, *u.User+5*time.Second)
	between(t, "present system", p.System, *u.System, *u.System+5*time.Second)
	for _, c := range []struct {
		what       string
		now, usage *int64
	}{
		{"memory limit", p.MemLimit, u.MemLimit}, {"oom kills", p.OOMKills, u.OOMKills},
		{"read", p.ReadBytes, u.ReadBytes}, {"written", p.WriteBytes, u.WriteBytes},
	} {
		if (c.now == nil) != (c.usage == nil) || c.now != nil && *c.now != *c.usage {
			t.Errorf("present %s is %v, usage has %v", c.what, c.now, c.usage)
		}
	}
	if (p.ReadBytes == nil) != (u.ReadBytes == nil) || (p.WriteBytes == nil) != (u.WriteBytes == nil) {
		t.Errorf("present bytes are %v, %v, usage has %v, %v", p.ReadBytes, p.WriteBytes, u.ReadBytes, u.WriteBytes)
	}
	if (p.Pids == nil) != (u.Pids == nil) {
		t.Errorf("present pids are %v, usage has %v", p.Pids, u.Pids)
	}
	if (p.Mem == nil) != (u.Anon == nil) || (p.Cache == nil) != (u.File == nil) {
		t.Errorf("present memory %v and cache %v, usage has %v and %v", p.Mem, p.Cache, u.Anon, u.File)
	}
	if p.Mem == nil {
		if p.Charged != nil || p.MemFailures != nil || j.Mem() != nil {
			t.Errorf("present memory without a controller: %+v", p)
		}
		return
	}
	between(t, "present memory", p.Mem, *u.Anon/2, *u.Anon+*u.Shmem+(16<<20))
	between(t, "memory", j.Mem(), *u.Anon/2, *u.Anon+*u.Shmem+(16<<20))
	between(t, "shared memory", p.Shmem, *u.Shmem, *u.Shmem)
	between(t, "charged memory", p.Charged, *p.Mem, 256<<20)
	between(t, "failures", p.MemFailures, 0, 0)
}
