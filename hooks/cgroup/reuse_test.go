package main

import (
	"bufio"
	"bytes"
	"context"
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
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/proc"
)

var reuseTries = flag.Int("reuse.tries", 0, "how often TestReusedNumber... gives away a number; 0: for three seconds")

// inNamespace is set in the run of a test in a pid namespace of its own, to what its cgroups are
// named by.
const inNamespace = "HOOKHOST_TEST_NAMESPACE"

// A job's owner has a process attached, or makes it look like a rank of MPI. It is killed and
// reaped at the worst moment, and another one of a job is born with its number. No process leaves
// its job by that.
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
	if err := errors.Join(err, unix.Mount("proc", "/proc", "proc", 0, "")); err != nil {
		t.Fatal(err)
	}
	g := newGiveaway(t, mode)
	enough := func() bool { return g.tries >= *reuseTries }
	if began := time.Now(); *reuseTries == 0 { // a guest is slow
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

// runInNamespace runs the test once more, as the first process of a pid namespace: there it alone
// makes processes, and says by ns_last_pid which number is next.
func runInNamespace(t *testing.T) {
	runtime.LockOSThread() // the signal comes when the thread ends that has started the process
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

// giveaways are where the first process is, and where the one is that gets its number: in the job
// 1.srv, in 2.srv or, for "", in none. The first one is attached to 1.srv, or becomes a rank there.
var giveaways = []struct {
	first, heir string
	rank        bool
}{
	{"", "1.srv", false}, {"", "2.srv", false}, {"1.srv", "1.srv", false}, {"", "", false},
	{"1.srv", "1.srv", true}, {"1.srv", "2.srv", true}, {"1.srv", "", true},
}

// giveaway is a node with two jobs of one owner, on which numbers are given away.
type giveaway struct {
	t      *testing.T
	n      *node
	shells map[string]*shell // by job; "" in none

	differ []int  // the lines of /proc/PID/cgroup that are of jobs
	number string // of the first process while it lives, as it is written to cgroup.procs
	wait   int    // writes of it that pass before it is given away
	give   func()
	tries  int
	given  int // of them before a write
}

func newGiveaway(t *testing.T, mode cgroup.Mode) *giveaway {
	g := &giveaway{t: t, shells: map[string]*shell{}}
	g.n = realNodeBehind(t, mode, func(c *config.File) {
		perTask(c)
		if mode == cgroup.ModeV2 { // on a hybrid machine it has none
			for _, on := range []*bool{&c.Memory.Enabled, &c.Memsw.Enabled, &c.Cpuset.Enabled, &c.CPU.Enabled, &c.Pids.Enabled} {
				*on = false
			}
		}
	}, func(cgroups *kernfs.FS) kernfs.Backend { return writes{cgroups, g.written} })
	g.shells[""] = startShell(t, hostapi.Join{})
	for _, id := range []string{"1.srv", "2.srv"} {
		ncpus := "ncpus=1"
		if id == "2.srv" { // without a cpuset of its own
			ncpus = "ncpus=0"
		}
		g.n.do(hostapi.EventBegin, id, asks(ncpus, "mem=64mb"))
		g.shells[id] = startShell(t, *g.n.do(hostapi.EventLaunch, id).Join)
	}
	none, one := g.placesOf(g.shells[""].pid), g.placesOf(g.shells["1.srv"].pid)
	for i := range none {
		if none[i] != one[i] {
			g.differ = append(g.differ, i)
		}
	}
	return g
}

// placesOf are the lines of /proc/PID/cgroup.
func (g *giveaway) placesOf(pid int) []string {
	g.t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		g.t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

// try attaches a process that ends on the way.
func (g *giveaway) try(kind int) {
	where := giveaways[kind]
	first := g.shells[where.first].fork(g.t, 0, where.rank)
	g.tries++
	heir := 0
	g.number, g.wait = strconv.Itoa(first), g.tries/len(giveaways)%len(g.differ)
	g.give = func() {
		end(g.t, first)
		heir = g.shells[where.heir].fork(g.t, first, false)
	}
	if where.rank {
		g.n.report("1.srv")
	} else {
		g.n.do(hostapi.EventAttach, "1.srv", withPID(first))
	}
	switch {
	case g.number != "": // it was not written, or not so often
		g.number = ""
		g.give()
	case heir == first:
		g.given++
	}
	if outside := g.outside(heir); outside != 0 && (where.heir != "" || outside != len(g.differ)) {
		g.t.Errorf("try %d: process %d, once %d, began in job %q, and is outside by %d of %d hierarchies:\n%s",
			g.tries, heir, first, where.heir, outside, len(g.differ), strings.Join(g.placesOf(heir), "\n"))
	}
	end(g.t, heir)
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
	at, none := g.placesOf(pid), g.placesOf(g.shells[""].pid)
	for _, i := range g.differ {
		if at[i] == none[i] {
			n++
		}
	}
	return n
}

// writes is a cgroup file system that announces what is written to which cgroup.procs, before it
// is.
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

// shell starts orphans where it is.
type shell struct {
	pid    int
	stdin  *os.File
	stdout *bufio.Reader
}

func startShell(t *testing.T, join hostapi.Join) *shell {
	t.Helper()
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	child, err := proc.Start(&proc.Spec{Path: "/bin/sh", Args: []string{"sh"}, Env: os.Environ(),
		Stdin: inR, Stdout: outW, Stderr: os.Stderr}, join)
	inR.Close()
	outW.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		inW.Close()
		if _, err := child.Wait(context.Background()); err != nil {
			t.Error(err)
		}
		outR.Close()
	})
	return &shell{child.PID, inW, bufio.NewReader(outR)}
}

// fork starts a process that this one is the parent of, with the number want unless that is 0 or
// somebody was faster.
func (s *shell) fork(t *testing.T, want int, rank bool) int {
	t.Helper()
	if want > 0 { // the shell in between has the number before
		if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(want-2)), 0); err != nil {
			t.Fatal(err)
		}
	}
	label := ""
	if rank {
		label = "PMI_RANK=0 PMI_SIZE=1 "
	}
	fmt.Fprintln(s.stdin, "("+label+"setsid sleep 1000 & echo $!)")
	line, err := s.stdout.ReadString('\n')
	pid, aerr := strconv.Atoi(strings.TrimSpace(line))
	if err := errors.Join(err, aerr); err != nil {
		t.Fatal(err)
	}
	for { // until the shell in between has ended, and it has a session of its own
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')'):]))
		if fields[2] == strconv.Itoa(os.Getpid()) && fields[4] == strconv.Itoa(pid) {
			return pid
		}
		time.Sleep(100 * time.Microsecond)
	}
}

// end kills and reaps an orphan.
func end(t *testing.T, pid int) {
	t.Helper()
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.Wait4(pid, nil, 0, nil); err != nil {
		t.Fatal(err)
	}
}
