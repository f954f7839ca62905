package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/kernfs"
)

// Handle is a hold on one process, which its pid alone is not. A signal through it never hits a
// later process of the same pid. Handle needs pidfds (Linux 5.3). Handle is safe for concurrent use
// and has to be closed.
type Handle struct {
	pid    int
	pidfd  *os.File
	closed atomic.Bool
	watch  sync.Once
	ended  chan struct{} // closed when the process has ended or can no longer be watched
	err    error         // nil when the process has ended; valid once ended is closed
}

// Open returns a handle on the process id. Open fails with ErrGone when that process is gone or a
// zombie, and with errors.ErrUnsupported when the kernel has no pidfds.
func Open(procfs *kernfs.FS, id hostapi.ProcessID) (*Handle, error) {
	h, err := OpenPID(id.PID)
	if err != nil {
		return nil, err
	}
	// Asked after the pidfd was opened: from here on the descriptor and the identity name the same
	// process for good.
	if err := Check(procfs, id); err != nil {
		h.Close()
		return nil, fmt.Errorf("open process %d: %w", id.PID, err)
	}
	return h, nil
}

// OpenPID is Open of the process that has the number pid now, whichever it is. A zombie is held as
// well.
func OpenPID(pid int) (*Handle, error) {
	fd, err := openPidfd(pid, unix.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	return newHandle(pid, fd), nil
}

// openPidfd opens the process pid. The flags are 0 or O_NONBLOCK.
func openPidfd(pid, flags int) (fd int, err error) {
	fd, err = unix.PidfdOpen(pid, flags)
	if errors.Is(err, unix.EINVAL) && flags != 0 { // PIDFD_NONBLOCK is of Linux 5.10
		if fd, err = unix.PidfdOpen(pid, 0); err == nil {
			err = unix.SetNonblock(fd, true)
		}
	}
	switch {
	case err == nil:
		return fd, nil
	case errors.Is(err, unix.ENOSYS):
		return -1, fmt.Errorf("open process %d: no pidfd: %w", pid, errors.ErrUnsupported)
	case errors.Is(err, unix.EINVAL) && pid > 0: // a thread's number, or a process's that is being reaped
		err = unix.ESRCH
	}
	return -1, gone("open process "+strconv.Itoa(pid), err)
}

// newHandle takes over fd, a non-blocking pidfd: being that, os.NewFile gives it to the runtime's
// poller.
func newHandle(pid, fd int) *Handle {
	return &Handle{pid: pid, pidfd: os.NewFile(uintptr(fd), "pidfd"), ended: make(chan struct{})}
}

// Wait returns nil when the process has ended, whoever its parent is; it does not reap it. Wait
// fails when ctx is done or the handle is closed before. Waiting holds no thread.
func (h *Handle) Wait(ctx context.Context) error {
	h.watch.Do(func() { go h.await() })
	select {
	case <-h.ended:
		return h.err
	case <-ctx.Done():
		return fmt.Errorf("wait for process %d: %w", h.pid, context.Cause(ctx))
	}
}

// await parks in the runtime's poller until the pidfd becomes readable. await is one goroutine
// however many wait: SyscallConn().Read admits one reader at a time, and whoever stood in line
// behind it could not be cancelled.
func (h *Handle) await() {
	defer close(h.ended)
	conn, err := h.pidfd.SyscallConn()
	if err == nil {
		err = conn.Read(func(fd uintptr) bool { return ready(int(fd)) })
	}
	if err != nil {
		h.err = fmt.Errorf("wait for process %d: %w", h.pid, h.cause(err))
	}
}

// ready reports whether the process behind the pidfd has ended.
func ready(fd int) bool {
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		if !errors.Is(err, unix.EINTR) {
			return err == nil && n > 0
		}
	}
}

// Signal sends sig to the process. Signal fails with ErrGone when it was already reaped; a zombie
// takes any signal.
func (h *Handle) Signal(sig syscall.Signal) error {
	var sent error
	conn, err := h.pidfd.SyscallConn()
	if err == nil {
		err = conn.Control(func(fd uintptr) { sent = unix.PidfdSendSignal(int(fd), sig, nil, 0) })
	}
	if err != nil {
		return fmt.Errorf("send %v to process %d: %w", sig, h.pid, h.cause(err))
	}
	if sent != nil {
		return gone(fmt.Sprintf("send %v to process %d", sig, h.pid), sent)
	}
	return nil
}

// cause gives a raw connection's error for a closed file, which is of no exported kind, its name.
func (h *Handle) cause(err error) error {
	if h.closed.Load() {
		return os.ErrClosed
	}
	return err
}

// Close releases the handle; waiters fail with os.ErrClosed. The process stays as it is.
func (h *Handle) Close() error {
	h.closed.Store(true)
	return h.pidfd.Close()
}
