package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/proc/proctest"
)

const tracedUID = 23473

// as starts the test program as a process of a user, in the job's cgroup or, if j is nil, outside.
// It returns the pid.
func (n *node) as(uid int, j *cgroup.Job, what string, args ...string) (pid int) {
	n.t.Helper()
	r, w, err := os.Pipe()
	must.NoError(n.t, err)
	defer r.Close()
	args = append([]string{"actor", actorArg, what}, args...)
	out := bufio.NewReader(r)
	if j == nil {
		cmd := exec.Command("/proc/self/exe")
		cmd.Args, cmd.Stdout, cmd.Stderr = args, w, os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
		must.NoError(n.t, cmd.Start())
		n.t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	} else {
		out = proctest.Start(n.t, &exec.Cmd{Args: args, Env: []string{proctest.As(uid)}}, n.enters(j)).Out
	}
	w.Close()
	if _, err := fmt.Fscan(out, &pid); err != nil {
		n.t.Fatal(err)
	}
	return pid
}

// A job over its walltime ends even if the owner's processes outside the job trace it.
func TestTracerOfTheOwnerIsKilled(t *testing.T) {
	n := newNode(t, 0, nil)
	j, other := n.begin("1.srv", hostapi.Resources{"walltime": "3"}),
		n.begin("2.srv", hostapi.Resources{"walltime": "3000"})
	n.jobs["1.srv"].Owner.UID, n.jobs["1.srv"].KillDelay = tracedUID, new(int)
	begin := &hostapi.Request{Event: hostapi.EventBegin, Job: n.jobs["1.srv"]}
	must.NoError(t, j.SetJobMark(cgroup.JobMark{Begin: begin}))
	pid, inside := n.as(tracedUID, j, "ignore"), n.as(tracedUID, j, "ignore")
	outside := n.as(tracedUID, nil, "trace", strconv.Itoa(pid))
	another := n.as(tracedUID, other, "trace", strconv.Itoa(inside))
	n.at(3*time.Second, "1.srv")
	var notes []string
	for end := time.Now().Add(time.Minute); len(notes) < 2 && time.Now().Before(end); {
		for _, note := range n.at(n.due["1.srv"], "1.srv")["1.srv"].Notes {
			if strings.HasPrefix(note, "killed pid") {
				notes = append(notes, note)
			}
		}
	}
	text := "killed pid %d (\"exe\") of uid %d, which traced a process of the job and held up its end"
	want := []string{fmt.Sprintf(text, outside, tracedUID), fmt.Sprintf(text, another, tracedUID)}
	slices.Sort(want)
	slices.Sort(notes)
	if !slices.Equal(notes, want) {
		t.Errorf("notes %q, want %q", notes, want)
	}
	emptied(t, j)
}
