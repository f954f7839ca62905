package daemon

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/must"
)

func TestLockIsRefusedWithTheHoldersPid(t *testing.T) {
	dir := t.TempDir()
	l, err := acquire(dir, "p")
	must.NoError(t, err)
	_, err = acquire(dir, "p")
	if !errors.Is(err, errRunning) || !strings.HasSuffix(err.Error(), fmt.Sprintf("pid %d", os.Getpid())) {
		t.Error(err)
	}
	if other, err := acquire(dir, "q"); err != nil || other.Release() != nil {
		t.Errorf("another prefix: %v", err)
	}
	must.NoError(t, l.Release())
	if l, err = acquire(dir, "p"); err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	if pid := holder(lockPath(dir, "p")); pid != os.Getpid() {
		t.Errorf("holder %d", pid)
	}
}

// A daemon that is killed while it starts a hook leaves a child that has the lock for a moment.
func TestLockOfAHolderThatWasKilledIsWaitedFor(t *testing.T) {
	dir := t.TempDir()
	l, err := acquire(dir, "p")
	must.NoError(t, err)
	child := exec.Command("sleep", "0.3")
	child.ExtraFiles = []*os.File{l.file}
	must.NoError(t, child.Start())
	dead := exec.Command("true")
	must.NoError(t, dead.Run())
	must.NoError(t, os.WriteFile(lockPath(dir, "p"), fmt.Appendln(nil, dead.Process.Pid), 0o600), l.Release())
	l, err = acquire(dir, "p")
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
			l, err := o.lockDir()
			if err == nil {
				locks <- l
			} else if !strings.Contains(err.Error(), "one daemon a directory") {
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
	if _, err := acquire(dir, "p"); err == nil {
		t.Error("locked what a link points to")
	}
}
