package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
)

// frozen checks that a job is frozen and says so, or neither.
func (n *node) frozen(id string, want bool) {
	n.t.Helper()
	frozen, err := n.cgroup(id).Frozen()
	if err != nil || frozen != want {
		n.t.Errorf("job %s frozen: %v, %v; want %v", id, frozen, err, want)
	}
	if r, err := n.cgroup(id).Record(); err != nil || r.Suspended != want {
		n.t.Errorf("job %s: its record says suspended: %v, %v; want %v", id, r.Suspended, err, want)
	}
	if s := n.state(id); s.SuspendedAt != 0 != want {
		n.t.Errorf("job %s: its state says suspended at %d; want %v", id, s.SuspendedAt, want)
	}
}

func TestSuspendAndResume(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		n.do(hostapi.EventBegin, "1.srv")
		pid := n.launch("1.srv")
		for range 2 { // each may come twice
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
		if s := n.state("1.srv"); s.SuspendedMicros <= 0 {
			t.Errorf("suspended for %d µs", s.SuspendedMicros)
		}
		out := n.do(hostapi.EventEpilogue, "1.srv")
		if len(out.Notes) != 1 || !strings.HasPrefix(out.Notes[0], "suspended for 0.0 seconds in all") {
			t.Errorf("notes %q", out.Notes)
		}
		n.do(hostapi.EventEnd, "1.srv")
		n.want()
	})
}

// A suspended job's place goes to others, and only when they have no other; what is resumed has its place again.
func TestSuspendedJobGivesItsPlace(t *testing.T) {
	onFakes(t, func(c *config.File) { c.Memory.ReservePercent = 0 }, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
		n.do(hostapi.EventBegin, "1.srv", asks("ncpus=2", "mem=10gb"))
		cpus := n.state("1.srv").CPUs
		busy := func(id string, resources ...string) {
			t.Helper()
			if _, err := n.event(hostapi.EventBegin, id, asks(resources...)); hostapi.KindOf(err) != hostapi.KindBusy {
				t.Errorf("%v beside %v: error %v", resources, n.job("1.srv").ResourceList, err)
			}
		}
		busy("2.srv", "ncpus=4", "mem=1gb")
		busy("2.srv", "ncpus=1", "mem=10gb")
		n.do(hostapi.EventPostsuspend, "1.srv")
		n.do(hostapi.EventBegin, "2.srv", asks("ncpus=2", "mem=1gb"))
		if got := n.state("2.srv").CPUs; got == cpus {
			t.Errorf("cpus %s are those of the suspended job, though others are free", got)
		}
		n.do(hostapi.EventBegin, "3.srv", asks("ncpus=2", "mem=10gb"))
		if got := n.state("3.srv").CPUs; got != cpus {
			t.Errorf("cpus %s, want those of the suspended job, %s", got, cpus)
		}
		n.do(hostapi.EventPreresume, "1.srv")
		busy("4.srv", "ncpus=1", "mem=1gb")
		n.do(hostapi.EventEnd, "3.srv")
		busy("4.srv", "ncpus=1", "mem=1gb")
		n.do(hostapi.EventEnd, "1.srv")
		n.do(hostapi.EventBegin, "4.srv", asks("ncpus=2", "mem=15gb"))
		n.do(hostapi.EventEnd, "2.srv")
		n.do(hostapi.EventEnd, "4.srv")
	})
}

// A process that the kernel holds cannot be frozen: the event says so, and the job is suspended all the same.
func TestSuspendWithAStuckProcess(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		n.do(hostapi.EventBegin, "1.srv")
		pid := n.launch("1.srv")
		k.Stick(pid)
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		job := *n.job("1.srv")
		out, err := n.sendCtx(ctx, &hostapi.Request{Event: hostapi.EventPostsuspend, Node: testNode, Job: &job})
		if hostapi.KindOf(err) != hostapi.KindBusy || !strings.Contains(err.Error(), "not stopped: ") || !strings.Contains(err.Error(), " D") {
			t.Errorf("error %v of kind %q", err, hostapi.KindOf(err))
		}
		if out == nil || out.State == nil {
			t.Fatalf("outcome %+v", out)
		}
		n.job("1.srv").State = out.State
		n.frozen("1.srv", true)
		k.Unstick(pid)
		n.do(hostapi.EventPostsuspend, "1.srv")
		n.frozen("1.srv", true)
		n.do(hostapi.EventEnd, "1.srv")
		n.want()
	})
}

// A hook that dies in the middle of either event leaves what the next startup sets right: the record counts.
func TestSuspendRepaired(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		n.do(hostapi.EventBegin, "1.srv")
		n.launch("1.srv")
		j := n.cgroup("1.srv")
		mark := func(suspended bool) {
			t.Helper()
			if err := n.amend(j, func(r *cgroup.Record) { r.Suspended = suspended }); err != nil {
				t.Fatal(err)
			}
		}
		is := func(want bool) {
			t.Helper()
			if frozen, err := n.cgroup("1.srv").Frozen(); err != nil || frozen != want {
				t.Errorf("frozen: %v, %v; want %v", frozen, err, want)
			}
		}
		mark(true) // died before it froze
		n.restart()
		is(true)
		mark(false) // died before it thawed
		n.restart()
		is(false)
		n.do(hostapi.EventPostsuspend, "1.srv")
		if err := j.Thaw(t.Context()); err != nil { // somebody else's doing
			t.Fatal(err)
		}
		n.do(hostapi.EventPeriodic, "")
		is(true)
		n.do(hostapi.EventEnd, "1.srv")
		n.want()
	})
}

// Each write of the two events fails in turn. The event fails, its record and the freezer agree, and it can be repeated.
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
			if len(ops) < 2 {
				t.Fatalf("%s: %s did only %v", f.name, event, ops)
			}
			for _, op := range ops {
				t.Run(f.name+"/"+string(event)+" "+op.Op+" "+strings.ReplaceAll(op.Path, "/", " "), func(t *testing.T) {
					n, k := prepare(t)
					heal := k.Fail(op.Op, op.Path, unix.EIO)
					if _, err := n.event(event, "1.srv"); hostapi.KindOf(err) != hostapi.KindNode || !errors.Is(err, unix.EIO) {
						t.Errorf("error %v of kind %q", err, hostapi.KindOf(err))
					}
					heal()
					n.do(event, "1.srv")
					n.frozen("1.srv", event == hostapi.EventPostsuspend)
					n.do(hostapi.EventEnd, "1.srv")
					n.want()
				})
			}
		}
	}
}

// A suspended job ends like any other: at its end event, at a kill on request, with a grace and without.
func TestSuspendedJobEnds(t *testing.T) {
	for _, grace := range []time.Duration{0, time.Minute} {
		t.Run(grace.String(), func(t *testing.T) {
			onFakes(t, func(c *config.File) { c.Cgroup.KillGrace = config.Duration(grace) }, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
				n.do(hostapi.EventBegin, "1.srv")
				pid := n.launch("1.srv")
				n.do(hostapi.EventPostsuspend, "1.srv")
				out := n.do(hostapi.EventEpilogue, "1.srv")
				if n.lives(pid) || out.Usage.Kill.Stragglers != 1 || out.Usage.Kill.Seconds > 5 {
					t.Errorf("lives: %v, %+v", n.lives(pid), out.Usage.Kill)
				}
				n.do(hostapi.EventEnd, "1.srv")
				n.want()
			})
		})
	}
}

// Before it is killed on request a suspended job is thawed, to take the SIGTERM, and has its place again.
func TestPretermThaws(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		n.do(hostapi.EventPreterm, "1.srv") // nothing there
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
		heal := k.FailWrite("freezer.state", unix.EIO)
		healV2 := k.FailWrite("cgroup.freeze", unix.EIO)
		n.do(hostapi.EventPreterm, "1.srv") // nothing that fails keeps a job from being killed
		heal()
		healV2()
		n.do(hostapi.EventEnd, "1.srv")
	})
}

// Nobody starts a program in a frozen cgroup, where the starter would wait for it; a process that is there already is taken
// in and stops as it enters.
func TestEnterSuspendedJob(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		n.do(hostapi.EventBegin, "1.srv")
		n.launch("1.srv")
		n.do(hostapi.EventPostsuspend, "1.srv")
		if _, err := n.event(hostapi.EventLaunch, "1.srv"); hostapi.KindOf(err) != hostapi.KindBusy || !strings.Contains(err.Error(), "suspended") {
			t.Errorf("launch: %v", err)
		}
		pid := k.Spawn()
		n.do(hostapi.EventAttach, "1.srv", withPID(pid), ownedBy(0))
		if pids := n.inside("1.srv"); len(pids) != 2 {
			t.Errorf("processes %v, want two", pids)
		}
		n.do(hostapi.EventEnd, "1.srv")
		if n.lives(pid) {
			t.Error("the attached process lives")
		}
	})
}

// Without a freezer there is still the place to give away.
func TestSuspendWithoutFreezer(t *testing.T) {
	n, _ := fakeNode(t, kernfstest.NewV1, nil, kernfstest.Without("freezer"))
	n.do(hostapi.EventBegin, "1.srv", asks("ncpus=4"))
	if out := n.do(hostapi.EventPostsuspend, "1.srv"); len(out.Notes) != 1 || !strings.Contains(out.Notes[0], "no freezer") {
		t.Errorf("notes %q", out.Notes)
	}
	n.do(hostapi.EventBegin, "2.srv", asks("ncpus=4"))
	n.do(hostapi.EventPreresume, "1.srv")
	n.do(hostapi.EventEnd, "1.srv")
	n.do(hostapi.EventEnd, "2.srv")
	n.want()
}

// On a kernel: what runs stops, also what left its session, takes no cpu time, and goes on.
func TestKernelSuspend(t *testing.T) {
	n := realNode(t, nil)
	n.do(hostapi.EventBegin, "1.srv", asks("ncpus=1", "mem=256mb"))
	join := n.do(hostapi.EventLaunch, "1.srv").Join
	startActor(t, join, "burn")
	cpu := func() time.Duration {
		t.Helper()
		u, err := n.cgroup("1.srv").Usage()
		if err != nil {
			t.Fatal(err)
		}
		return *u.CPU
	}
	n.do(hostapi.EventPostsuspend, "1.srv")
	before := cpu()
	time.Sleep(100 * time.Millisecond)
	if used := cpu() - before; used > 10*time.Millisecond {
		t.Errorf("a suspended job used %v", used)
	}
	attached := startActor(t, nil, "sleep").child.PID
	n.do(hostapi.EventAttach, "1.srv", withPID(attached), ownedBy(0))
	n.do(hostapi.EventPreresume, "1.srv")
	before = cpu()
	for end := time.Now().Add(10 * time.Second); cpu()-before < 20*time.Millisecond; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the job does not go on")
		}
	}
	n.do(hostapi.EventPostsuspend, "1.srv")
	out := n.do(hostapi.EventEpilogue, "1.srv")
	if k := out.Usage.Kill; k.Stragglers != 2 || k.Seconds > 2 {
		t.Errorf("%+v", k)
	}
	n.do(hostapi.EventEnd, "1.srv")
	n.want()
}

// The host sends postsuspend to a hook that accepted preresume where another refused it: the job is suspended as before.
func testResumeTakenBack(t *testing.T, n *node) {
	n.do(hostapi.EventBegin, "1.srv")
	n.launch("1.srv")
	n.do(hostapi.EventPostsuspend, "1.srv")
	began := n.state("1.srv").SuspendedAt
	n.do(hostapi.EventPreresume, "1.srv")
	n.frozen("1.srv", false)
	n.do(hostapi.EventPostsuspend, "1.srv")
	n.frozen("1.srv", true)
	if s := n.state("1.srv"); s.SuspendedAt < began+s.SuspendedMicros {
		t.Errorf("state %+v: suspended since %d in all", s, began)
	}
	n.do(hostapi.EventEpilogue, "1.srv")
	n.do(hostapi.EventEnd, "1.srv")
	n.want()
}

func TestResumeTakenBack(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, _ *kernfstest.Kernel) { testResumeTakenBack(t, n) })
	t.Run("kernel", func(t *testing.T) { testResumeTakenBack(t, realNode(t, nil)) })
}
