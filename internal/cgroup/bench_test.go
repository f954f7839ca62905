package cgroup

import (
	"context"
	"errors"
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/must"
)

// benchLimits are those of a common job.
func benchLimits() Limits {
	return Limits{
		Mem: size(256 << 20), MemSwap: size(256 << 20), CPUs: kernfs.IDs(0), Mems: kernfs.IDs(0),
		CPUShares: 1000, Pids: size(1000),
	}
}

// BenchmarkCreateRemove should not take more than one and a half times as long as BenchmarkRaw.
func BenchmarkCreateRemove(b *testing.B) {
	_, tree := needMemory(b)
	j, err := tree.Job(testJob)
	must.NoError(b, err)
	l, ctx := benchLimits(), context.Background()
	for b.Loop() {
		must.NoError(b, j.Create(l))
		must.NoError(b, j.Remove(ctx))
	}
}

// BenchmarkRaw makes, limits and removes the same directories with system calls alone, without
// reading back.
func BenchmarkRaw(b *testing.B) {
	_, tree := needMemory(b)
	j, err := tree.Job(testJob)
	must.NoError(b, err)
	var dirs []string
	for _, d := range j.dirs {
		dirs = append(dirs, d.Path("."))
	}
	l, err := j.check(benchLimits())
	must.NoError(b, err)
	type value struct{ file, text string }
	var values []value
	for _, w := range j.plan(nil, l) {
		d, _ := j.with(w.Controller)
		values = append(values, value{d.Path(w.File), w.Value})
	}
	remove := func() (errs []error) { // a signal of the Go runtime may interrupt it
		for _, dir := range dirs {
			err := unix.EINTR
			for err == unix.EINTR {
				err, _ = unix.Rmdir(dir).(unix.Errno)
			}
			if err != 0 && err != unix.ENOENT {
				errs = append(errs, err)
			}
		}
		return errs
	}
	b.Cleanup(func() { must.NoError(b, remove()...) })
	for b.Loop() {
		for _, dir := range dirs {
			must.NoError(b, os.Mkdir(dir, 0o755)) // unlike unix.Mkdir, it is repeated after EINTR
		}
		for _, v := range values {
			fd, err := unix.Open(v.file, unix.O_WRONLY|unix.O_CLOEXEC, 0)
			must.NoError(b, err)
			err = unix.EINTR
			for err == unix.EINTR {
				_, err = unix.Write(fd, []byte(v.text))
			}
			unix.Close(fd)
			must.NoError(b, err)
		}
		must.NoError(b, remove()...)
	}
}

// BenchmarkUsage measures a periodic for one job, and a point of its series.
func BenchmarkUsage(b *testing.B) {
	_, tree := needMemory(b)
	j := benchJob(b, tree)
	for b.Loop() {
		if _, err := j.Usage(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLook measures a watcher each time it is woken.
func BenchmarkLook(b *testing.B) {
	_, tree := needMemory(b)
	d, _ := benchJob(b, tree).with("memory")
	w := newWatcher(d, nil)
	for b.Loop() {
		if _, err := w.sample(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAttach moves one process in and out, without waiting for a grace period of the kernel.
func BenchmarkAttach(b *testing.B) {
	_, tree := needMemory(b)
	j := benchJob(b, tree)
	a := startActor(b, Join{})
	for b.Loop() {
		err := attach(j, a.pid())
		for _, h := range tree.hierarchies {
			err = errors.Join(err, h.mount.Write("cgroup.procs", strconv.Itoa(a.pid())))
		}
		must.NoError(b, err)
	}
}

func BenchmarkProcesses(b *testing.B) {
	_, tree := needMemory(b)
	j := benchJob(b, tree)
	startActor(b, j.Join())
	for b.Loop() {
		if _, err := j.Processes(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLock(b *testing.B) {
	_, tree := needMemory(b)
	for b.Loop() {
		unlock, err := tree.Lock(context.Background())
		must.NoError(b, err)
		unlock()
	}
}

func benchJob(b *testing.B, tree *Tree) *Job {
	b.Helper()
	j, err := tree.Job(strconv.Itoa(int(trees.Load())))
	must.NoError(b, err)
	must.NoError(b, j.Create(benchLimits()))
	b.Cleanup(func() { endJob(b, j) })
	return j
}
