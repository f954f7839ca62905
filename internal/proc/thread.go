package proc

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// startFromThread starts the program from a thread that has gone into the cgroups of the tasks
// files first. A child is born in the cgroups of the thread that forks it, and on cgroup v1 every
// thread has its own.
//
// Writing 0 to a tasks file moves the writing thread alone. A thread that moves itself takes no
// lock which has to wait for the rest of the machine. A move of another process (its pid into
// cgroup.procs) takes the thread-group lock and, after a quiet while, milliseconds.
//
// The thread never serves Go again: its goroutine ends locked to it, upon which the runtime
// destroys it. The cgroups show this process as a member until the thread is gone. cgroup.procs
// lists it, and pids.max counts the thread: a job needs a pids.max of 2 or more to be started.
// startFromThread returns when the thread is gone. A reader of cgroup.procs in that millisecond
// knows the visitor by its pid, which is not in `tasks`. In a frozen cgroup the thread freezes as
// well, and startFromThread returns when that is thawed.
//
// The child of another user is born in the thread's new session keyring, and in the v2 cgroup of
// procs where that is not nil.
func (cmd *Spec) startFromThread(attr *syscall.ProcAttr, tasks []string, procs *os.File) (*Child, error) {
	// Opened beforehand: while a thread is inside, nothing should take time.
	var files files
	defer files.close()
	for _, name := range tasks {
		if _, err := files.open(name, os.O_WRONLY); err != nil {
			return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
		}
	}

	type result struct {
		child *Child
		err   error
		tid   int
	}
	started := make(chan result, 1)
	onOwnThread(func() {
		r := result{tid: unix.Gettid()}
		if cmd.Credential != nil {
			r.err = LeaveSessionKeyring()
		}
		if r.err == nil {
			r.err = enter(files)
		}
		if r.err != nil {
			r.err = fmt.Errorf("start %s: %w", cmd.Path, r.err)
		} else {
			r.child, r.err = cmd.fork(attr, procs)
		}
		started <- r
	})
	r := <-started
	awaitThreadEnd(r.tid)
	return r.child, r.err
}

// enter moves the calling thread into the cgroups of files.
func enter(tasks files) error {
	for _, f := range tasks {
		if _, err := io.WriteString(f, "0"); err != nil {
			return fmt.Errorf("enter cgroup: %w", err) // a PathError: it names the file
		}
	}
	return nil
}

// onOwnThread runs f on a thread of its own that is destroyed afterwards. New threads of the
// runtime are not cloned from it: while a thread is locked the runtime has its template thread make
// them.
func onOwnThread(f func()) {
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			f()
			return // locked: the runtime ends the thread
		}
		// The main thread cannot be destroyed, only parked, and parked it would stay in the cgroup
		// for ever. Held here until f runs elsewhere, it cannot be picked again.
		elsewhere := make(chan struct{})
		onOwnThread(func() {
			close(elsewhere)
			f()
		})
		<-elsewhere
		runtime.UnlockOSThread()
	}()
}

// awaitThreadEnd returns when the thread tid of this process is gone. The kernel tells the end of a
// thread to nobody before Linux 6.9 (PIDFD_THREAD), so it is asked for. The thread is past its last
// Go instruction and needs microseconds.
func awaitThreadEnd(tid int) {
	for pause := 10 * time.Microsecond; unix.Tgkill(unix.Getpid(), tid, 0) == nil; pause = min(2*pause,
		time.Millisecond) {
		time.Sleep(pause)
	}
}
