package main_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/must"
)

// beginFor begins a job of nobody's with room for many processes, which ends with the test.
func (n *node) beginFor(t testing.TB, job string) {
	t.Helper()
	n.open()
	n.sendOf(t, "execjob_begin", job)
	t.Cleanup(func() { n.sendOf(t, "execjob_end", job) })
}

// sendOf sends an event of a job of nobody's with room for many processes.
func (n *node) sendOf(t testing.TB, event, job string) {
	t.Helper()
	if r := n.eventOf(event, job, `"ncpus":1,"mem":"1500mb"`, ""); r.status != 0 {
		t.Errorf("%s: %+v", event, r)
	}
}

// attachAll starts a program in a job n times through pbs-attach, all of them as nobody and at one
// moment. Then it waits until each is what it is to become.
func (n *node) attachAll(t testing.TB, count int, job string, program ...string) (pids []int) {
	t.Helper()
	in, out, err := os.Pipe()
	must.NoError(t, err)
	defer in.Close()
	var failed atomic.Int32
	for range count {
		said := new(bytes.Buffer)
		cmd := exec.Command("sh",
			append([]string{"-c", `read x; exec "$@"`, "sh", filepath.Join(built, "pbs-attach"), "-j", job, "--"},
				program...)...)
		cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/bin:/bin", "HOOKHOST_SOCKET=" + n.path("run/s")}
		cmd.Stdin, cmd.Stderr = in, said
		cmd.SysProcAttr = sessionOf(ownerUID)
		must.NoError(t, cmd.Start())
		ended := make(chan struct{})
		go func() {
			cmd.Wait()
			if cmd.ProcessState.Sys().(syscall.WaitStatus).Exited() && failed.Add(1) == 1 {
				t.Errorf("%v: %s", cmd.ProcessState, said)
			}
			close(ended)
		}()
		t.Cleanup(func() { cmd.Process.Kill(); <-ended })
		pids = append(pids, cmd.Process.Pid)
	}
	out.Close()
	for _, pid := range pids {
		must.Eventually(t, fmt.Sprintf("process %d is %s", pid, program[0]), func() bool {
			b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
			return strings.TrimSpace(string(b)) == filepath.Base(program[0]) || failed.Load() > 0
		})
	}
	if failed.Load() > 0 {
		t.Fatalf("%d of %d have failed", failed.Load(), count)
	}
	return pids
}

// A launcher starts the ranks of a host at one time, each through an attach of its own.
func TestAttach200AtOnce(t *testing.T) {
	n := newNode(t)
	n.serve()
	const job, count = "7.node", 200
	n.beginFor(t, job)
	for _, pid := range n.attachAll(t, count, job, "sleep", "1000") {
		if !inJob(t, pid, job) {
			t.Errorf("process %d is not in the job", pid)
		}
	}
	for _, h := range decodeReport(t, n.hookhost("report", job, "--format=json").stdout).Hosts {
		if h.Attached != count {
			t.Errorf("the report says that %d were attached", h.Attached)
		}
	}
}

// A process may be named by the number of one of its threads, as writing to cgroup.procs takes it
// too.
func TestAttachByThread(t *testing.T) {
	n := newNode(t)
	n.serve()
	const job = "7.node"
	n.beginFor(t, job)
	cmd := exec.Command("/usr/bin/python3", "-c",
		"import threading, time\nt = threading.Thread(target=time.sleep, args=(1000,), "+
			"daemon=True)\nt.start()\nprint(t.native_id, flush=True)\ntime.sleep(1000)")
	cmd.Dir = "/"
	cmd.SysProcAttr = sessionOf(ownerUID)
	out, err := cmd.StdoutPipe()
	must.NoError(t, err)
	must.NoError(t, cmd.Start())
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	var thread int
	if _, err := fmt.Fscan(out, &thread); err != nil || thread == cmd.Process.Pid {
		t.Fatalf("thread %d of %d: %v", thread, cmd.Process.Pid, err)
	}
	if r := n.hookhost("attach", "-j", job, "-p", fmt.Sprint(thread)); r.status != 0 {
		t.Errorf("%+v", r)
	}
	if !inJob(t, cmd.Process.Pid, job) {
		t.Error("the process is not in the job")
	}
}

// While the daemon is restarted, as for an upgrade, attaches wait for it.
func TestAttachWaitsForARestart(t *testing.T) {
	n := newNode(t)
	d := n.serve()
	const job, count = "7.node", 10
	n.sendOf(t, "execjob_begin", job)
	var pids []int
	for range count {
		cmd := exec.Command("sleep", "1000")
		cmd.SysProcAttr = sessionOf(ownerUID)
		must.NoError(t, cmd.Start())
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		pids = append(pids, cmd.Process.Pid)
	}
	d.stop()
	var attaches []*exec.Cmd
	for _, pid := range pids {
		cmd := n.command("attach", "-j", job, "-p", fmt.Sprint(pid))
		must.NoError(t, cmd.Start())
		attaches = append(attaches, cmd)
	}
	time.Sleep(200 * time.Millisecond) // time to give up too early
	n.serve()
	for i, cmd := range attaches {
		if err := cmd.Wait(); err != nil || !inJob(t, pids[i], job) {
			t.Errorf("process %d is not in the job: %v", pids[i], err)
		}
	}
	n.sendOf(t, "execjob_end", job) // before this daemon ends
}
