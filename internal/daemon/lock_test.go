package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/must"
)

func TestLockIsRefusedWithTheHoldersPid(t *testing.T) {
	dir := t.TempDir()
	l, err := acquire(t.Context(), dir, "p", false)
	must.NoError(t, err)
	for _, untilIdle := range []bool{false, true} {
		_, err := acquire(t.Context(), dir, "p", untilIdle)
		if !errors.Is(err, errRunning) || !strings.HasSuffix(err.Error(), fmt.Sprintf("pid %d", os.Getpid())) {
			t.Errorf("until idle %t: %v", untilIdle, err)
		}
	}
	if other, err := acquire(t.Context(), dir, "q", false); err != nil || other.Release() != nil {
		t.Errorf("another prefix: %v", err)
	}
	must.NoError(t, l.Release())
	if l, err = acquire(t.Context(), dir, "p", true); err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	if pid, untilIdle := holder(lockPath(dir, "p")); pid != os.Getpid() || !untilIdle {
		t.Errorf("holder %d, until idle %t", pid, untilIdle)
	}
}

// A daemon that is killed while it starts a hook leaves a child that has the lock for a moment.
func TestLockOfAHolderThatWasKilledIsWaitedFor(t *testing.T) {
	dir := t.TempDir()
	l, err := acquire(t.Context(), dir, "p", false)
	must.NoError(t, err)
	child := exec.Command("sleep", "0.3")
	child.ExtraFiles = []*os.File{l.file}
	must.NoError(t, child.Start())
	dead := exec.Command("true")
	must.NoError(t, dead.Run())
	must.NoError(t, os.WriteFile(lockPath(dir, "p"), fmt.Appendln(nil, dead.Process.Pid), 0o600), l.Release())
	l, err = acquire(t.Context(), dir, "p", false)
	must.NoError(t, err, child.Wait(), l.Release())
}

// Many daemons start at once, with sockets of different names.
func TestDirectoryOfASocketHasOneDaemon(t *testing.T) {
	dir := t.TempDir()
	if api.HasServed(dir + "/s") {
		t.Error("a daemon has served before the first")
	}
	locks := make(chan *prefixLock, 20)
	var starts sync.WaitGroup
	for i := range cap(locks) {
		starts.Go(func() {
			o := Options{Paths: Paths{Socket: fmt.Sprintf("%s/s%d", dir, i)}}
			l, err := o.lockDir(t.Context())
			if err == nil {
				locks <- l
			} else if errors.Is(err, errRunning) || !strings.Contains(err.Error(), "one daemon a directory") {
				t.Error(err)
			}
		})
	}
	starts.Wait()
	if len(locks) != 1 {
		t.Fatalf("%d daemons in one directory", len(locks))
	}
	must.NoError(t, (<-locks).Release())
	if !api.HasServed(dir + "/s") {
		t.Error("a daemon that has gone is not remembered")
	}
}

func TestLockFileOfALinkIsRefused(t *testing.T) {
	dir := t.TempDir()
	must.NoError(t, os.Symlink("/nonexistent", lockPath(dir, "p")))
	if _, err := acquire(t.Context(), dir, "p", false); err == nil {
		t.Error("locked what a link points to")
	}
}

// acquire does not wait for ever for an owner that is to make room and does not stop.
func TestWaitForAnOwnerThatYieldsIsBounded(t *testing.T) {
	dir := t.TempDir()
	l, err := acquire(t.Context(), dir, "p", true)
	must.NoError(t, err)
	defer l.Release()
	if _, err := l.file.WriteAt([]byte("4999999 until-idle\n"), 0); err != nil { // beyond pid_max
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = acquire(ctx, dir, "p", false)
	if !errors.Is(err, errRunning) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

// An owner that was killed leaves its pid, which may be another process's by now.
func TestProcessThatHasAnOldOwnersPidIsNotStopped(t *testing.T) {
	dir := t.TempDir()
	l, err := acquire(t.Context(), dir, "p", true)
	must.NoError(t, err)
	defer l.Release()
	other := exec.Command("sleep", "60")
	must.NoError(t, other.Start())
	if _, err := l.file.WriteAt(fmt.Appendf(nil, "%d until-idle\n", other.Process.Pid), 0); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := acquire(ctx, dir, "p", false); !errors.Is(err, errRunning) {
		t.Errorf("%v", err)
	}
	other.Process.Kill()
	other.Wait()
	if s := other.ProcessState.Sys().(syscall.WaitStatus).Signal(); s != syscall.SIGKILL {
		t.Errorf("it got %v", s)
	}
}

func TestPrefixIsOwnedWhileItsOwnerLives(t *testing.T) {
	dir := t.TempDir()
	if owned(dir, "p") {
		t.Error("owned before there was an owner")
	}
	l, err := acquire(t.Context(), dir, "p", true)
	must.NoError(t, err)
	if !owned(dir, "p") || owned(dir, "q") {
		t.Errorf("p owned: %t, q owned: %t", owned(dir, "p"), owned(dir, "q"))
	}
	must.NoError(t, l.Release())
	if owned(dir, "p") { // this process has the last owner's pid
		t.Error("owned after its owner had gone")
	}
}
