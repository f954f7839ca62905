package main

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/proc"
)

const owner, stranger = 1000, 1001

// attachNode is a node where the job 1.srv of owner has begun.
func attachNode(t *testing.T, test func(t *testing.T, n *node, k *kernfstest.Kernel)) {
	onFakes(t, nil, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		n.do(hostapi.EventBegin, "1.srv", ownedBy(owner))
		test(t, n, k)
	})
}

func TestAttachSession(t *testing.T) {
	attachNode(t, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		leader := k.Spawn()
		k.SetProcess(leader, kernfstest.Attributes{UID: owner})
		member, foreign, other := fork(t, k, leader), fork(t, k, leader), k.Spawn()
		k.SetProcess(foreign, kernfstest.Attributes{UID: stranger})
		k.SetProcess(other, kernfstest.Attributes{UID: owner})
		n.do(hostapi.EventAttach, "1.srv", withPID(member))
		must.Equal(t, "inside", []int{leader, member}, n.inside("1.srv"))
		if got := n.attached("1.srv"); got != 2 {
			t.Errorf("%d processes attached", got)
		}
		n.do(hostapi.EventAttach, "1.srv", withPID(leader))
		if got := n.attached("1.srv"); got != 2 {
			t.Errorf("again: %d processes attached", got)
		}
		n.do(hostapi.EventAttach, "1.srv", withPID(other))
		if got := n.attached("1.srv"); got != 3 {
			t.Errorf("another session: %d processes attached", got)
		}
	})
}

func fork(t testing.TB, k *kernfstest.Kernel, pid int) int {
	t.Helper()
	child, err := k.Fork(pid)
	must.NoError(t, err)
	return child
}

func TestAttachRefused(t *testing.T) {
	tests := []struct {
		name string
		pid  func(*kernfstest.Kernel) int
		text string // "" if the event is accepted but attaches nothing
	}{
		{"another user's", func(k *kernfstest.Kernel) int {
			pid := k.Spawn()
			k.SetProcess(pid, kernfstest.Attributes{UID: stranger})
			return pid
		}, "the process does not belong to the job's owner"},
		{"root's", func(k *kernfstest.Kernel) int { return k.Spawn() },
			"the process does not belong to the job's owner"},
		{"in the system's session", func(k *kernfstest.Kernel) int {
			pid := k.Spawn()
			k.SetProcess(pid, kernfstest.Attributes{UID: owner, Session: 1})
			return pid
		}, "session 1 belongs to the system"},
		{"this hook", func(k *kernfstest.Kernel) int {
			k.SetProcess(k.Self(), kernfstest.Attributes{UID: owner, Session: k.Self()})
			return k.Self()
		}, "it is hookhost itself"},
		{"gone", func(k *kernfstest.Kernel) int {
			pid := k.Spawn()
			k.Exit(pid)
			return pid
		}, ""},
		{"a zombie", func(k *kernfstest.Kernel) int {
			pid := k.Spawn()
			k.SetProcess(pid, kernfstest.Attributes{UID: owner})
			k.Zombie(pid)
			return pid
		}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			attachNode(t, func(t *testing.T, n *node, k *kernfstest.Kernel) {
				pid := tt.pid(k)
				out, err := n.event(hostapi.EventAttach, "1.srv", withPID(pid))
				must.NoError(t, err)
				want := tt.text
				if want != "" {
					want = fmt.Sprintf("attach pid %d to job 1.srv: %s", pid, tt.text)
				}
				if out.Reject != (want != "") || out.Message != want {
					t.Errorf("reject %v, %q, want %q", out.Reject, out.Message, want)
				}
				if inside := n.inside("1.srv"); len(inside) > 0 {
					t.Errorf("inside: %v", inside)
				}
				k.Exit(pid)
			})
		})
	}
}

// A login's process is root's. It joins the job with what the owner has in its session, and what it
// forks later starts there.
func TestAttachOfALogin(t *testing.T) {
	login := func(req *hostapi.Request) { req.Login = true }
	attachNode(t, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		daemon := k.Spawn()
		owners, roots := fork(t, k, daemon), fork(t, k, daemon)
		k.SetProcess(owners, kernfstest.Attributes{UID: owner})
		n.do(hostapi.EventAttach, "1.srv", withPID(daemon), login)
		session := fork(t, k, daemon)
		must.Equal(t, "inside", []int{daemon, owners, session}, n.inside("1.srv"))

		foreign := k.Spawn()
		k.SetProcess(foreign, kernfstest.Attributes{UID: stranger})
		out, err := n.event(hostapi.EventAttach, "1.srv", withPID(foreign), login)
		if err != nil || !out.Reject {
			t.Errorf("another user's process: %+v, %v", out, err)
		}
		later := k.Spawn() // with the pid of a login that has ended
		out, err = n.event(hostapi.EventAttach, "1.srv", withPID(later), login,
			func(req *hostapi.Request) { req.StartTime = 1 << 40 })
		if err != nil || !out.Reject {
			t.Errorf("another process of root's: %+v, %v", out, err)
		}
		k.Exit(foreign)
		k.Exit(roots)
		k.Exit(later)
	})
}

// In a container, sessions that began outside it have no number. Only the process itself is
// attached then.
func TestAttachFromOutsideSession(t *testing.T) {
	attachNode(t, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		outside := kernfstest.Attributes{UID: owner, Session: kernfstest.OutsideSession}
		pid, other := k.Spawn(), k.Spawn()
		k.SetProcess(pid, outside)
		k.SetProcess(other, outside)
		n.do(hostapi.EventAttach, "1.srv", withPID(pid))
		if got := n.attached("1.srv"); got != 1 {
			t.Errorf("%d processes attached", got)
		}
		if got := n.inside("1.srv"); !slices.Equal(got, []int{pid}) {
			t.Errorf("inside: %v, want %d", got, pid)
		}
	})
}

// A process stays in its job, no matter who owns the two jobs.
func TestAttachOfAnotherJob(t *testing.T) {
	test := func(t *testing.T, n *node, pid int, fork func() int) {
		n.do(hostapi.EventBegin, "2.srv", ownedBy(n.job("1.srv").Owner.UID))
		n.do(hostapi.EventAttach, "1.srv", withPID(pid))
		inside := n.inside("1.srv")
		n.do(hostapi.EventAttach, "1.srv", withPID(pid))
		out, err := n.event(hostapi.EventAttach, "2.srv", withPID(pid))
		want := fmt.Sprintf("attach pid %d to job 2.srv: it is part of job 1.srv", pid)
		if err != nil || !out.Reject || out.Message != want {
			t.Errorf("%+v, %v, want %q", out, err, want)
		}
		if fork != nil { // the one process of the session that is in no job
			free := fork()
			n.do(hostapi.EventAttach, "2.srv", withPID(free))
			if got := n.inside("2.srv"); !slices.Equal(got, []int{free}) {
				t.Errorf("2.srv has %v", got)
			}
		}
		if got := n.inside("1.srv"); !slices.Equal(got, inside) {
			t.Errorf("1.srv has %v, had %v", got, inside)
		}
		n.do(hostapi.EventEnd, "2.srv")
	}
	attachNode(t, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		pid := k.Spawn()
		k.SetProcess(pid, kernfstest.Attributes{UID: owner})
		test(t, n, pid, func() int {
			free := k.Spawn()
			k.SetProcess(free, kernfstest.Attributes{UID: owner, Session: pid})
			return free
		})
	})
	t.Run("kernel", func(t *testing.T) {
		n := realNode(t, nil)
		n.do(hostapi.EventBegin, "1.srv")
		test(t, n, startActor(t, nil, "sleep").child.PID, nil)
	})
}

// A process is not moved if its pid belonged to another process before.
func TestAttachReusedNumber(t *testing.T) {
	attachNode(t, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		pid := k.Spawn()
		k.SetProcess(pid, kernfstest.Attributes{UID: owner})
		before := k.Cgroup(pid)
		n.hold = func(procfs *kernfs.FS, pid int) (held, proc.Process, error) {
			_, p, err := holdByStartTime(procfs, pid)
			p.StartTime-- // as if it were another process
			return byStartTime{procfs, p.ID()}, p, err
		}
		n.do(hostapi.EventAttach, "1.srv", withPID(pid))
		if after := k.Cgroup(pid); after != before || n.attached("1.srv") != 0 {
			t.Errorf("%d processes attached; it is in\n%s\nwas in\n%s", n.attached("1.srv"), after, before)
		}
		k.Exit(pid)
	})
}

// A user's processes may be in the same session as hookhost, for example if it was started by hand.
func TestAttachLeavesHookhostOutside(t *testing.T) {
	attachNode(t, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		pid := k.Spawn()
		k.SetProcess(pid, kernfstest.Attributes{UID: owner})
		k.SetProcess(k.Self(), kernfstest.Attributes{UID: owner, Session: pid})
		n.do(hostapi.EventAttach, "1.srv", withPID(pid))
		must.Equal(t, "inside", []int{pid}, n.inside("1.srv"))
	})
}

func TestAttachForkRace(t *testing.T) {
	tests := []struct {
		name  string
		forks int
		kind  hostapi.Kind
	}{{"a few", 5, ""}, {"without end", 1000, hostapi.KindBusy}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k := kernfstest.NewHybrid()
			forks := tt.forks
			roots := k.Roots()
			// A session forks each time one of its processes is moved.
			race := writes{roots.Cgroup, func(name, moved string) {
				pid, err := strconv.Atoi(moved)
				if name != "memory/pbs_jobs.service/jobid/1.srv/cgroup.procs" || err != nil ||
					!slices.Contains(k.Pids(), pid) { // the number that no process has
					return
				}
				if forks--; forks >= 0 { // the child is outside, because its parent is not inside yet
					fork(t, k, pid)
				}
			}}
			roots.Cgroup = kernfs.New(race, "/sys/fs/cgroup")
			n := newNode(t, node{}, roots, cgroup.Options{Signal: k.Signal}, nil)
			n.do(hostapi.EventBegin, "1.srv")
			pid := k.Spawn()
			_, err := n.event(hostapi.EventAttach, "1.srv", withPID(pid))
			if hostapi.KindOf(err) != tt.kind {
				t.Errorf("error %v", err)
			}
			inside := func(pid int) bool { return slices.Contains(n.inside("1.srv"), pid) }
			outside := slices.DeleteFunc(k.Pids(), inside)
			if tt.kind == "" && len(outside) > 0 {
				t.Errorf("outside: %v", outside)
			}
			n.do(hostapi.EventEpilogue, "1.srv")
			n.do(hostapi.EventEnd, "1.srv")
			for _, pid := range k.Pids() {
				k.Exit(pid)
			}
		})
	}
}

func TestLaunchPID(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		n.do(hostapi.EventBegin, "1.srv", ownedBy(owner))
		leader := k.Spawn()
		child := fork(t, k, leader)
		n.do(hostapi.EventLaunch, "1.srv", withPID(leader))
		lone := fork(t, k, k.Self()) // in the session of the process that started it
		n.do(hostapi.EventLaunch, "1.srv", withPID(lone))
		must.Equal(t, "inside", []int{leader, child, lone}, n.inside("1.srv"))
		k.Exit(lone)
		n.do(hostapi.EventLaunch, "1.srv", withPID(lone))
	})
}

func TestEventsWithoutCgroup(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		pid := k.Spawn()
		for _, e := range []hostapi.Event{hostapi.EventEpilogue, hostapi.EventEnd, hostapi.EventAbort} {
			if out := n.do(e, "1.srv"); !cmp.Equal(out, &hostapi.Outcome{}) {
				t.Errorf("%s: %+v", e, out)
			}
		}
		if _, err := n.event(hostapi.EventLaunch, "1.srv"); hostapi.KindOf(err) != hostapi.KindNode {
			t.Errorf("launch: %v of kind %q", err, hostapi.KindOf(err))
		}
		out, err := n.event(hostapi.EventAttach, "1.srv", withPID(pid))
		if err != nil || !out.Reject ||
			out.Message != fmt.Sprintf("attach pid %d to job 1.srv: the job has no cgroup on this host", pid) {
			t.Errorf("attach: %+v, %v", out, err)
		}
		n.jobs["1.srv"] = n.job("1.srv")
		if out := n.do(hostapi.EventPeriodic, ""); len(out.Jobs) != 0 {
			t.Errorf("periodic: %v", out.Jobs)
		}
		k.Exit(pid)
	})
}

// If the kernel refuses an attach halfway, that is an error.
func TestAttachFails(t *testing.T) {
	n, k := fakeNode(t, kernfstest.NewHybrid, nil)
	n.do(hostapi.EventBegin, "1.srv")
	heal := k.Fail("write", "cpu/pbs_jobs.service/jobid/1.srv/cgroup.procs", unix.EINVAL)
	pid := k.Spawn()
	if _, err := n.event(hostapi.EventAttach, "1.srv", withPID(pid)); hostapi.KindOf(err) != hostapi.KindNode {
		t.Errorf("error %v of kind %q", err, hostapi.KindOf(err))
	}
	heal()
	n.do(hostapi.EventEpilogue, "1.srv")
	if n.lives(pid) {
		t.Error("what was taken in by half lives on")
	}
}

// A host that lost its record is told which shell leads the job, and the job's kill_delay.
func TestFirstLaunchIsInTheMark(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
		n.begin("1.srv", asks("ncpus=2", "mem=64mb"))
		n.job("1.srv").KillDelay = new(7)
		shell := n.launch("1.srv")
		n.launch("1.srv") // a task of pbsdsh
		assigned := n.state("1.srv").Assigned
		delete(n.jobs, "1.srv")
		n.hook.die()
		n.hook = n.boot()
		u := n.do(hostapi.EventStartup, "").Jobs["1.srv"]
		if u == nil || u.Begin == nil {
			t.Fatalf("startup reports %+v", u)
		}
		if got := u.Begin.Job; got.SessionID != shell || got.KillDelay == nil || *got.KillDelay != 7 {
			t.Errorf("job %+v, want session %d and kill_delay 7", got, shell)
		}
		if assigned.NCPUs != 2 || assigned.Limits == nil {
			t.Errorf("assigned %+v", assigned)
		}
		n.do(hostapi.EventEnd, "1.srv")
	})
}
