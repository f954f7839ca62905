package host

import (
	"os"
	"os/exec"
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
	attr := func() *syscall.SysProcAttr {
		return &syscall.SysProcAttr{Setsid: true, Credential: &syscall.Credential{Uid: stopperUID, Gid: stopperUID}}
	}
	stopper := exec.Command("/bin/sh", "-c", "for i in $(seq 200000); do kill -STOP -1; done 2>/dev/null")
	stopper.SysProcAttr = attr()
	if err := stopper.Start(); err != nil {
		t.Fatal(err)
	}
	defer stopper.Wait()
	defer stopper.Process.Kill()
	s := newSpawner()
	defer s.close()
	held := 0
	for until := time.Now().Add(3 * time.Second); time.Now().Before(until) && held == 0; {
		cmd := exec.Command("/bin/true")
		cmd.SysProcAttr = attr()
		began := time.Now()
		if err := s.do(cmd.Start); err != nil {
			t.Fatal(err)
		}
		if time.Since(began) >= birthLimit {
			held++
		}
		cmd.Process.Kill()
		cmd.Wait()
	}
	t.Logf("held up %d times", held)
}
