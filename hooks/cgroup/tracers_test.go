package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/proc"
	"github.com/hookhost/hookhost/internal/proc/proctest"
)

// startOwned starts an actor of the user in the job's cgroup.
func (n *node) startOwned(id string, uid int, what string, args ...string) *proc.Child {
	n.t.Helper()
	enter := n.launches(id)
	return startLabelled(n.t, []string{proctest.As(uid)}, enter, what, args...).child
}

// tracer starts a process outside every job that traces pids.
func (n *node) tracer(attr *syscall.SysProcAttr, pids ...int) *exec.Cmd {
	n.t.Helper()
	args := []string{actorArg, "trace"}
	for _, pid := range pids {
		args = append(args, strconv.Itoa(pid))
	}
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.SysProcAttr = attr
	return n.startTracer(cmd)
}

func (n *node) startTracer(cmd *exec.Cmd) *exec.Cmd {
	n.t.Helper()
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must.NoError(n.t, err)
	must.NoError(n.t, cmd.Start())
	n.t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		n.t.Fatalf("tracer: %q: %v", line, err)
	}
	return cmd
}

func as(uid int) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
}

// endsInTime ends a job whose end a tracer delays, and returns the notes of its epilogue.
func (n *node) endsInTime(id string) string {
	n.t.Helper()
	out := n.do(hostapi.EventEpilogue, id)
	if end := n.do(hostapi.EventEnd, id); len(out.Vnodes)+len(end.Vnodes) > 0 {
		n.t.Errorf("vnodes %v and %v", out.Vnodes, end.Vnodes)
	}
	return strings.Join(out.Notes, "\n")
}

const tracedUID = 23471

func slowKill(f *config.File) { f.Cgroup.KillTimeout = config.Duration(15 * time.Second) }

// If a process of the owner outside the job prevents the job from ending for a second, it is
// killed, however well it is hidden. Then the job ends.
func TestTracerOfTheOwnerIsKilled(t *testing.T) {
	for _, tt := range []struct {
		name  string
		start func(n *node, pid int) (tracers []*exec.Cmd)
	}{
		{"of the first thread", func(n *node, pid int) []*exec.Cmd {
			return []*exec.Cmd{n.tracer(as(tracedUID), pid)}
		}},
		{"of another thread", func(n *node, pid int) []*exec.Cmd {
			threads, err := n.roots.Proc.Numbers(fmt.Sprintf("%d/task", pid))
			if err != nil || len(threads) < 2 {
				n.t.Fatalf("threads %v, %v", threads, err)
			}
			return []*exec.Cmd{n.tracer(as(tracedUID), threads[len(threads)-1])}
		}},
		{"a tracer that is traced", func(n *node, pid int) []*exec.Cmd {
			all := []*exec.Cmd{n.tracer(as(tracedUID), pid)}
			for range 3 {
				last := all[len(all)-1].Process.Pid
				threads, err := n.roots.Proc.Numbers(fmt.Sprintf("%d/task", last))
				must.NoError(n.t, err)
				all = append(all, n.tracer(as(tracedUID), threads...))
			}
			return all
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := realNode(t, slowKill)
			n.do(hostapi.EventBegin, "1.srv", ownedBy(tracedUID))
			child := n.startOwned("1.srv", tracedUID, "sleep")
			tracers := tt.start(n, child.PID)
			start := time.Now()
			notes := n.endsInTime("1.srv")
			if took := time.Since(start); took < time.Second {
				t.Errorf("a tracer was killed, and the job ended after %v", took)
			}
			for _, cmd := range tracers {
				cmd.Wait()
				if s := cmd.ProcessState.Sys().(syscall.WaitStatus); s.Signal() != unix.SIGKILL {
					t.Errorf("a tracer ended with %v", s)
				}
				text := fmt.Sprintf("killed pid %d (\"exe\") of uid %d, which traced ", cmd.Process.Pid, tracedUID)
				if !strings.Contains(notes, text) {
					t.Errorf("notes %q, want %q", notes, text)
				}
			}
			n.want()
		})
	}
}

// The same is true when processes are killed one by one.
func TestTracerOnV1IsKilled(t *testing.T) {
	kernfstest.NeedV1(t, "memory", "freezer")
	n := realNodeOf(t, cgroup.ModeV1, slowKill)
	n.do(hostapi.EventBegin, "1.srv", ownedBy(tracedUID))
	held, other := n.startOwned("1.srv", tracedUID, "sleep"), n.startOwned("1.srv", tracedUID, "sleep")
	n.tracer(as(tracedUID), held.PID)
	notes := n.endsInTime("1.srv")
	if !strings.Contains(notes, "which traced a process of the job") || n.lives(other.PID) {
		t.Errorf("notes %q; the other one lives: %v", notes, n.lives(other.PID))
	}
	n.want()
}

// A tracer in another job of the same owner is killed, and that job loses it.
func TestTracerInAnotherJobIsKilled(t *testing.T) {
	n := realNode(t, slowKill)
	for _, id := range []string{"1.srv", "2.srv"} {
		n.do(hostapi.EventBegin, id, ownedBy(tracedUID))
	}
	child := n.startOwned("1.srv", tracedUID, "sleep")
	tracer := n.startOwned("2.srv", tracedUID, "trace", strconv.Itoa(child.PID))
	text := fmt.Sprintf("killed pid %d (\"exe\") of uid %d, which traced", tracer.PID, tracedUID)
	if notes := n.endsInTime("1.srv"); !strings.HasPrefix(notes, text) {
		t.Errorf("notes %q", notes)
	}
	n.endsInTime("2.srv")
	n.want()
}

// goesOffline ends a job that cannot be ended. The error names the remaining processes, and the
// node goes offline. back checks that the vnodes come back when nothing is left.
func (n *node) goesOffline(id string, says ...string) (back func()) {
	n.t.Helper()
	known := pbsSees(vnodes{testNode: vnode("free", "-")})
	for _, e := range []hostapi.Event{hostapi.EventEpilogue, hostapi.EventEnd} {
		out, err := n.event(e, id, known)
		if !errors.Is(err, cgroup.ErrNotEmpty) {
			n.t.Errorf("%s: %v, want %v", e, err, cgroup.ErrNotEmpty)
		}
		if v := out.Vnodes[testNode]; e == hostapi.EventEpilogue && (v == nil || v.State != stateOffline) {
			n.t.Errorf("%s: vnodes %v", e, out.Vnodes)
		}
		for _, text := range says {
			if err == nil || !strings.Contains(err.Error(), text) {
				n.t.Errorf("%s: %v, want %q", e, err, text)
			}
		}
	}
	return func() {
		n.t.Helper()
		n.do(hostapi.EventEnd, id) // the host repeats it
		out := n.do(hostapi.EventPeriodic, "", pbsSees(vnodes{testNode: vnode("offline", pbs.CleanUpComment)}))
		if v := out.Vnodes[testNode]; v == nil || v.State != stateFree {
			n.t.Errorf("vnodes %v when nothing is left", out.Vnodes)
		}
		n.want()
	}
}

func soonKilled(f *config.File) {
	f.Cgroup.KillTimeout, f.Vnodes.OnlineMinDelay = config.Duration(3*time.Second), 0
}

func TestTracerOfAnotherUserIsLeftAlone(t *testing.T) {
	must.BesideOthers(t)
	n := realNode(t, soonKilled)
	n.do(hostapi.EventBegin, "1.srv", ownedBy(tracedUID))
	child := n.startOwned("1.srv", tracedUID, "sleep")
	tracer := n.tracer(nil, child.PID)
	text := fmt.Sprintf("%d (exe) t, traced by %d (exe) of uid 0", child.PID, tracer.Process.Pid)
	back := n.goesOffline("1.srv", text)
	if err := tracer.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("root's tracer: %v", err)
	}
	tracer.Process.Kill()
	tracer.Wait()
	back()
}

func TestHangingFUSETakesTheNodeOffline(t *testing.T) {
	must.BesideOthers(t)
	n := realNode(t, soonKilled)
	dir, asked, abort := kernfstest.HangingFUSE(t, tracedUID)
	n.do(hostapi.EventBegin, "1.srv", ownedBy(tracedUID))
	child := n.startOwned("1.srv", tracedUID, "stat", filepath.Join(dir, "file"))
	n.t.Cleanup(abort) // runs before the process is waited for
	must.Eventually(t, "it is asked", func() bool { return asked() > 0 })
	back := n.goesOffline("1.srv", fmt.Sprintf("%d (exe) D", child.PID))
	abort()
	back()
}

// A thread holds a process's memory map. In the middle of a move to other cpus or NUMA nodes, the
// kernel would wait for it. Meanwhile no process of the node could start or end.
func TestProcessWhoseMemoryMapIsHeldIsNotMoved(t *testing.T) {
	n := realNode(t, nil)
	dir, asked, abort := kernfstest.HangingFUSE(t, tracedUID)
	n.do(hostapi.EventBegin, "1.srv", ownedBy(tracedUID))
	p := startLabelled(t, []string{proctest.As(tracedUID)}, func(int) {}, "map", filepath.Join(dir, "open"))
	t.Cleanup(abort) // runs before the process is waited for
	must.Eventually(t, "the map is held", func() bool { return asked() > 0 })
	defer time.AfterFunc(time.Minute, abort).Stop() // without the check, an attach to other nodes ends the test
	file := fmt.Sprintf("/proc/%d/cgroup", p.child.PID)
	before, err := os.ReadFile(file)
	must.NoError(t, err)
	for range 2 {
		_, err = n.event(hostapi.EventAttach, "1.srv", withPID(p.child.PID))
		if !errors.Is(err, proc.ErrHangs) || hostapi.KindOf(err) != hostapi.KindBusy {
			t.Errorf("%v, want %v", err, proc.ErrHangs)
		}
	}
	after, err := os.ReadFile(file)
	must.NoError(t, err)
	must.Equal(t, "its cgroups", string(before), string(after))
	abort()
	must.Eventually(t, "it is moved when its map is free", func() bool {
		_, err := n.event(hostapi.EventAttach, "1.srv", withPID(p.child.PID))
		return err == nil
	})
	if id, _, err := n.tree.JobOf(p.child.PID); id != "1.srv" || err != nil {
		t.Errorf("it is in job %q, %v", id, err)
	}
}
