package main_test

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/proc/proctest"
)

// inNamespace is set where the test runs once more, as the first process of a pid namespace; to
// what tells its cgroups from others' there.
const inNamespace = "HOOKHOST_TEST_NAMESPACE"

// A job's owner attaches a process, kills and reaps it meanwhile, and has another one of the job
// born with its number. The parent of that is the first process by then. Here the moment is a
// matter of luck; hooks/cgroup has the same test with the worst moment each time.
func TestReusedNumberIsNoWayOutOfAJob(t *testing.T) {
	if os.Getenv(inNamespace) == "" {
		newNode(t) // which knows whether we are root
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), inNamespace+"=_"+strconv.Itoa(os.Getpid()), "HOOKHOST_TEST_BIN="+built)
		runtime.LockOSThread() // the signal comes when the thread ends that has started the process
		defer runtime.UnlockOSThread()
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS,
			Pdeathsig: unix.SIGKILL}
		out, err := cmd.CombinedOutput()
		if t.Logf("%s", out); err != nil {
			t.Error(err)
		}
		return
	}
	must.NoError(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("proc", "/proc", "proc", 0, ""))
	n := newNode(t, "systemd = \"off\"\n[cpuset]\nenabled = false\n") // it has no process in this namespace
	n.serve()
	const job = "7.node"
	n.beginFor(t, job)
	attach := func(args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(built, "hookhost"), append([]string{"attach", "-j", job}, args...)...)
		cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/bin:/bin", "HOOKHOST_SOCKET=" + n.path("run/s")}
		cmd.SysProcAttr = userOf(ownerUID)
		return cmd
	}
	outside := exec.Command("sh")
	outside.SysProcAttr = userOf(ownerUID)
	shells := []*proctest.Shell{startShell(t, attach("--", "sh")), startShell(t, outside)}
	tries, given := 0, 0
	for end := time.Now().Add(4 * time.Second); time.Now().Before(end) && !t.Failed(); tries++ {
		first := shells[tries%2].Orphan(t, 0)
		asks := attach("-p", strconv.Itoa(first))
		must.NoError(t, asks.Start())
		time.Sleep(time.Duration(rand.N(8000)) * time.Microsecond)
		proctest.Bury(t, first)
		heir := shells[0].Orphan(t, first)
		asks.Wait()
		if heir == first {
			given++
		}
		if at, inside := cgroupsOf(t, heir), cgroupsOf(t, shells[0].PID); at != inside {
			t.Errorf("try %d: process %d, whose number was %d's, is in\n%s\nand its job in\n%s", tries, heir, first, at,
				inside)
		}
		proctest.Bury(t, heir)
	}
	t.Logf("%d tries, in %d of which the number was given away", tries, given)
}

// startShell starts a shell that makes orphans.
func startShell(t *testing.T, cmd *exec.Cmd) *proctest.Shell {
	t.Helper()
	stdin, err := cmd.StdinPipe()
	must.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	must.NoError(t, err, cmd.Start())
	t.Cleanup(func() { stdin.Close(); cmd.Wait() })
	return &proctest.Shell{PID: cmd.Process.Pid, In: stdin, Out: bufio.NewReader(stdout)}
}

func cgroupsOf(t *testing.T, pid int) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	must.NoError(t, err)
	return string(b)
}
