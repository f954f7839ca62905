package proc

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/kernfs"
)

// Held refers to one process like a Handle, but nobody can wait for it. It is a bare descriptor,
// which is not registered with the runtime's poller. A Held is for one goroutine at a time and must
// be closed.
type Held struct{ pid, pidfd int }

// Hold opens the process pid and reads it. procfs must be the one of our pid namespace. What was
// read belongs to that process, since it has not been reaped meanwhile and its pid was not reused.
// A zombie is held too: see Dead. Hold fails with ErrGone if there is no such process, if it
// disappears meanwhile, or if pid is a thread's. It fails with errors.ErrUnsupported if the kernel
// has no pidfds (Linux 5.3).
func Hold(procfs *kernfs.FS, pid int) (*Held, Process, error) {
	h, err := hold(pid)
	if err != nil {
		return nil, Process{}, err
	}
	dir := strconv.Itoa(pid)
	p, err := readFrom(procfs, filesOf(procfs, dir), dir)
	if err == nil {
		err = h.Signal(0)
	}
	if err != nil {
		h.Close()
		return nil, Process{}, err
	}
	return h, p, nil
}

// holdAgain is Hold for a process that was read before.
func holdAgain(procfs *kernfs.FS, id hostapi.ProcessID) (*Held, error) {
	h, err := hold(id.PID)
	if err != nil {
		return nil, err
	}
	// Checked after the pidfd was opened, as in Open.
	if err := Check(procfs, id); err != nil {
		h.Close()
		return nil, fmt.Errorf("open process %d: %w", id.PID, err)
	}
	return h, nil
}

func hold(pid int) (*Held, error) {
	fd, err := openPidfd(pid, 0)
	if err != nil {
		return nil, err
	}
	return &Held{pid, fd}, nil
}

// PID returns the pid of the process.
func (h *Held) PID() int { return h.pid }

// Signal sends sig to the process. It fails with ErrGone if the process was already reaped. A
// zombie accepts any signal. Signal 0 only checks that, even for a process that may not be
// signalled.
func (h *Held) Signal(sig syscall.Signal) error {
	err := unix.PidfdSendSignal(h.pidfd, sig, nil, 0)
	if err != nil && (sig != 0 || !errors.Is(err, unix.EPERM)) {
		return gone(fmt.Sprintf("send %v to process %d", sig, h.pid), err)
	}
	return nil
}

// Close releases the process, which is not affected. A second call returns os.ErrClosed.
func (h *Held) Close() error {
	if h.pidfd < 0 {
		return os.ErrClosed
	}
	err := unix.Close(h.pidfd)
	h.pidfd = -1
	return err
}
