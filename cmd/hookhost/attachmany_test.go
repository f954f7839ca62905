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
)

// beginFor begins a job of nobody's with room for many processes, which ends with the test.
func (n *node) beginFor(t testing.TB, job string) {
	t.Helper()
	for _, dir := range []string{built, n.dir} {
		if err := os.Chmod(dir, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	event := func(name string) {
		cmd := n.command("event", name)
		cmd.Stdin = strings.NewReader(fmt.Sprintf(`{"event":%q,"job":{"id":%q,"owner":{"user":"nobody","uid":%d,"gid":%d},"resource_list":{"ncpus":1,"mem":"1500mb"}}}`,
			name, job, ownerUID, ownerUID))
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", name, err, text)
		}
	}
	event("execjob_begin")
	t.Cleanup(func() { event("execjob_end") })
}

// attachAll starts a program in a job n times through `hookhost attach`, all of them as nobody and at one moment, and waits until each is
// what it is to become.
func (n *node) attachAll(t testing.TB, count int, job string, program ...string) (pids []int) {
	t.Helper()
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	var failed atomic.Int32
	for range count {
		said := new(bytes.Buffer)
		cmd := exec.Command("sh", append([]string{"-c", `read x; exec "$@"`, "sh", filepath.Join(built, "hookhost"), "attach", "-j", job, "--"}, program...)...)
		cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/bin:/bin", "HOOKHOST_SOCKET=" + n.path("run/s")}
		cmd.Stdin, cmd.Stderr = in, said
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: &syscall.Credential{Uid: ownerUID, Gid: ownerUID}}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
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
		eventually(t, fmt.Sprintf("process %d is %s", pid, program[0]), func() bool {
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

// What makes an attach quick is that it is over before what it does not need is initialised. An import too many ends that in silence.
func TestAttachInitialisesLittle(t *testing.T) {
	n := newNode(t)
	n.serve()
	const job = "7.node"
	n.beginFor(t, job)
	cmd := n.command("attach", "-j", job, "--", "true")
	cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/bin:/bin", "HOOKHOST_SOCKET=" + n.path("run/s"), "GODEBUG=inittrace=1"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: &syscall.Credential{Uid: ownerUID, Gid: ownerUID}}
	r := n.finish(cmd)
	if r.status != 0 || !strings.Contains(r.stderr, "init syscall ") {
		t.Fatalf("status %d, %s", r.status, r.stderr)
	}
	for _, late := range []string{"init os ", "init encoding/json ", "init net/http ", "init google.golang.org/protobuf/", "init main "} {
		if strings.Contains(r.stderr, late) {
			t.Errorf("%s: %s", late, r.stderr)
		}
	}
}
