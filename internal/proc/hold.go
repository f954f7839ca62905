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

// Held is a hold on one process, as a Handle is, that nobody waits on: a bare descriptor, which the
// runtime's poller never hears of. Held is for one goroutine at a time and has to be closed.
type Held struct{ pid, pidfd int }

// Hold takes hold of the process pid and reads it. Procfs is the one whose numbers system calls
// know. The result is of one process: it was not reaped meanwhile, so the numbers that were read by
// were its own. A zombie is held as well: see Dead. Hold fails with ErrGone when there is no such
// process, also when it goes meanwhile, or the number is a thread's. The error is
// errors.ErrUnsupported when the kernel has no pidfds (Linux 5.3).
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

// holdAgain is Hold of a process that was read before.
func holdAgain(procfs *kernfs.FS, id hostapi.ProcessID) (*Held, error) {
	h, err := hold(id.PID)
	if err != nil {
		return nil, err
	}
	// Asked after the pidfd was opened, as in Open.
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

// PID returns the number of the process.
func (h *Held) PID() int { return h.pid }

// Signal sends sig to the process. Signal fails with ErrGone when it was already reaped; a zombie
// takes any signal. Signal 0 asks just that, also of a process that this one may not send anything.
func (h *Held) Signal(sig syscall.Signal) error {
	err := unix.PidfdSendSignal(h.pidfd, sig, nil, 0)
	if err != nil && (sig != 0 || !errors.Is(err, unix.EPERM)) {
		return gone(fmt.Sprintf("send %v to process %d", sig, h.pid), err)
	}
	return nil
}

// Close releases the process, which stays as it is. A second call is os.ErrClosed.
func (h *Held) Close() error {
	if h.pidfd < 0 {
		return os.ErrClosed
	}
	err := unix.Close(h.pidfd)
	h.pidfd = -1
	return err
}
