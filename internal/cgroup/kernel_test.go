package cgroup

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/proc/proctest"
)

// TestMain turns the test program into a job's process if it was started as one. It fails when
// tests leave directories or goroutines behind.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == actorArg {
		act()
		return
	}
	os.Exit(kernfstest.Run(m, testPrefix()))
}

func testPrefix() string { return fmt.Sprintf("hhtest_cgroup_%d", os.Getpid()) }

func TestContractKernel(t *testing.T)   { contract(t, needKernel(t, 0)) }
func TestContractKernelV1(t *testing.T) { contract(t, needKernel(t, ModeV1)) }

// TestContractKernelV2 has no controllers on a hybrid machine, where it tests what needs none.
func TestContractKernelV2(t *testing.T) { contract(t, needKernel(t, ModeV2)) }

// kernel is the running kernel, used as root.
type kernel struct {
	roots kernfs.Roots
	mode  Mode
}

func needKernel(t testing.TB, mode Mode) kernel {
	t.Helper()
	kernfstest.NeedRoot(t)
	switch mode {
	case ModeV1:
		kernfstest.NeedV1(t, "cpu")
	case ModeV2:
		kernfstest.NeedV2(t)
	}
	roots, err := kernfs.OpenRoots()
	if err != nil {
		kernfstest.Skip(t, "open roots: %v", err)
	}
	if _, err := Detect(roots, Options{Mode: mode}); err != nil {
		kernfstest.Skip(t, "%v", err)
	}
	return kernel{roots, mode}
}

var trees atomic.Int64

func (w kernel) tree(t *testing.T, controllers ...string) *Tree { return w.newTree(t, controllers...) }

func (w kernel) newTree(t testing.TB, controllers ...string) *Tree {
	t.Helper()
	return w.openTree(t, fmt.Sprintf("%s_%d", testPrefix(), trees.Add(1)), controllers...)
}

func (w kernel) openTree(t testing.TB, prefix string, controllers ...string) *Tree {
	t.Helper()
	tree, err := Detect(w.roots, Options{Prefix: prefix, Mode: w.mode, Controllers: controllers})
	must.NoError(t, err)
	t.Cleanup(func() {
		for _, h := range tree.hierarchies {
			for _, name := range []string{h.unit + "/" + h.leaf, h.unit} {
				if err := h.mount.Rmdir(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
					t.Error(err)
				}
			}
		}
	})
	must.NoError(t, tree.Prepare())
	return tree
}

func (w kernel) start(t *testing.T, join Join) process { return startActor(t, join) }

// disk returns a whole disk, not a partition.
func (w kernel) disk(t *testing.T) (major, minor uint32, ok bool) {
	for _, name := range []string{"vd*", "sd*", "nvme*n*", "loop*"} {
		found, _ := filepath.Glob("/sys/block/" + name + "/dev")
		for _, file := range found {
			b, err := os.ReadFile(file)
			if n, _ := fmt.Sscanf(string(b), "%d:%d", &major, &minor); err == nil && n == 2 {
				return major, minor, true
			}
		}
	}
	return 0, 0, false
}

// actor is this test program, started again to obey commands on its standard input.
type actor struct{ *proctest.Process }

const actorArg = "-cgroup-test-actor"

func startActor(t testing.TB, join Join) *actor {
	t.Helper()
	spec := &exec.Cmd{Args: []string{"actor", actorArg}}
	a := &actor{proctest.Start(t, spec, func(pid int) { join.enter(t, pid) })}
	a.ask(t, "hello")
	return a
}

// ask makes the actor do something and returns its answer, or "" if that killed it.
func (a *actor) ask(t testing.TB, command string) string {
	t.Helper()
	if _, err := fmt.Fprintln(a.In, command); err != nil && !errors.Is(err, unix.EPIPE) {
		t.Fatal(err)
	}
	answer, _ := a.Out.ReadString('\n')
	return strings.TrimSpace(answer)
}

func (a *actor) pid() int { return a.PID }

func (a *actor) burn(t *testing.T, d time.Duration) {
	t.Helper()
	if a.ask(t, "burn "+d.String()) == "" {
		t.Errorf("process %d has ended", a.pid())
	}
}

func (a *actor) touch(t *testing.T, n int64) { a.ask(t, fmt.Sprintf("touch %d", n)) }

func (a *actor) cache(t *testing.T, n int64) { a.ask(t, "read "+coldFile(t, int(n))) }

func (a *actor) huge(t *testing.T, n int64) bool {
	return a.ask(t, fmt.Sprintf("huge %d", n)) == "ok"
}

func (a *actor) fork(t *testing.T, n int) []int {
	t.Helper()
	var pids []int
	for _, s := range strings.Fields(a.ask(t, fmt.Sprintf("fork %d", n))) {
		pid, err := strconv.Atoi(s)
		must.NoError(t, err)
		pids = append(pids, pid)
		t.Cleanup(func() { endOrphan(t, pid) })
	}
	if len(pids) != n {
		t.Fatalf("%d processes of %d", len(pids), n)
	}
	return pids
}

// endOrphan kills a process that outlived its parent, unless the pid has been reused.
func endOrphan(t testing.TB, pid int) {
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err == nil && strings.TrimSpace(string(comm)) == "sleep" {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			t.Error(err)
		}
	}
}

func (a *actor) end(*testing.T) { a.In.Close() }

func (a *actor) gone(t *testing.T) {
	t.Helper()
	if _, err := a.Wait(soon(t)); err != nil {
		t.Error(err)
	}
}

// act is the actor's part.
func act() {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		command, arg, _ := strings.Cut(lines.Text(), " ")
		answer := "ok"
		switch command {
		case "burn":
			d, _ := time.ParseDuration(arg)
			burnCPU(d)
		case "touch":
			n, _ := strconv.Atoi(arg)
			b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			for i := 0; i < n; i += os.Getpagesize() {
				b[i] = 1
			}
		case "look": // uses page tables, but no pages
			n, _ := strconv.Atoi(arg)
			b, err := unix.Mmap(-1, 0, n, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
			if err == nil {
				err = unix.Madvise(b, unix.MADV_NOHUGEPAGE)
			}
			if err != nil {
				answer = err.Error()
				break
			}
			sum := 0
			for i := 0; i < n; i += 2 << 20 {
				sum += int(b[i])
			}
			if sum != 0 {
				answer = "not zero"
			}
		case "huge":
			n, _ := strconv.Atoi(arg)
			b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE,
				unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_HUGETLB|21<<unix.MAP_HUGE_SHIFT)
			if err != nil {
				answer = err.Error()
				break
			}
			for i := 0; i < n; i += 2 << 20 {
				b[i] = 1
			}
		case "read":
			if err := readFile(arg); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		case "fork":
			n, _ := strconv.Atoi(arg)
			answer = strings.Join(forkSleepers(n), " ")
		case "bomb":
			go func() {
				for {
					forkSleepers(1) // it fails at pids.max and continues
				}
			}()
		case "threads":
			go func() {
				for ended := make(chan struct{}); ; <-ended {
					go func() {
						runtime.LockOSThread() // without Unlock the thread ends, too
						ended <- struct{}{}
					}()
				}
			}()
		}
		fmt.Println(answer)
	}
}

// burnCPU uses cpu time, however long that takes.
func burnCPU(d time.Duration) {
	used := func() time.Duration {
		var r unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
			return d
		}
		return time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	for until := used() + d; used() < until; {
	}
}

const readBuffer = 1 << 20

func readFile(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	for b := make([]byte, readBuffer); ; {
		if _, err := f.Read(b); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// forkSleepers starts processes that leave the session, as daemons do.
func forkSleepers(n int) []string {
	var pids []string
	for range n {
		null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		if err != nil {
			break
		}
		p, err := os.StartProcess("/bin/sleep", []string{"sleep", "1000"},
			&os.ProcAttr{Files: []*os.File{null, null, null}, Sys: &unix.SysProcAttr{Setsid: true}})
		null.Close()
		if err != nil {
			break
		}
		pids = append(pids, strconv.Itoa(p.Pid))
	}
	return pids
}
