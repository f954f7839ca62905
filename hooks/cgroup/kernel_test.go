package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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

// The kernel kills a process of a job that exceeds its memory, and the job is told which one. The
// kernel logs ten kills in five seconds, over all cgroups. If other tests have used these up, the
// job is told only that one was killed.
func TestKernelOOM(t *testing.T) {
	// The message has the pid in the first pid namespace, where the test may not be.
	named := regexp.MustCompile(`^Cgroup mem limit exceeded: Killed process \d+ \(exe\) total-vm:`)
	for range 6 {
		line := killedForMemory(t)
		if named.MatchString(line) {
			return
		}
		want := "Cgroup mem limit exceeded: the kernel killed 1 of the job's processes (limit 65536kb)"
		if line != want {
			t.Fatalf("stderr %q, want %s or %q", line, named, want)
		}
		time.Sleep(5 * time.Second)
	}
	t.Error("the kernel never said whom it killed")
}

// killedForMemory makes a job run out of memory and returns its lines on standard error.
func killedForMemory(t *testing.T) string {
	t.Helper()
	n := realNode(t, nil)
	n.kmsg = openKmsg
	n.do(hostapi.EventBegin, "1.srv")
	a := startActor(t, n.launches("1.srv"), "eat", fmt.Sprint(200*mib))
	a.stdin.Close()
	exit, err := a.child.Wait(t.Context())
	if err != nil || exit.Code() != 137 {
		t.Errorf("exit status %d, %v", exit.Code(), err)
	}
	out := n.do(hostapi.EventEpilogue, "1.srv")
	if out.Diag != "Cgroup mem limit exceeded" || len(out.JobStderr) != 1 {
		t.Fatalf("diag %q, stderr %q", out.Diag, out.JobStderr)
	}
	u, least := out.Usage, int64(60*mib)
	if !n.tree.Has("peak") { // without the kernel's peak only a sample can have seen it
		least = 0
	}
	if *u.OOMKills != 1 || *u.MemLimitBytes != 64*mib || *u.MemBytes < least || *u.MemBytes > 66*mib ||
		u.Kill.Signal != "none" {
		t.Errorf("usage %+v, mem %d", u, *u.MemBytes)
	}
	n.do(hostapi.EventEnd, "1.srv")
	n.want()
	return out.JobStderr[0]
}

// mem is what the job held, without the page cache of the files that it read.
func TestKernelPeak(t *testing.T) {
	n := realNode(t, nil)
	file := filepath.Join(t.TempDir(), "file")
	f, err := os.Create(file)
	must.NoError(t, err)
	defer f.Close()
	if err := unix.Fallocate(int(f.Fd()), 0, 0, 500*mib); err != nil {
		kernfstest.Skip(t, "allocate a file: %v", err)
	}
	n.do(hostapi.EventBegin, "1.srv", asks("ncpus=1", "mem=1gb"))
	a := startActor(t, n.launches("1.srv"), "hold", fmt.Sprint(50*mib), file)
	held := rssAnon(t, a.child.PID) // 50 MiB, and what the program itself needs, which is more under -race
	u := n.do(hostapi.EventEpilogue, "1.srv").Usage
	if mem := *u.MemBytes; held < 50*mib || mem < held-mib || mem > held+8*mib || u.MemSource != memSampled {
		t.Errorf("mem %d MiB, of which the process held %d; %s", mem/mib, held/mib, u.MemSource)
	}
	if peak := *u.CgroupPeakBytes; peak < 500*mib {
		t.Errorf("the cgroup's peak is %d MiB: the file is not in it", peak/mib)
	}
}

// rssAnon returns the private memory of a process, in bytes.
func rssAnon(t *testing.T, pid int) int64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must.NoError(t, err)
	_, text, _ := strings.Cut(string(b), "RssAnon:")
	var kb int64
	if _, err := fmt.Sscanf(text, "%d kB", &kb); err != nil {
		t.Fatal(err)
	}
	return kb << 10
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

// A hook that starts finds its jobs again, and removes cgroups that belong to no job, with their
// processes.
func TestKernelSweep(t *testing.T) {
	n := realNode(t, nil)
	for _, id := range []string{"1.srv", "2.srv"} {
		n.do(hostapi.EventBegin, id)
	}
	kept, lost := n.launch("1.srv"), n.launch("2.srv")
	n.retire("2.srv")
	delete(n.jobs, "2.srv")
	n.reboot()
	out := n.do(hostapi.EventStartup, "")
	if !slices.Equal(out.Notes, []string{"removed cgroup of unknown job 2.srv"}) {
		t.Errorf("notes %q", out.Notes)
	}
	n.want("1.srv")
	if !n.lives(kept) || n.lives(lost) {
		t.Errorf("the job's process lives: %v; the orphan's: %v", n.lives(kept), n.lives(lost))
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
