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

// Handle refers to one process, which a pid alone does not. A signal through it never reaches a
// later process with the same pid. Handle needs pidfds (Linux 5.3). It is safe for concurrent use
// and must be closed.
type Handle struct {
	pid    int
	pidfd  *os.File
	closed atomic.Bool
	watch  sync.Once
	ended  chan struct{} // closed when the process has ended or can no longer be watched
	err    error         // nil if the process has ended; valid once ended is closed
}

// Open returns a handle for the process id. It fails with ErrGone if that process is gone or a
// zombie, and with errors.ErrUnsupported if the kernel has no pidfds.
func Open(procfs *kernfs.FS, id hostapi.ProcessID) (*Handle, error) {
	h, err := OpenPID(id.PID)
	if err != nil {
		return nil, err
	}
	// Checked after the pidfd was opened: from now on the descriptor and the identity refer to the
	// same process.
	if err := Check(procfs, id); err != nil {
		h.Close()
		return nil, fmt.Errorf("open process %d: %w", id.PID, err)
	}
	return h, nil
}

// OpenPID opens whichever process has the number pid now, including a zombie.
func OpenPID(pid int) (*Handle, error) {
	fd, err := unix.PidfdOpen(pid, unix.O_NONBLOCK)
	if errors.Is(err, unix.EINVAL) { // PIDFD_NONBLOCK needs Linux 5.10
		if fd, err = unix.PidfdOpen(pid, 0); err == nil {
			err = unix.SetNonblock(fd, true)
		}
	}
	switch {
	case err == nil:
		// It is non-blocking, so os.NewFile uses the runtime's poller for it.
		return &Handle{pid: pid, pidfd: os.NewFile(uintptr(fd), "pidfd"), ended: make(chan struct{})}, nil
	case errors.Is(err, unix.ENOSYS):
		return nil, fmt.Errorf("open process %d: no pidfd: %w", pid, errors.ErrUnsupported)
	case errors.Is(err, unix.EINVAL) && pid > 0: // a thread's number, or that of a process being reaped
		err = unix.ESRCH
	}
	return nil, gone("open process "+strconv.Itoa(pid), err)
}

// Wait returns nil when the process has ended, no matter who its parent is, and does not reap it.
// It fails if ctx ends or the handle is closed first. Waiting occupies no thread.
func (h *Handle) Wait(ctx context.Context) error {
	h.watch.Do(func() { go h.await() })
	select {
	case <-h.ended:
		return h.err
	case <-ctx.Done():
		return fmt.Errorf("wait for process %d: %w", h.pid, context.Cause(ctx))
	}
}

// await waits in the runtime's poller until the pidfd becomes readable. There is one such goroutine
// no matter how many wait. SyscallConn().Read admits one reader at a time, and others in line could
// not be cancelled.
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

// PID returns the pid of the process.
func (h *Handle) PID() int { return h.pid }

// Signal sends sig to the process. It fails with ErrGone if the process was already reaped. A
// zombie accepts any signal. Signal 0 only checks that, even for a process that may not be
// signalled.
func (h *Handle) Signal(sig syscall.Signal) error {
	var sent error
	conn, err := h.pidfd.SyscallConn()
	if err == nil {
		err = conn.Control(func(fd uintptr) { sent = unix.PidfdSendSignal(int(fd), sig, nil, 0) })
	}
	if err != nil {
		return fmt.Errorf("send %v to process %d: %w", sig, h.pid, h.cause(err))
	}
	if sent != nil && (sig != 0 || !errors.Is(sent, unix.EPERM)) {
		return gone(fmt.Sprintf("send %v to process %d", sig, h.pid), sent)
	}
	return nil
}

// cause replaces a raw connection's error for a closed file, which has no exported type.
func (h *Handle) cause(err error) error {
	if h.closed.Load() {
		return os.ErrClosed
	}
	return err
}

// Close releases the handle, and waiters fail with os.ErrClosed. The process is not affected.
func (h *Handle) Close() error {
	h.closed.Store(true)
	return h.pidfd.Close()
}
