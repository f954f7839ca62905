package host

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// stopperUID is nobody's but this test's: what it stops, and what is stopped, are its own.
const stopperUID = 61_234_567

// A user who stops a process between its setuid(2) and its execve(2) has the thread that forked it
// wait in vfork(2), and with it each thread that forks. That ends by itself.
func TestProcessThatIsStoppedBeforeItsExecHoldsUpNobody(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to become somebody else")
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	// Each is two system calls of the process before its execve(2): a wide gap to be stopped in.
	gap := slices.Repeat([]*os.File{null}, 1000)
	attr := func() *syscall.SysProcAttr {
		return &syscall.SysProcAttr{Setsid: true, Credential: &syscall.Credential{Uid: stopperUID, Gid: stopperUID}}
	}
	stopper := exec.Command("/bin/sh", "-c", "while kill -STOP -1 || :; do :; done 2>/dev/null")
	stopper.SysProcAttr = attr()
	if err := stopper.Start(); err != nil {
		t.Fatal(err)
	}
	defer stopper.Wait()
	defer stopper.Process.Kill()
	s := newSpawner()
	defer s.close()
	held := 0
	for until := time.Now().Add(time.Minute); time.Now().Before(until) && held == 0; {
		cmd := exec.Command("/bin/true")
		cmd.SysProcAttr, cmd.ExtraFiles = attr(), gap
		began := time.Now()
		started := make(chan error)
		go func() { started <- s.do(cmd.Start) }()
		select {
		case err = <-started:
		case <-time.After(time.Minute):
			t.Error("a process that was stopped before its execve holds up whoever starts another")
			for _, pid := range children(t) {
				if n, err := strconv.Atoi(pid); err == nil && n != stopper.Process.Pid {
					syscall.Kill(n, syscall.SIGKILL)
				}
			}
			err = <-started
		}
		if err != nil {
			t.Fatal(err)
		}
		if time.Since(began) >= birthLimit {
			held++
		}
		cmd.Process.Kill()
		cmd.Wait()
	}
	if held == 0 {
		t.Error("none was stopped before its execve")
	}
}
