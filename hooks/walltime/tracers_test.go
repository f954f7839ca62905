package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/proc"
)

const tracedUID = 23473

// as starts the test program as a process of a user, in the job's cgroup or, for nil, outside. as
// returns the pid.
func (n *node) as(uid int, j *cgroup.Job, what string, args ...string) (pid int) {
	n.t.Helper()
	r, w, err := os.Pipe()
	must.NoError(n.t, err)
	defer r.Close()
	who := &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
	args = append([]string{"actor", actorArg, what}, args...)
	if j == nil {
		cmd := exec.Command("/proc/self/exe")
		cmd.Args, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = args, w, os.Stderr, &syscall.SysProcAttr{Credential: who}
		err = cmd.Start()
		n.t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	} else {
		var child *proc.Child
		child, err = proc.Start(&proc.Spec{Path: "/proc/self/exe", Args: args, Env: []string{"GOMAXPROCS=1"},
			Stdout: w, Stderr: os.Stderr, Credential: who}, hostapi.Join(j.Join()))
		n.t.Cleanup(func() { child.Signal(unix.SIGKILL); child.Wait(context.Background()) })
	}
	w.Close()
	must.NoError(n.t, err)
	if _, err := fmt.Fscan(bufio.NewReader(r), &pid); err != nil {
		n.t.Fatal(err)
	}
	return pid
}

// A job over its walltime ends though processes of its owner's outside hold it. Both jobs are told
// where one of these is another job's.
func TestTracerOfTheOwnerIsKilled(t *testing.T) {
	n := newNode(t, 0, nil)
	var told []string
	n.tell = func(id string, u *hostapi.JobUpdate) { told = append(told, id+": "+u.Notes[0]) }
	j, other := n.begin("1.srv", hostapi.Resources{"walltime": "3"}),
		n.begin("2.srv", hostapi.Resources{"walltime": "3000"})
	n.jobs["1.srv"].Owner.UID, n.jobs["1.srv"].KillDelay = tracedUID, new(int)
	pid := n.as(tracedUID, j, "ignore")
	outside, inside := 0, n.as(tracedUID, j, "ignore")
	outside = n.as(tracedUID, nil, "trace", strconv.Itoa(pid))
	another := n.as(tracedUID, other, "trace", strconv.Itoa(inside))
	n.at(3*time.Second, "1.srv")
	n.at(n.due["1.srv"], "1.srv")
	if pids, err := j.Processes(); err != nil || len(pids) != 2 {
		t.Fatalf("processes %v, %v: want them held", pids, err)
	}
	u := n.at(n.due["1.srv"], "1.srv")["1.srv"]
	text := "killed pid %d (\"exe\") of uid %d, which traced pid %d and held up its end"
	want := []string{fmt.Sprintf(text, outside, tracedUID, pid), fmt.Sprintf(text, another, tracedUID, inside)}
	slices.Sort(want)
	slices.Sort(u.Notes)
	if !slices.Equal(u.Notes, want) {
		t.Errorf("notes %q, want %q", u.Notes, want)
	}
	want = []string{"2.srv: " + fmt.Sprintf(text, another, tracedUID, inside) + " of job 1.srv"}
	if !slices.Equal(told, want) {
		t.Errorf("the other job is told %q, want %q", told, want)
	}
	emptied(t, j)
}

// A job over its walltime ends though a FUSE file system of its owner's does not answer. MoM, which
// waits for the job's program, would never send the job's last events.
func TestHangingFUSEOfTheOwnerIsAborted(t *testing.T) {
	n := newNode(t, 0, nil)
	dir, asked, detach, _ := kernfstest.HangingFUSE(t, tracedUID)
	j := n.begin("1.srv", hostapi.Resources{"walltime": "3"})
	n.jobs["1.srv"].Owner.UID, n.jobs["1.srv"].KillDelay = tracedUID, new(int)
	n.as(tracedUID, j, "stat", dir+"/file")
	must.Eventually(t, "it is asked", func() bool { return asked() > 0 })
	detach()
	n.at(3*time.Second, "1.srv")
	var notes []string
	for range triesBeforeFUSE {
		notes = append(notes, n.at(n.due["1.srv"], "1.srv")["1.srv"].Notes...)
	}
	if text := strings.Join(notes, "\n"); !strings.Contains(text,
		fmt.Sprintf("of uid %d, which did not answer", tracedUID)) {
		t.Errorf("notes %q", text)
	}
	emptied(t, j)
}

// A tracer that the owner could not kill lives, and makes no node bad.
func TestTracerOfAnotherUserTakesNoNodeOffline(t *testing.T) {
	n := newNode(t, 0, nil)
	j := n.begin("1.srv", hostapi.Resources{"walltime": "3"})
	n.jobs["1.srv"].Owner.UID = tracedUID
	tracer := n.as(0, nil, "trace", strconv.Itoa(n.as(tracedUID, j, "sleep")))
	s, err := decodeState(n.jobs["1.srv"].State)
	must.NoError(t, err)
	if _, err := j.SignalSome(unix.SIGKILL, func(int) bool { return true }); err != nil {
		t.Fatal(err)
	}
	must.Eventually(t, "it is held", func() bool {
		pids, err := j.Processes()
		return err == nil && proc.AllHeld(n.roots.Proc, pids)
	})
	s.Stage, s.Tries, s.Next = unkillable, 9, 60*time.Second
	n.jobs["1.srv"].State = s.encode()
	n.at(60*time.Second, "1.srv")
	req := &hostapi.Request{Event: hostapi.EventPeriodic, JobList: n.jobs}
	if _, err := n.ExechostPeriodic(t.Context(), req); err != nil {
		t.Error(err)
	}
	if !n.lives(tracer) {
		t.Error("root's tracer is gone")
	}
	unix.Kill(tracer, unix.SIGKILL)
	emptied(t, j)
}
