package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/proc/proctest"
)

var reuseTries = flag.Int("reuse.tries", 0, "how often TestReusedNumber... gives away a number; 0: for three seconds")

// inNamespace is set when a test runs in a separate pid namespace. Its value is part of the names
// of the cgroups.
const inNamespace = "HOOKHOST_TEST_NAMESPACE"

// A job's owner has a process attached, or makes it look like an MPI rank. At the worst moment the
// process is killed and reaped, and a new process of some job gets its pid. No process leaves its
// job because of that.
func TestReusedNumberLeavesNoProcessOutsideOfItsJob(t *testing.T)   { testReuse(t, 0) }
func TestReusedNumberLeavesNoProcessOutsideOfItsJobV1(t *testing.T) { testReuse(t, cgroup.ModeV1) }
func TestReusedNumberLeavesNoProcessOutsideOfItsJobV2(t *testing.T) { testReuse(t, cgroup.ModeV2) }

func testReuse(t *testing.T, mode cgroup.Mode) {
	kernfstest.NeedRoot(t)
	switch mode {
	case cgroup.ModeV1:
		kernfstest.NeedV1(t, "cpu")
	case cgroup.ModeV2:
		kernfstest.NeedV2(t)
	}
	if os.Getenv(inNamespace) == "" {
		runInNamespace(t)
		return
	}
	err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	must.NoError(t, errors.Join(err, unix.Mount("proc", "/proc", "proc", 0, "")))
	makeThreads(64)
	g := newGiveaway(t, mode)
	enough := func() bool { return g.tries >= *reuseTries }
	if began := time.Now(); *reuseTries == 0 { // a virtual machine is slow
		enough = func() bool { return g.tries >= 2*len(giveaways) && time.Since(began) > 3*time.Second }
	}
	for !enough() && !t.Failed() {
		g.try(g.tries % len(giveaways))
	}
	for _, id := range []string{"1.srv", "2.srv"} {
		g.n.do(hostapi.EventEpilogue, id)
		g.n.do(hostapi.EventEnd, id)
	}
	g.n.want()
	t.Logf("%d tries; the number was given away at a move in %d", g.tries, g.given)
	if g.given < g.tries/3 {
		t.Errorf("the number was given away at a move in %d of %d tries only", g.given, g.tries)
	}
}

// makeThreads lets the Go runtime create threads, which then wait for work. A thread that it
// created later could get the number that a process has given away, and the move would take this
// process.
func makeThreads(n int) {
	var created sync.WaitGroup
	created.Add(n)
	enough := make(chan struct{})
	for range n {
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			created.Done()
			<-enough
		}()
	}
	created.Wait()
	close(enough)
}

// runInNamespace runs the test once more, as the first process of a pid namespace. Only the test
// creates processes there, and it uses ns_last_pid to choose the next pid.
func runInNamespace(t *testing.T) {
	runtime.LockOSThread() // Pdeathsig is sent when the thread ends that started the process
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v",
		fmt.Sprint("-reuse.tries=", *reuseTries))
	cmd.Env = append(os.Environ(), inNamespace+"="+strconv.Itoa(os.Getpid()))
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL}
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}

// giveaways are the jobs of the first process and of the one that gets its pid: 1.srv, 2.srv or ""
// for none. The first process is attached to 1.srv, or becomes a rank there.
var giveaways = []struct {
	first, heir string
	rank        bool
}{
	{"", "1.srv", false}, {"", "2.srv", false}, {"1.srv", "1.srv", false}, {"", "", false},
	{"1.srv", "1.srv", true}, {"1.srv", "2.srv", true}, {"1.srv", "", true},
}

// giveaway is a node with two jobs of one owner, on which pids are reused.
type giveaway struct {
	t      *testing.T
	n      *node
	shells map[string]*proctest.Shell // by job; "" for the one in no job

	differ []int  // the lines of /proc/PID/cgroup that differ for a process in a job
	number string // pid of the first process as written to cgroup.procs; "" once it has been reused
	wait   int    // how many writes of the pid to let pass before it is reused
	give   func()
	tries  int
	given  int // how often the pid was reused before a write
}

func newGiveaway(t *testing.T, mode cgroup.Mode) *giveaway {
	g := &giveaway{t: t, shells: map[string]*proctest.Shell{}}
	g.n = realNodeBehind(t, mode, func(c *config.File) {
		perTask(c)
		if mode == cgroup.ModeV2 { // on a hybrid machine the v2 tree has none
			c.Memory.Enabled, c.Memsw.Enabled, c.Cpuset.Enabled = false, false, false
			c.CPU.Enabled, c.Pids.Enabled = false, false
		}
	}, func(cgroups *kernfs.FS) kernfs.Backend { return writes{cgroups, g.written} })
	g.shells[""] = startShell(t, nil)
	for _, id := range []string{"1.srv", "2.srv"} {
		ncpus := "ncpus=1"
		if id == "2.srv" { // a job without a cpuset
			ncpus = "ncpus=0"
		}
		g.n.do(hostapi.EventBegin, id, asks(ncpus, "mem=64mb"))
		g.shells[id] = startShell(t, g.n.launches(id))
	}
	none, one := g.placesOf(g.shells[""].PID), g.placesOf(g.shells["1.srv"].PID)
	for i := range none {
		if none[i] != one[i] {
			g.differ = append(g.differ, i)
		}
	}
	return g
}

// placesOf returns the lines of /proc/PID/cgroup.
func (g *giveaway) placesOf(pid int) []string {
	g.t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	must.NoError(g.t, err)
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

// try attaches a process that ends during the attach.
func (g *giveaway) try(kind int) {
	where := giveaways[kind]
	var variables []string
	if where.rank {
		variables = []string{"PMI_RANK=0", "PMI_SIZE=1"}
	}
	first := g.shells[where.first].Orphan(g.t, 0, variables...)
	g.tries++
	heir := 0
	g.number, g.wait = strconv.Itoa(first), g.tries/len(giveaways)%len(g.differ)
	g.give = func() {
		proctest.Bury(g.t, first)
		heir = g.shells[where.heir].Orphan(g.t, first)
	}
	if where.rank {
		g.n.report("1.srv")
	} else {
		g.n.do(hostapi.EventAttach, "1.srv", withPID(first))
	}
	switch {
	case g.number != "": // it was not written, or not often enough
		g.number = ""
		g.give()
	case heir == first:
		g.given++
	}
	if outside := g.outside(heir); outside != 0 && (where.heir != "" || outside != len(g.differ)) {
		g.t.Errorf("try %d: process %d, once %d, began in job %q, and is outside by %d of %d hierarchies:\n%s",
			g.tries, heir, first, where.heir, outside, len(g.differ), strings.Join(g.placesOf(heir), "\n"))
	}
	proctest.Bury(g.t, heir)
}

// written is called before a value is written to a cgroup.procs.
func (g *giveaway) written(_, value string) {
	if value != g.number {
		return
	}
	if g.wait--; g.wait < 0 {
		g.number = ""
		g.give()
	}
}

// outside counts the hierarchies in which a process is in no job.
func (g *giveaway) outside(pid int) (n int) {
	at, none := g.placesOf(pid), g.placesOf(g.shells[""].PID)
	for _, i := range g.differ {
		if at[i] == none[i] {
			n++
		}
	}
	return n
}

// writes is a cgroup file system that calls back before each write to a cgroup.procs, with its
// directory and the value.
type writes struct {
	*kernfs.FS
	announce func(name, value string)
}

func (w writes) OpenFile(name string, flag int) (kernfs.File, error) {
	file, err := w.FS.OpenFile(name, flag)
	if err == nil && flag == os.O_WRONLY && path.Base(name) == "cgroup.procs" {
		return announcedFile{file, name, w.announce}, nil
	}
	return file, err
}

func (w writes) Mkdir(name string, _ fs.FileMode) error { return w.FS.Mkdir(name) }

type announcedFile struct {
	kernfs.File
	name     string
	announce func(name, value string)
}

func (f announcedFile) Write(b []byte) (int, error) {
	f.announce(f.name, string(b))
	return f.File.Write(b)
}

// startShell starts a shell that creates orphans, in a job or outside.
func startShell(t *testing.T, enter func(pid int)) *proctest.Shell {
	t.Helper()
	p := proctest.Start(t, &exec.Cmd{Path: "/bin/sh", Args: []string{"sh"}, Env: os.Environ()}, enter)
	return &proctest.Shell{PID: p.PID, In: p.In, Out: p.Out}
}
