package main_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// unreaped has a child in the pid namespace of a process, and never reaps it.
const unreaped = `
import ctypes, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
if libc.setns(os.open("/proc/%s/ns/pid" % sys.argv[1], os.O_RDONLY), 0x20000000):
    sys.exit(os.strerror(ctypes.get_errno()))
if os.fork() == 0:
    time.sleep(1000)
print("ready", flush=True)
sys.stdin.read()
`

// The first process of a pid namespace waits in its end for each process there to be reaped
// (zap_pid_ns_processes). The parent of one is outside of the job and does not do that. The job
// ends all the same, and leaves no cgroup.
func TestChildOutsideHoldsUpNoEndOfAPIDNamespace(t *testing.T) {
	must.BesideOthers(t)
	if limit, err := os.ReadFile("/proc/sys/user/max_user_namespaces"); err != nil || string(limit) == "0\n" {
		kernfstest.Elsewhere(t, "no user namespaces")
	}
	n := newNode(t, `kill_timeout = "50s"`)
	n.serve()
	run := n.command("run", "--job", "92.x", "-u", "nobody", "-l", "select=1:ncpus=1:mem=64mb", "-l", "kill_delay=1",
		"--", "unshare", "-Upf", "sleep", "1000")
	must.NoError(t, run.Start())
	first := 0
	must.Eventually(t, "the namespace has its first process", func() bool {
		for _, member := range n.members() {
			if pid, err := strconv.Atoi(member); err == nil && stat(pid).Comm == "sleep" {
				first = pid
			}
		}
		return first > 0
	})
	outside := exec.Command("/usr/bin/python3", "-c", unreaped, fmt.Sprint(first))
	outside.Stderr, outside.SysProcAttr = os.Stderr, &syscall.SysProcAttr{Setsid: true}
	in, err := outside.StdinPipe()
	must.NoError(t, err)
	out, err := outside.StdoutPipe()
	must.NoError(t, err, outside.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	must.Equal(t, line, "ready\n", line)
	must.NoError(t, err)
	began := time.Now()
	must.NoError(t, run.Process.Signal(syscall.SIGTERM))
	run.Wait()
	if took := time.Since(began); took > 40*time.Second { // of a kill_timeout of a minute
		t.Errorf("the job has ended after %v", took)
	}
	if state(first) == "" {
		t.Error("nothing has held the first process")
	}
	if left := n.jobDirs(); len(left) > 0 {
		t.Errorf("cgroups are left: %v", left)
	}
	if log, err := os.ReadFile(n.path("log")); err != nil || strings.Contains(string(log), "offline") {
		t.Errorf("the log: %v\n%s", err, log)
	}
	in.Close()
	outside.Wait()
	must.Eventually(t, "the first process has ended", func() bool { return state(first) == "" })
}
