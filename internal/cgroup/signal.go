package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/proc"
)

// maxHeld limits the descriptors used for holding the processes of one job. It is a sixteenth of
// this process's limit, because several jobs may end at the same time.
var maxHeld = sync.OnceValue(func() int {
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return 64
	}
	return int(max(64, min(files.Cur/16, 2048)))
})

// held is a process that was in the job's cgroup after handle had been opened.
type held struct {
	pid    int
	handle *proc.Handle                            // nil if the kernel has no pidfds, or in tests with a fake kernel
	send   func(pid int, sig syscall.Signal) error // replaces handle
}

type holdings []held

// hold holds those of pids that are in the job's cgroup. It first opens each process and then reads
// its cgroup. If the opened process is still alive, the cgroup that was read is its own. If not,
// signals have no effect. Callers close the result, even if there is an error.
func (j *Job) hold(pids []int) (holdings, error) {
	var all holdings
	for _, pid := range pids {
		if pid == os.Getpid() {
			continue
		}
		h, alive, err := holdProcess(pid, j.tree.signal)
		if alive {
			if alive, err = j.contains(pid); alive {
				all = append(all, h)
				continue
			}
			h.close()
		}
		if err != nil {
			return all, fmt.Errorf("hold process %d of job %s: %w", pid, j.id, err)
		}
	}
	return all, nil
}

// holdProcess holds the process pid, wherever it is. alive is false if the process is gone. If send
// is nil, the kernel's signals are used.
func holdProcess(pid int, send func(int, syscall.Signal) error) (h held, alive bool, err error) {
	h = held{pid: pid, send: send}
	if send != nil {
		return h, true, nil
	}
	h.handle, err = proc.OpenPID(pid)
	switch {
	case errors.Is(err, ErrUnsupported): // before Linux 5.3
		h.send = syscall.Kill
		return h, true, nil
	case errors.Is(err, proc.ErrGone):
		return h, false, nil
	}
	return h, err == nil, err
}

// signal sends sig to all of them, and ignores those that have ended.
func (all holdings) signal(sig syscall.Signal) error {
	var errs []error
	for _, h := range all {
		if err := h.Signal(sig); !errors.Is(err, unix.ESRCH) && !errors.Is(err, proc.ErrGone) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// PID implements Process.
func (h held) PID() int { return h.pid }

// Signal implements Process.
func (h held) Signal(sig syscall.Signal) error {
	if h.handle != nil {
		return h.handle.Signal(sig)
	}
	if err := h.send(h.pid, sig); err != nil {
		return fmt.Errorf("send %v to process %d: %w", sig, h.pid, err)
	}
	return nil
}

// wait returns when all of them have ended, or when ctx ends. It waits in the runtime's poller and
// blocks no thread.
func (all holdings) wait(ctx context.Context) {
	for _, h := range all {
		if h.handle == nil {
			sleep(ctx, 5*time.Millisecond)
			return
		}
		if h.handle.Wait(ctx) != nil { // the caller checks ctx
			return
		}
	}
}

func (all holdings) close() {
	for _, h := range all {
		h.close()
	}
}

func (h held) close() {
	if h.handle != nil {
		h.handle.Close()
	}
}
