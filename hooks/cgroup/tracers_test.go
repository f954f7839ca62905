package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
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
	"github.com/hookhost/hookhost/internal/nodestate"
	"github.com/hookhost/hookhost/internal/proc"
)

// startOwned starts an actor of the user in the job's cgroup.
func (n *node) startOwned(id string, uid int, what string, args ...string) *proc.Child {
	n.t.Helper()
	join := n.do(hostapi.EventLaunch, id).Join
	spec := proc.Spec{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	return startSpec(n.t, spec, join, what, args...).child
}

// tracer starts a process outside of every job that traces pids.
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

// endsInTime ends a job that a tracer holds, and returns the notes of its epilogue.
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

// A process of the owner's outside of the job that holds its end is killed, however it is hidden,
// and the job ends.
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
			n.kept = nodestate.Dir(t.TempDir())
			n.do(hostapi.EventBegin, "1.srv", ownedBy(tracedUID))
			child := n.startOwned("1.srv", tracedUID, "sleep")
			tracers := tt.start(n, child.PID)
			notes := n.endsInTime("1.srv")
			for _, cmd := range tracers {
				cmd.Wait()
				if s := cmd.ProcessState.Sys().(syscall.WaitStatus); s.Signal() != unix.SIGKILL {
					t.Errorf("a tracer ended with %v", s)
				}
				text := fmt.Sprintf("killed pid %d (\"exe\") of uid %d, which traced pid ", cmd.Process.Pid, tracedUID)
				if !strings.Contains(notes, text) {
					t.Errorf("notes %q, want %q", notes, text)
				}
			}
			n.want()
		})
	}
}

// The same where processes are killed one by one.
func TestTracerOnV1IsKilled(t *testing.T) {
	kernfstest.NeedV1(t, "memory", "freezer")
	n := realNodeOf(t, cgroup.ModeV1, slowKill)
	n.do(hostapi.EventBegin, "1.srv", ownedBy(tracedUID))
	held, other := n.startOwned("1.srv", tracedUID, "sleep"), n.startOwned("1.srv", tracedUID, "sleep")
	n.tracer(as(tracedUID), held.PID)
	notes := n.endsInTime("1.srv")
	if !strings.Contains(notes, fmt.Sprintf("which traced pid %d and", held.PID)) || n.lives(other.PID) {
		t.Errorf("notes %q; the other one lives: %v", notes, n.lives(other.PID))
	}
	n.want()
}

// A user has all rights in a user namespace of his own, also over processes of subordinate uids.
func TestTracerInTheOwnersNamespaceIsKilled(t *testing.T) {
	const subordinate = tracedUID + 1
	n := realNode(t, slowKill)
	n.do(hostapi.EventBegin, "1.srv", ownedBy(tracedUID))
	join := n.do(hostapi.EventLaunch, "1.srv").Join
	child, err := proc.Start(&proc.Spec{Path: "/usr/bin/unshare", Args: []string{"unshare", "-U", "sleep", "1000"},
		Credential: &syscall.Credential{Uid: tracedUID, Gid: tracedUID}}, *join)
	must.NoError(t, err)
	t.Cleanup(func() { child.Signal(unix.SIGKILL); child.Wait(context.Background()) })
	for {
		if p, err := proc.Read(n.roots.Proc, child.PID); err != nil || p.Comm == "sleep" {
			break
		}
		time.Sleep(time.Millisecond)
	}
	for _, file := range []string{"uid_map", "gid_map"} {
		must.NoError(t, os.WriteFile(fmt.Sprintf("/proc/%d/%s", child.PID, file),
			fmt.Appendf(nil, "0 %d 2\n", tracedUID), 0))
	}
	self, err := os.Open("/proc/self/exe")
	must.NoError(t, err)
	defer self.Close()
	cmd := exec.Command("nsenter", "-t", strconv.Itoa(child.PID), "-U", "-S", "0", "-G", "0", "setpriv", "--reuid", "1",
		"--clear-groups",
		"--inh-caps", "+sys_ptrace", "--ambient-caps", "+sys_ptrace", "/proc/self/fd/3", actorArg, "trace",
		strconv.Itoa(child.PID))
	cmd.ExtraFiles = []*os.File{self}
	tracer := n.startTracer(cmd)
	p, err := proc.Read(n.roots.Proc, tracer.Process.Pid)
	if err != nil || p.UID != subordinate {
		t.Fatalf("tracer %+v, %v", p, err)
	}
	text := fmt.Sprintf("of uid %d, which traced pid %d", subordinate, child.PID)
	if notes := n.endsInTime("1.srv"); !strings.Contains(notes, text) {
		t.Errorf("notes %q", notes)
	}
	n.want()
}

// A tracer in another job of the same owner is that job's loss, and both jobs' reports tell.
func TestTracerInAnotherJobIsKilled(t *testing.T) {
	n := realNode(t, slowKill)
	told := map[string][]string{}
	n.tell = func(id string, u *hostapi.JobUpdate) { told[id] = append(told[id], u.Notes...) }
	for _, id := range []string{"1.srv", "2.srv"} {
		n.do(hostapi.EventBegin, id, ownedBy(tracedUID))
	}
	child := n.startOwned("1.srv", tracedUID, "sleep")
	tracer := n.startOwned("2.srv", tracedUID, "trace", strconv.Itoa(child.PID))
	text := fmt.Sprintf("killed pid %d (\"exe\") of uid %d, which traced pid %d and held up its end", tracer.PID,
		tracedUID, child.PID)
	if notes := n.endsInTime("1.srv"); notes != text {
		t.Errorf("notes %q", notes)
	}
	if got := strings.Join(told["2.srv"], "\n"); got != text+" of job 1.srv" {
		t.Errorf("the other job is told %q", got)
	}
	n.endsInTime("2.srv")
	n.want()
}

// kernelReleasesMemory reports whether the kernel has process_mrelease(2), as Linux 5.15 has.
func kernelReleasesMemory() bool {
	_, _, errno := unix.Syscall(unix.SYS_PROCESS_MRELEASE, ^uintptr(0), 0, 0)
	return errno != unix.ENOSYS
}

// A tracer that the owner could not kill is left alone. The tracer holds no node: the vnodes stay,
// the next job gets the job's place, and the cgroup goes when the tracer does.
func TestTracerOfAnotherUserTakesNoNodeOffline(t *testing.T) {
	n := realNode(t, slowKill)
	n.kept = nodestate.Dir(t.TempDir())
	all := strconv.Itoa(n.hook.node().Online.Len())
	n.do(hostapi.EventBegin, "1.srv", ownedBy(tracedUID), asks("ncpus="+all, "mem=64mb"))
	child := n.startOwned("1.srv", tracedUID, "hold", strconv.Itoa(32<<20), "/dev/null")
	tracer := n.tracer(nil, child.PID)
	known := vnodes{testNode: vnode("free", "-")}
	for _, e := range []hostapi.Event{hostapi.EventEpilogue, hostapi.EventEnd} {
		out, err := n.event(e, "1.srv", pbsSees(known))
		if !errors.Is(err, errHeld) || cannotRemove(err) || len(out.Vnodes) > 0 {
			t.Errorf("%s: %v, vnodes %v", e, err, out.Vnodes)
		}
		if !strings.Contains(strings.Join(out.Notes, "\n"), fmt.Sprintf("process %d by ", child.PID)) {
			t.Errorf("%s: notes %q", e, out.Notes)
		}
	}
	for _, e := range []hostapi.Event{hostapi.EventStartup, hostapi.EventPeriodic} {
		if out := n.do(e, "", pbsSees(known)); out.Vnodes[testNode] != nil && out.Vnodes[testNode].State != "" {
			t.Errorf("%s: %+v", e, out.Vnodes[testNode])
		}
	}
	if o, err := n.kept.Offline(); o != nil || err != nil {
		t.Errorf("%+v, %v", o, err)
	}
	if u, err := n.cgroup("1.srv").Usage(); err != nil || u.Anon == nil {
		t.Errorf("usage %+v, %v", u, err)
	} else if *u.Anon > 16<<20 && kernelReleasesMemory() {
		t.Errorf("what is held has %d bytes", *u.Anon)
	}
	n.do(hostapi.EventBegin, "2.srv", asks("ncpus="+all, "mem=64mb"))
	n.do(hostapi.EventEpilogue, "2.srv")
	n.do(hostapi.EventEnd, "2.srv")
	if err := tracer.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("root's tracer: %v", err)
	}
	tracer.Process.Kill()
	tracer.Wait()
	n.do(hostapi.EventEnd, "1.srv") // the host sends it again
	n.want()
}
