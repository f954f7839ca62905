package proc

import (
	"os"
	"runtime"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func init() { runtime.LockOSThread() } // keeps TestMain on the main thread until it lets go

// fromMain is what onOwnThread did when it was called on the main thread.
var fromMain struct{ caller, thread int }

func TestMain(m *testing.M) {
	// With one processor a goroutine starts on the thread of the one that waits for it.
	procs := runtime.GOMAXPROCS(1)
	runtime.UnlockOSThread()
	fromMain.caller = unix.Gettid()
	tid := make(chan int)
	onOwnThread(func() { tid <- unix.Gettid() })
	fromMain.thread = <-tid
	runtime.GOMAXPROCS(procs)
	goleak.VerifyTestMain(m)
}

func TestOwnThreadIsNotTheMainThread(t *testing.T) {
	if fromMain.caller != os.Getpid() {
		t.Fatalf("called on thread %d, not on the main thread %d", fromMain.caller, os.Getpid())
	}
	if fromMain.thread == os.Getpid() {
		t.Error("ran on the main thread, which cannot be destroyed")
	}
	awaitThreadEnd(fromMain.thread)
}
