package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/hostapi/hooktest"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/proc"
	"github.com/hookhost/hookhost/internal/proc/proctest"
)

var prefixes atomic.Int64

// realNode is this machine, as root, with a unique prefix.
func realNode(t testing.TB, edit func(*config.File)) *node {
	t.Helper()
	return realNodeOf(t, 0, edit)
}

// realNodeOf uses only what this machine has in that mode; 0 means everything.
func realNodeOf(t testing.TB, mode cgroup.Mode, edit func(*config.File)) *node {
	t.Helper()
	return realNodeBehind(t, mode, edit, nil)
}

// realNodeBehind is realNodeOf with the cgroup file system wrapped in another one, unless that is
// nil.
func realNodeBehind(
	t testing.TB,
	mode cgroup.Mode,
	edit func(*config.File),
	front func(*kernfs.FS) kernfs.Backend,
) *node {
	t.Helper()
	kernfstest.NeedRoot(t)
	roots, err := kernfs.OpenRoots()
	if err != nil {
		kernfstest.Skip(t, "open roots: %v", err)
	}
	if front != nil {
		roots.Cgroup = kernfs.New(front(roots.Cgroup), roots.Cgroup.Path("."))
	}
	opt := cgroup.Options{Prefix: fmt.Sprintf("%s_%d", testPrefix(), prefixes.Add(1)), Mode: mode}
	tree, err := cgroup.Detect(roots, opt)
	if err != nil {
		kernfstest.Skip(t, "%v", err)
	}
	for _, c := range []string{"memory", "cpuset", "cpu", "pids"} {
		if mode == 0 && !tree.Has(c) {
			kernfstest.Skip(t, "no %s controller", c)
		}
	}
	t.Cleanup(func() { kernfstest.RemoveUnit(t, opt.Prefix) })
	n := node{
		start: func(t testing.TB, enter func(pid int)) int { return startActor(t, enter, "sleep").child.PID },
		lives: func(pid int) bool {
			p, err := proc.Read(roots.Proc, pid)
			return err == nil && !p.Dead()
		},
	}
	return newNode(t, n, roots, opt, edit)
}

// actor is this test program in the role of a job's process.
type actor struct {
	child *proc.Child
	stdin *os.File
}

// startActor starts an actor and waits until it is ready.
func startActor(t testing.TB, enter func(pid int), what string, args ...string) actor {
	t.Helper()
	return startLabelled(t, nil, enter, what, args...)
}

// startLabelled starts an actor with variables in its environment.
func startLabelled(t testing.TB, env []string, enter func(pid int), what string, args ...string) actor {
	t.Helper()
	spec := &exec.Cmd{Env: env, Args: append([]string{"actor", actorArg, what}, args...)}
	p := proctest.Start(t, spec, enter)
	if line, err := p.Out.ReadString('\n'); err != nil {
		t.Fatalf("%s: %q: %v", what, line, err)
	}
	return actor{child: p.Child, stdin: p.In}
}

// SIGTERM comes first. The grace period lasts to its end if a process ignores SIGTERM, but ends
// early if none does.
func TestKernelGrace(t *testing.T) {
	tests := []struct {
		name   string
		what   string
		want   hostapi.KillReport
		seen   unix.Signal
		grace  time.Duration
		within bool // the job ends within the grace period
	}{
		{"obeyed", "sleep", hostapi.KillReport{Signal: "SIGTERM", Stragglers: 1}, unix.SIGTERM, 5 * time.Second, true},
		{"obeyed when it goes on", "stop", hostapi.KillReport{Signal: "SIGTERM", Stragglers: 1}, unix.SIGTERM,
			5 * time.Second, true},
		{"ignored", "ignore", hostapi.KillReport{Signal: "SIGKILL", Stragglers: 1}, unix.SIGKILL,
			300 * time.Millisecond, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := realNode(t, func(c *config.File) { c.Cgroup.KillGrace = config.Duration(tt.grace) })
			n.do(hostapi.EventBegin, "1.srv")
			a := startActor(t, n.launches("1.srv"), tt.what)
			got := *n.do(hostapi.EventEpilogue, "1.srv").Usage.Kill
			if took := time.Duration(got.Seconds * float64(time.Second)); took <= 0 || (took < tt.grace) != tt.within {
				t.Errorf("it took %v", took)
			}
			if got.Seconds = 0; got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
			if exit, err := a.child.Wait(t.Context()); err != nil || exit.Status.Signal() != tt.seen {
				t.Errorf("ended by %v, %v", exit.Status.Signal(), err)
			}
		})
	}
}

// The hook is tested the way hookhost uses it: through JSON, with events found by their methods.
func TestThroughHostapi(t *testing.T) {
	n := realNode(t, nil)
	n.hook.die() // a hook has only one program at a time
	c := config.Default()
	c.Cgroup.Prefix = fmt.Sprintf("%s_%d", testPrefix(), prefixes.Load())
	c.Cgroup.Systemd = "off" // the node's parent of jobs was created without systemd
	text, err := json.Marshal(c)
	must.NoError(t, err)
	var made *hook
	h := hooktest.New(t, func(s *hostapi.Setup) (any, error) {
		v, err := newHook(s)
		if err == nil {
			made = v.(*hook)
		}
		return v, err
	}, string(text))
	t.Cleanup(func() { made.die() })
	want := []hostapi.Event{
		hostapi.EventBegin, hostapi.EventLaunch, hostapi.EventAttach, hostapi.EventResize,
		hostapi.EventPostsuspend, hostapi.EventPreresume,
		hostapi.EventPreterm, hostapi.EventAbort, hostapi.EventEpilogue, hostapi.EventEnd,
		hostapi.EventStartup, hostapi.EventPeriodic,
	}
	if !slices.Equal(h.Events(), want) {
		t.Errorf("events %v, want %v", h.Events(), want)
	}
	job := &hostapi.Job{ID: "1[2].srv", ResourceList: hostapi.Resources{"ncpus": "1", "mem": "64mb"}}
	call := func(req *hostapi.Request) *hostapi.Outcome {
		t.Helper()
		out, err := h.Call(t.Context(), req)
		if err != nil || out.Reject {
			t.Fatalf("%s: %+v, %v", req.Event, out, err)
		}
		if out.State != nil {
			job.State = out.State
		}
		return out
	}
	call(&hostapi.Request{Event: hostapi.EventStartup, Node: testNode})
	call(&hostapi.Request{Event: hostapi.EventBegin, Node: testNode, Job: job})
	startActor(t, func(pid int) {
		call(&hostapi.Request{Event: hostapi.EventLaunch, Node: testNode, Job: job, PID: pid})
	}, "sleep")
	list := map[string]*hostapi.Job{job.ID: job}
	update := call(&hostapi.Request{Event: hostapi.EventPeriodic, Node: testNode, JobList: list}).Jobs[job.ID]
	if update == nil || update.Usage.CPUTSeconds == nil {
		t.Errorf("periodic: %+v", update)
	}
	usage := call(&hostapi.Request{Event: hostapi.EventEpilogue, Node: testNode, Job: job}).Usage
	if usage.Kill.Stragglers != 1 {
		t.Errorf("epilogue: %+v", usage)
	}
	call(&hostapi.Request{Event: hostapi.EventEnd, Node: testNode, Job: job})
	n.want()
	out, err := h.Call(t.Context(), &hostapi.Request{Event: hostapi.EventBegin, Node: testNode,
		Job: &hostapi.Job{ID: "2.srv", ResourceList: hostapi.Resources{"ncpus": "100000"}}})
	kind, why := refusal(out, err)
	if kind != kindHeld || !strings.HasPrefix(why, "ncpus requested (100000) exceeds ncpus available (") {
		t.Errorf("too much: %q of kind %q", why, kind)
	}
}
