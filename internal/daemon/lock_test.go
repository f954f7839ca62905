package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestLockIsRefusedWithTheHoldersPid(t *testing.T) {
	dir := t.TempDir()
	l, err := Acquire(t.Context(), dir, "p", false)
	if err != nil {
		t.Fatal(err)
	}
	for _, untilIdle := range []bool{false, true} {
		_, err := Acquire(t.Context(), dir, "p", untilIdle)
		if !errors.Is(err, ErrRunning) || !strings.HasSuffix(err.Error(), fmt.Sprintf("pid %d", os.Getpid())) {
			t.Errorf("until idle %t: %v", untilIdle, err)
		}
	}
	if other, err := Acquire(t.Context(), dir, "q", false); err != nil || other.Release() != nil {
		t.Errorf("another prefix: %v", err)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	if l, err = Acquire(t.Context(), dir, "p", true); err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	if pid, untilIdle := Holder(dir, "p"); pid != os.Getpid() || !untilIdle {
		t.Errorf("holder %d, until idle %t", pid, untilIdle)
	}
}

func TestLockFileOfALinkIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("/nonexistent", lockPath(dir, "p")); err != nil {
		t.Fatal(err)
	}
	if _, err := Acquire(t.Context(), dir, "p", false); err == nil {
		t.Error("locked what a link points to")
	}
}

// Acquire does not wait for ever for an owner that is to make room and does not stop.
func TestWaitForAnOwnerThatYieldsIsBounded(t *testing.T) {
	dir := t.TempDir()
	l, err := Acquire(t.Context(), dir, "p", true)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	if _, err := l.file.WriteAt([]byte("4999999 until-idle\n"), 0); err != nil { // beyond pid_max
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = Acquire(ctx, dir, "p", false)
	if !errors.Is(err, ErrRunning) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

// An owner that was killed leaves its pid, which may be another process's by now.
func TestProcessThatHasAnOldOwnersPidIsNotStopped(t *testing.T) {
	dir := t.TempDir()
	l, err := Acquire(t.Context(), dir, "p", true)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	other := exec.Command("sleep", "60")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.file.WriteAt(fmt.Appendf(nil, "%d until-idle\n", other.Process.Pid), 0); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Acquire(ctx, dir, "p", false); !errors.Is(err, ErrRunning) {
		t.Errorf("%v", err)
	}
	other.Process.Kill()
	other.Wait()
	if s := other.ProcessState.Sys().(syscall.WaitStatus).Signal(); s != syscall.SIGKILL {
		t.Errorf("it got %v", s)
	}
}
