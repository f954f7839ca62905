package cgroup

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/must"
)

func TestSignalAllKernel(t *testing.T)   { signals(t, needKernel(t, 0)) }
func TestSignalAllKernelV1(t *testing.T) { signals(t, needKernel(t, ModeV1)) }
func TestSignalAllKernelV2(t *testing.T) { signals(t, needKernel(t, ModeV2)) }

// signals are the ways to signal a job's processes that end the job in time.
func signals(t *testing.T, w kernel) {
	t.Run("all", func(t *testing.T) {
		j := newJob(t, w.tree(t), testJob, Limits{})
		if err := j.SignalAll(soon(t), nil, unix.SIGTERM, unix.SIGCONT); err != nil {
			t.Errorf("nobody: %v", err)
		}
		p, outside := w.start(t, j.Join()), w.start(t, Join{})
		p.fork(t, 16)
		must.NoError(t, j.SignalAll(soon(t), nil, unix.SIGTERM, unix.SIGCONT))
		if err := j.Wait(soon(t)); err != nil {
			t.Error(err)
		}
		outside.burn(t, time.Millisecond) // it is alive
		if frozen, err := j.Frozen(); err != nil && !errors.Is(err, ErrUnsupported) || frozen {
			t.Errorf("frozen %v, %v", frozen, err)
		}
	})
	t.Run("each, until nobody is new", func(t *testing.T) {
		j := newJob(t, w.tree(t), testJob, Limits{})
		w.start(t, j.Join()).fork(t, 2)
		must.NoError(t, j.signalEach(signalRounds, []unix.Signal{unix.SIGTERM}))
		if err := j.Wait(soon(t)); err != nil {
			t.Error(err)
		}
	})
	t.Run("each, in one hierarchy alone", func(t *testing.T) { // pbs_cgroups without memory
		j := newJob(t, w.tree(t), testJob, Limits{})
		// The first by path is not the home of the job.
		made := slices.DeleteFunc(slices.Clone(j.dirs), func(d directory) bool { return !d.Exists(".") })
		slices.SortFunc(made, func(a, b directory) int { return strings.Compare(a.Path("."), b.Path(".")) })
		for _, d := range made[1:] {
			must.NoError(t, d.Rmdir("."))
		}
		p := w.start(t, Join{})
		must.NoError(t, made[0].Write("cgroup.procs", fmt.Sprint(p.pid())), j.SignalEach(unix.SIGTERM))
		p.gone(t)
	})
	t.Run("some", func(t *testing.T) {
		j := newJob(t, w.tree(t), testJob, Limits{})
		p := w.start(t, j.Join())
		forked := p.fork(t, 2)
		outside := w.start(t, Join{})
		sent, err := j.SignalSome(unix.SIGTERM,
			func(pid int) bool { return slices.Contains(forked, pid) || pid == outside.pid() })
		if err != nil || sent != 2 {
			t.Errorf("sent to %d, %v", sent, err)
		}
		for left, end := []int{}, soon(t); !slices.Equal(left, []int{p.pid()}); time.Sleep(time.Millisecond) {
			if left, err = j.Processes(); err != nil || end.Err() != nil {
				t.Fatalf("left: %v, %v", left, err)
			}
		}
		outside.burn(t, time.Millisecond)
	})
	t.Run("populated and cpu time", func(t *testing.T) {
		j := newJob(t, w.tree(t), testJob, Limits{})
		populated := func(want bool) {
			t.Helper()
			if is, err := j.Populated(); err != nil || is != want {
				t.Errorf("populated %v, %v", is, err)
			}
		}
		populated(false)
		p := w.start(t, j.Join())
		populated(true)
		p.burn(t, 20*time.Millisecond)
		used, err := j.CPUTime()
		u, uerr := j.Usage()
		switch {
		case errors.Is(err, ErrUnsupported) && u.CPU == nil:
		case err != nil || uerr != nil || used < 20*time.Millisecond || used > *u.CPU:
			t.Errorf("cpu time %v, %v; usage %v, %v", used, err, u.CPU, uerr)
		}
		p.end(t)
		p.gone(t)
		must.NoError(t, j.Wait(soon(t)))
		populated(false)
	})
	t.Run("no cgroup", func(t *testing.T) {
		j, err := w.tree(t).Job(testJob)
		must.NoError(t, err)
		populated, perr := j.Populated()
		_, cerr := j.CPUTime()
		if err := errors.Join(j.SignalAll(soon(t), nil, unix.SIGTERM), j.SignalEach(unix.SIGTERM), perr); err != nil ||
			populated || !errors.Is(cerr, ErrNotFound) {
			t.Errorf("%v; populated %v, cpu time %v", err, populated, cerr)
		}
	})
}
