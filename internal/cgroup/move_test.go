package cgroup

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// A kernel before Linux 6.1 refuses to move a process in the moment when it creates a thread.
func TestMoveOfAProcessThatCreatesThreads(t *testing.T) {
	w := needKernel(t, 0)
	tree := w.newTree(t)
	jobs := []*Job{newJob(t, tree, testJob, tree.someLimits()), newJob(t, tree, "13.server", tree.someLimits())}
	a := startActor(t, jobs[0].Join())
	a.ask(t, "threads")
	for round := range 300 {
		for _, i := range []int{1, 0} {
			for k := range jobs[i].dirs {
				if jobs[i].left(k) {
					continue
				}
				if err := enter(jobs[i].entrance(k), number(a.pid()), nil); err != nil {
					t.Fatalf("round %d: %v", round, err)
				}
			}
		}
	}
}

// EINVAL for longer has another cause, such as a process that has a realtime policy.
func TestMoveThatTheKernelRefuses(t *testing.T) {
	k := kernfstest.NewV2()
	tree := fakeTree(t, k)
	j := newJob(t, tree, testJob, tree.someLimits())
	pid := spawnFake(k, Join{})
	heal := k.Fail("write", "/cgroup.procs", unix.EINVAL)
	if _, err := j.Attach(number(pid), nil); !errors.Is(err, unix.EINVAL) {
		t.Errorf("always: %v, want EINVAL", err)
	}
	heal()
	defer k.FailNth("write", "/cgroup.procs", unix.EINVAL, 1)() // after the pid of nobody
	_, err := j.Attach(number(pid), nil)
	must.NoError(t, err)
}
