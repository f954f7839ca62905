package main_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// inNamespace is set where the test runs once more, as the first process of a pid namespace; to
// what tells its cgroups from others' there.
const inNamespace = "HOOKHOST_TEST_NAMESPACE"

// A job's owner attaches a process, kills and reaps it meanwhile, and has another one of the job
// born with its number, whose parent is the first process by then. Here the moment is a matter of
// luck; hooks/cgroup has the same test with the worst moment each time.
func TestReusedNumberIsNoWayOutOfAJob(t *testing.T) {
	if os.Getenv(inNamespace) == "" {
		newNode(t) // which knows whether we are root
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), inNamespace+"=_"+strconv.Itoa(os.Getpid()), "HOOKHOST_TEST_BIN="+built)
		runtime.LockOSThread() // the signal comes when the thread ends that has started the process
		defer runtime.UnlockOSThread()
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL}
		out, err := cmd.CombinedOutput()
		if t.Logf("%s", out); err != nil {
			t.Error(err)
		}
		return
	}
	must(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount("proc", "/proc", "proc", 0, ""))
	n := newNode(t, "systemd = \"off\"\n[cpuset]\nenabled = false\n") // it has no process in this namespace
	n.serve()
	const job = "7.node"
	n.beginFor(t, job)
	attach := func(args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(built, "hookhost"), append([]string{"attach", "-j", job}, args...)...)
		cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/bin:/bin", "HOOKHOST_SOCKET=" + n.path("run/s")}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ownerUID, Gid: ownerUID}}
		return cmd
	}
	outside := exec.Command("sh")
	outside.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ownerUID, Gid: ownerUID}}
	shells := []*orphanage{startOrphanage(t, attach("--", "sh")), startOrphanage(t, outside)}
	tries, given := 0, 0
	for end := time.Now().Add(4 * time.Second); time.Now().Before(end) && !t.Failed(); tries++ {
		first := shells[tries%2].fork(t, 0)
		asks := attach("-p", strconv.Itoa(first))
		must(t, asks.Start())
		time.Sleep(time.Duration(rand.N(8000)) * time.Microsecond)
		bury(t, first)
		heir := shells[0].fork(t, first)
		asks.Wait()
		if heir == first {
			given++
		}
		if at, inside := cgroupsOf(t, heir), cgroupsOf(t, shells[0].pid); at != inside {
			t.Errorf("try %d: process %d, whose number was %d's, is in\n%s\nand its job in\n%s", tries, heir, first, at, inside)
		}
		bury(t, heir)
	}
	t.Logf("%d tries, in %d of which the number was given away", tries, given)
}

// orphanage is a shell that starts processes of which the first process is the parent.
type orphanage struct {
	pid    int
	stdin  io.Writer
	stdout *bufio.Reader
}

func startOrphanage(t *testing.T, cmd *exec.Cmd) *orphanage {
	t.Helper()
	stdin, err := cmd.StdinPipe()
	must(t, err)
	stdout, err := cmd.StdoutPipe()
	must(t, err, cmd.Start())
	t.Cleanup(func() { stdin.Close(); cmd.Wait() })
	return &orphanage{cmd.Process.Pid, stdin, bufio.NewReader(stdout)}
}

// fork starts a process, with the number want unless that is 0 or somebody was faster.
func (o *orphanage) fork(t *testing.T, want int) int {
	t.Helper()
	if want > 0 { // the shell in between has the number before
		must(t, os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(want-2)), 0))
	}
	fmt.Fprintln(o.stdin, "(setsid sleep 1000 & echo $!)")
	line, err := o.stdout.ReadString('\n')
	pid, aerr := strconv.Atoi(strings.TrimSpace(line))
	must(t, errors.Join(err, aerr))
	for { // until the shell in between has ended, and it has a session of its own
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		must(t, err)
		fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')'):]))
		if fields[2] == strconv.Itoa(os.Getpid()) && fields[4] == strconv.Itoa(pid) {
			return pid
		}
		time.Sleep(100 * time.Microsecond)
	}
}

func cgroupsOf(t *testing.T, pid int) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	must(t, err)
	return string(b)
}

// bury kills and reaps an orphan.
func bury(t *testing.T, pid int) {
	t.Helper()
	must(t, unix.Kill(pid, unix.SIGKILL))
	_, err := unix.Wait4(pid, nil, 0, nil)
	must(t, err)
}
