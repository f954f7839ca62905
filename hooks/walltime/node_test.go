package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/proc"
	"github.com/hookhost/hookhost/internal/proc/proctest"
)

// node is a hook on this machine's kernel, with the host of its jobs. The test sets the host's
// clock.
type node struct {
	*hook
	t    testing.TB
	jobs map[string]*hostapi.Job
	due  map[string]time.Duration
}

var prefixes atomic.Int64

// newNode starts a hook that uses only what this machine has in that mode; 0 means everything.
func newNode(t testing.TB, mode cgroup.Mode, edit func(*config.Walltime)) *node {
	t.Helper()
	kernfstest.NeedRoot(t)
	switch mode {
	case cgroup.ModeV1:
		kernfstest.NeedV1(t, "freezer", "cpuacct")
	case cgroup.ModeV2:
		kernfstest.NeedV2(t)
	}
	log := logrus.New()
	log.SetOutput(t.Output())
	opt := cgroup.Options{Prefix: fmt.Sprintf("%s_%d", testPrefix(), prefixes.Add(1)), Mode: mode}
	p := testPolicy(edit)
	p.Cgroup.Prefix = opt.Prefix
	roots, tree, err := cgroup.Open(opt)
	must.NoError(t, err)
	h := &hook{policy: p, log: logrus.NewEntry(log), roots: roots, tree: tree, started: time.Now()}
	t.Cleanup(func() { kernfstest.RemoveUnit(t, opt.Prefix) })
	must.NoError(t, h.tree.Prepare())
	return &node{hook: h, t: t, jobs: map[string]*hostapi.Job{}, due: map[string]time.Duration{}}
}

// begin begins a job whose MoM is this process, with a cgroup as hook cgroup makes it.
func (n *node) begin(id string, r hostapi.Resources) *cgroup.Job {
	n.t.Helper()
	j, err := n.tree.Job(id)
	must.NoError(n.t, err)
	must.NoError(n.t, j.Create(cgroup.Limits{}))
	n.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if _, err := j.Kill(ctx); err != nil {
			n.t.Error(err)
		}
		if err := j.Remove(ctx); err != nil && !errors.Is(err, cgroup.ErrNotFound) {
			n.t.Error(err)
		}
	})
	job := &hostapi.Job{ID: id, ResourceList: r}
	out, err := n.ExecjobBegin(n.t.Context(),
		&hostapi.Request{Event: hostapi.EventBegin, Job: job, MoM: &hostapi.ProcessID{PID: os.Getpid()}})
	if err == nil {
		err = out.Check(hostapi.EventBegin)
	}
	must.NoError(n.t, err)
	n.jobs[id] = job
	job.State, n.due[id] = out.State, out.CallAtElapsed
	return j
}

// at makes the host call when the jobs have run so long.
func (n *node) at(elapsed time.Duration, ids ...string) map[string]*hostapi.JobUpdate {
	n.t.Helper()
	req := &hostapi.Request{Event: hostapi.EventPeriodic, Partial: true, JobList: map[string]*hostapi.Job{}}
	for _, id := range ids {
		n.jobs[id].Elapsed = elapsed
		req.JobList[id] = n.jobs[id]
	}
	out, err := n.ExechostPeriodic(n.t.Context(), req)
	if err == nil {
		err = out.Check(hostapi.EventPeriodic)
	}
	must.NoError(n.t, err)
	for id, u := range out.Jobs {
		if u.State != nil {
			n.jobs[id].State = u.State
		}
		n.due[id] = u.CallAtElapsed
	}
	return out.Jobs
}

// enters returns a function that moves processes into the job.
func (n *node) enters(j *cgroup.Job) (enter func(pid int)) {
	return func(pid int) {
		n.t.Helper()
		_, err := j.Attach(number(pid), nil)
		must.NoError(n.t, err)
	}
}

// number is a process that is not held.
type number int

func (n number) PID() int                    { return int(n) }
func (n number) Signal(syscall.Signal) error { return nil }

// start starts the test program as a process of the job. It returns the process and the pids that
// it and its children print.
func (n *node) start(j *cgroup.Job, tell int, what string, args ...string) (child *proc.Child, pids []int) {
	n.t.Helper()
	spec := &exec.Cmd{Args: append([]string{"actor", actorArg, what}, args...)}
	p := proctest.Start(n.t, spec, n.enters(j))
	for range tell {
		line, err := p.Out.ReadString('\n')
		pid, bad := strconv.Atoi(strings.TrimSpace(line))
		if err = errors.Join(err, bad); err != nil {
			n.t.Fatalf("%s: %q: %v", what, line, err)
		}
		pids = append(pids, pid)
	}
	return p.Child, pids
}

// lives reports whether there is such a process, except for zombies.
func (n *node) lives(pid int) bool {
	p, err := proc.Read(n.roots.Proc, pid)
	return err == nil && !p.Dead()
}

func (n *node) stopped(pid int) bool {
	p, err := proc.Read(n.roots.Proc, pid)
	return err == nil && p.State == 'T'
}

// emptied waits until a job has no processes.
func emptied(t testing.TB, j *cgroup.Job) {
	t.Helper()
	must.Eventually(t, "nothing is left", func() bool {
		pids, err := j.Processes()
		return err == nil && len(pids) == 0
	})
}

// content returns what a process has written to a file.
func content(t testing.TB, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(b)), " ")
}
