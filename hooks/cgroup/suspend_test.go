package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// frozen checks whether a job is frozen, and whether the hook accordingly considers it suspended.
func (n *node) frozen(id string, want bool) {
	n.t.Helper()
	frozen, err := n.cgroup(id).Frozen()
	if err != nil || frozen != want {
		n.t.Errorf("job %s frozen: %v, %v; want %v", id, frozen, err, want)
	}
	if got := n.suspended(n.cgroup(id)); got != want {
		n.t.Errorf("job %s suspended: %v, want %v", id, got, want)
	}
}

func TestSuspendAndResume(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		n.do(hostapi.EventBegin, "1.srv")
		pid := n.launch("1.srv")
		for range 2 { // each event may be repeated
			n.do(hostapi.EventPostsuspend, "1.srv")
			n.frozen("1.srv", true)
		}
		child, err := k.Fork(pid)
		if err == nil && !n.lives(child) {
			t.Error("a frozen job's process is gone")
		}
		for range 2 {
			n.do(hostapi.EventPreresume, "1.srv")
			n.frozen("1.srv", false)
		}
	})
}

// A suspended job's place goes to others, but only if nothing else is free. A resumed job has its
// place again.
func TestSuspendedJobGivesItsPlace(t *testing.T) {
	onFakes(t, func(c *config.File) { c.Memory.ReservePercent = 0 }, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
		n.do(hostapi.EventBegin, "1.srv", asks("ncpus=2", "mem=10gb"))
		cpus := n.cpus("1.srv")
		busy := func(id string, resources ...string) {
			t.Helper()
			n.refuses(hostapi.EventBegin, id, hostapi.KindBusy, "requested", resources...)
		}
		busy("2.srv", "ncpus=4", "mem=1gb")
		busy("2.srv", "ncpus=1", "mem=10gb")
		n.do(hostapi.EventPostsuspend, "1.srv")
		n.do(hostapi.EventBegin, "2.srv", asks("ncpus=2", "mem=1gb"))
		if got := n.cpus("2.srv"); got == cpus {
			t.Errorf("cpus %s are those of the suspended job, though others are free", got)
		}
		n.do(hostapi.EventBegin, "3.srv", asks("ncpus=2", "mem=10gb"))
		if got := n.cpus("3.srv"); got != cpus {
			t.Errorf("cpus %s, want those of the suspended job, %s", got, cpus)
		}
		n.do(hostapi.EventPreresume, "1.srv")
		busy("4.srv", "ncpus=1", "mem=1gb")
		n.do(hostapi.EventEnd, "3.srv")
		busy("4.srv", "ncpus=1", "mem=1gb")
		n.do(hostapi.EventEnd, "1.srv")
		n.do(hostapi.EventBegin, "4.srv", asks("ncpus=2", "mem=15gb"))
	})
}

// A process that the kernel holds cannot be frozen. The event reports that, and the job is
// suspended anyway.
func TestSuspendWithAStuckProcess(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		n.do(hostapi.EventBegin, "1.srv")
		pid := n.launch("1.srv")
		k.Stick(pid)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		job := *n.job("1.srv")
		out, err := n.sendCtx(ctx, &hostapi.Request{Event: hostapi.EventPostsuspend, Node: testNode, Job: &job})
		if hostapi.KindOf(err) != hostapi.KindBusy || !strings.Contains(err.Error(), "not stopped: ") ||
			!strings.Contains(err.Error(), " D") {
			t.Errorf("error %v of kind %q", err, hostapi.KindOf(err))
		}
		if out == nil {
			t.Fatal("no outcome")
		}
		n.frozen("1.srv", true)
		k.Unstick(pid)
		n.do(hostapi.EventPostsuspend, "1.srv")
		n.frozen("1.srv", true)
	})
}

// A crash may leave a job frozen that is not suspended, and the reverse. Startup reports both.
// Periodic reports a suspended job that somebody has thawed.
func TestFreezerThatDisagreesWithThePhaseIsReported(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		n.do(hostapi.EventBegin, "1.srv")
		n.launch("1.srv")
		reported := func(e hostapi.Event, want *bool) {
			t.Helper()
			out := n.do(e, "")
			n.background.Wait()
			var got *bool
			if u := out.Jobs["1.srv"]; u != nil {
				got = u.Frozen
			}
			if !cmp.Equal(got, want) {
				t.Errorf("%s reports frozen %v, want %v", e, got, want)
			}
			n.align(out)
		}
		reported(hostapi.EventStartup, nil)
		must.NoError(t, n.cgroup("1.srv").Suspend(t.Context())) // as after a crash in a preresume or a brief freeze
		reported(hostapi.EventPeriodic, nil)
		reported(hostapi.EventStartup, new(true))
		n.frozen("1.srv", false)
		n.do(hostapi.EventPostsuspend, "1.srv")
		for _, e := range []hostapi.Event{hostapi.EventStartup, hostapi.EventPeriodic} {
			reported(e, nil)
			must.NoError(t, n.cgroup("1.srv").Thaw(t.Context())) // as after a crash in a postsuspend, or by hand
			reported(e, new(false))
			n.frozen("1.srv", true)
		}
	})
}

// A signal to a whole job freezes the job briefly. Others do not get its place then.
func TestFrozenJobThatIsNotSuspendedHasItsPlace(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
		n.do(hostapi.EventBegin, "1.srv", asks("ncpus=4"))
		must.NoError(t, n.cgroup("1.srv").Suspend(t.Context()))
		n.refuses(hostapi.EventBegin, "2.srv", hostapi.KindBusy, "ncpus requested", "ncpus=4")
		n.do(hostapi.EventPostsuspend, "1.srv")
		n.restart()
		n.do(hostapi.EventBegin, "2.srv", asks("ncpus=4")) // the list of startup says that 1.srv is suspended
	})
}

// Each write of the two events fails in turn. The event fails, the job's record and the freezer
// agree, and the event can be repeated.
func TestSuspendFails(t *testing.T) {
	for _, f := range fakes {
		for _, event := range []hostapi.Event{hostapi.EventPostsuspend, hostapi.EventPreresume} {
			prepare := func(t *testing.T) (*node, *kernfstest.Kernel) {
				n, k := fakeNode(t, f.boot, nil)
				n.do(hostapi.EventBegin, "1.srv")
				n.launch("1.srv")
				if event == hostapi.EventPreresume {
					n.do(hostapi.EventPostsuspend, "1.srv")
				}
				k.ResetJournal()
				return n, k
			}
			n, k := prepare(t)
			n.do(event, "1.srv")
			ops := steps(k)
			if len(ops) < 1 {
				t.Fatalf("%s: %s did only %v", f.name, event, ops)
			}
			for _, op := range ops {
				t.Run(f.name+"/"+string(event)+" "+op.Op+" "+strings.ReplaceAll(op.Path, "/", " "), func(t *testing.T) {
					n, k := prepare(t)
					heal := k.Fail(op.Op, op.Path, unix.EIO)
					_, err := n.event(event, "1.srv")
					if hostapi.KindOf(err) != hostapi.KindNode || !errors.Is(err, unix.EIO) {
						t.Errorf("error %v of kind %q", err, hostapi.KindOf(err))
					}
					heal()
					n.do(event, "1.srv")
					n.frozen("1.srv", event == hostapi.EventPostsuspend)
				})
			}
		}
	}
}

// A suspended job ends like any other: by its end event or by a requested kill, with a grace period
// and without.
func TestSuspendedJobEnds(t *testing.T) {
	for _, grace := range []time.Duration{0, time.Minute} {
		t.Run(grace.String(), func(t *testing.T) {
			edit := func(c *config.File) { c.Cgroup.KillGrace = config.Duration(grace) }
			onFakes(t, edit, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
				n.do(hostapi.EventBegin, "1.srv")
				pid := n.launch("1.srv")
				n.do(hostapi.EventPostsuspend, "1.srv")
				out := n.do(hostapi.EventEpilogue, "1.srv")
				if n.lives(pid) || out.Usage.Kill.Stragglers != 1 || out.Usage.Kill.Seconds > 5 {
					t.Errorf("lives: %v, %+v", n.lives(pid), out.Usage.Kill)
				}
			})
		})
	}
}

// Before a requested kill, a suspended job is thawed to receive the SIGTERM, and has its place
// again.
func TestPretermThaws(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		n.do(hostapi.EventPreterm, "1.srv") // the job does not exist
		n.do(hostapi.EventBegin, "1.srv", asks("ncpus=4"))
		n.launch("1.srv")
		k.ResetJournal()
		n.do(hostapi.EventPreterm, "1.srv")
		if ops := steps(k); len(ops) > 0 {
			t.Errorf("a job that runs: %v", ops)
		}
		n.do(hostapi.EventPostsuspend, "1.srv")
		n.do(hostapi.EventPreterm, "1.srv")
		n.frozen("1.srv", false)
		if _, err := n.event(hostapi.EventBegin, "2.srv"); hostapi.KindOf(err) != hostapi.KindBusy {
			t.Errorf("begin beside it: %v", err)
		}
		n.do(hostapi.EventPostsuspend, "1.srv")
		heal := k.Fail("write", "freezer.state", unix.EIO)
		healV2 := k.Fail("write", "cgroup.freeze", unix.EIO)
		n.do(hostapi.EventPreterm, "1.srv") // no failure prevents a job from being killed
		heal()
		healV2()
		n.align(n.do(hostapi.EventPeriodic, "")) // on v1, a frozen process does not die of a signal
		n.frozen("1.srv", false)
	})
}

// A job with ncpus=0 gets the cpu time to die when it is killed on request.
func TestPretermLeavesAJobTheCPUTimeToDie(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		n.do(hostapi.EventBegin, "1.srv", asks("ncpus=0"))
		n.launch("1.srv")
		n.do(hostapi.EventPreterm, "1.srv")
		l, err := n.cgroup("1.srv").Limits("cpu")
		must.NoError(t, err)
		if l.CPUShares <= 900 || l.Quota != 0 {
			t.Errorf("shares %d, quota %v", l.CPUShares, l.Quota)
		}
	})
}

// A process that enters a suspended job stops there.
func TestEnterSuspendedJob(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		n.do(hostapi.EventBegin, "1.srv")
		n.launch("1.srv")
		n.do(hostapi.EventPostsuspend, "1.srv")
		n.launch("1.srv")
		pid := k.Spawn()
		n.do(hostapi.EventAttach, "1.srv", withPID(pid), ownedBy(0))
		if pids := n.inside("1.srv"); len(pids) != 3 {
			t.Errorf("processes %v, want three", pids)
		}
		n.do(hostapi.EventEnd, "1.srv")
		if n.lives(pid) {
			t.Error("the attached process lives")
		}
	})
}

// Even without a freezer, a job's place can be given to others.
func TestSuspendWithoutFreezer(t *testing.T) {
	n, _ := fakeNode(t, kernfstest.NewV1, nil, kernfstest.Without("freezer"))
	n.do(hostapi.EventBegin, "1.srv", asks("ncpus=4"))
	out := n.do(hostapi.EventPostsuspend, "1.srv")
	if len(out.Notes) != 1 || !strings.Contains(out.Notes[0], "no freezer") {
		t.Errorf("notes %q", out.Notes)
	}
	n.do(hostapi.EventBegin, "2.srv", asks("ncpus=4"))
	n.do(hostapi.EventPreresume, "1.srv")
}

// If one hook accepts preresume and another refuses it, the host sends postsuspend to the first.
// The job is suspended as before.
func TestResumeTakenBack(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
		n.do(hostapi.EventBegin, "1.srv")
		n.launch("1.srv")
		n.do(hostapi.EventPostsuspend, "1.srv")
		n.do(hostapi.EventPreresume, "1.srv")
		n.frozen("1.srv", false)
		n.do(hostapi.EventPostsuspend, "1.srv")
		n.frozen("1.srv", true)
		n.do(hostapi.EventEpilogue, "1.srv")
		n.do(hostapi.EventEnd, "1.srv")
		n.want()
	})
}
