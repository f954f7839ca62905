package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Signal sends sig to every process of the job once. A process that comes meanwhile may miss it:
// for SIGKILL there is Kill. The calling process is spared, wherever it is. Signal goes on after an
// error and returns all of them.
func (j *Job) Signal(sig syscall.Signal) error {
	pids, err := j.Processes()
	errs := []error{err}
	for some := range slices.Chunk(pids, maxHeld()) {
		processes, err := j.hold(some)
		errs = append(errs, err, processes.signal(sig))
		processes.close()
	}
	return errors.Join(errs...)
}

// maxHeld bounds the descriptors that holding processes of one job takes. The bound is high, since
// for each round the kernel has to list all of the job's processes. The bound is a sixteenth of
// what this process may have, since several jobs may end at once.
var maxHeld = sync.OnceValue(func() int {
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return 64
	}
	return int(max(64, min(files.Cur/16, 2048)))
})

// held is a process that was in the job's cgroup when pidfd named it already.
type held struct {
	pid   int
	pidfd *os.File                                // nil where the kernel has none, or the process is not the kernel's
	send  func(pid int, sig syscall.Signal) error // instead of pidfd
}

type holdings []held

// hold takes hold of those of pids that are in the job's cgroup. A listed process is opened and
// then looked for in a second list. If the opened process lives, it is what that list means. If it
// does not, no signal reaches anything.
func (j *Job) hold(pids []int) (holdings, error) {
	var all holdings
	for _, pid := range pids {
		if pid == os.Getpid() {
			continue
		}
		h, alive, err := holdProcess(pid, j.tree.signal)
		if err != nil {
			all.close()
			return nil, fmt.Errorf("open process %d of job %s: %w", pid, j.id, err)
		}
		if alive {
			all = append(all, h)
		}
	}
	inside, err := j.Processes()
	return slices.DeleteFunc(all, func(h held) bool {
		_, found := slices.BinarySearch(inside, h.pid)
		if !found {
			h.close()
		}
		return !found
	}), err
}

// holdProcess takes hold of the process pid, wherever it is; alive is false when there is none.
// Send is nil for the kernel's own signals.
func holdProcess(pid int, send func(int, syscall.Signal) error) (h held, alive bool, err error) {
	h = held{pid: pid, send: send}
	if send != nil {
		return h, true, nil
	}
	h.pidfd, err = openProcess(pid)
	switch {
	case errors.Is(err, unix.ENOSYS): // before Linux 5.3
		h.send = syscall.Kill
		return h, true, nil
	case errors.Is(err, unix.ESRCH), errors.Is(err, unix.EINVAL): // EINVAL: the number is a thread's by now
		return h, false, nil
	}
	return h, err == nil, err
}

// openProcess returns a pidfd that the runtime's poller can wait for.
func openProcess(pid int) (*os.File, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if errors.Is(err, unix.EINVAL) { // before Linux 5.10
		if fd, err = unix.PidfdOpen(pid, 0); err == nil {
			err = unix.SetNonblock(fd, true)
		}
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "pidfd"), nil
}

// signal sends sig to all of them; one that has ended takes none.
func (all holdings) signal(sig syscall.Signal) error {
	var errs []error
	for _, h := range all {
		if err := h.Signal(sig); err != nil && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, fmt.Errorf("send %v to process %d: %w", sig, h.pid, err))
		}
	}
	return errors.Join(errs...)
}

// PID is for Process.
func (h held) PID() int { return h.pid }

// Signal is for Process.
func (h held) Signal(sig syscall.Signal) error {
	if h.pidfd == nil {
		return h.send(h.pid, sig)
	}
	conn, err := h.pidfd.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	if err := conn.Control(func(fd uintptr) { sent = unix.PidfdSendSignal(int(fd), sig, nil, 0) }); err != nil {
		return err
	}
	return sent
}

// wait returns when all of them have ended, or ctx has. No thread waits, only the runtime's poller.
func (all holdings) wait(ctx context.Context) {
	for _, h := range all {
		if h.pidfd == nil {
			sleep(ctx, 5*time.Millisecond)
			return
		}
	}
	stop := context.AfterFunc(ctx, func() {
		for _, h := range all {
			h.pidfd.SetReadDeadline(time.Unix(1, 0))
		}
	})
	defer stop()
	for _, h := range all {
		if conn, err := h.pidfd.SyscallConn(); err == nil {
			conn.Read(ended) // its error is the deadline's; the caller looks at ctx
		}
	}
}

func ended(fd uintptr) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return err == nil && n > 0
}

func (all holdings) close() {
	for _, h := range all {
		h.close()
	}
}

func (h held) close() {
	if h.pidfd != nil {
		h.pidfd.Close()
	}
}
