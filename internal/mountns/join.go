package mountns

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/proc"
)

// Join moves the process pid, which began at that time, into the pinned namespace. 0 means any
// time. The process must be root's and have one thread. It must wait for a child, or read from it,
// as pbs_mom's task waits for its hook, and sshd for pam_exec. The child must not end before Join
// returns. Only the process itself can change its namespace, so Join makes it do that by ptrace(2),
// and wait again.
//
// The process changes its root and working directory to the namespace's root, and nothing else. If
// Join fails, the process is where it was, or it was killed because it could not be put back. Join
// does nothing for a process that is in the namespace.
func Join(procfs *kernfs.FS, pid int, started uint64, pin string) error {
	ns, err := os.Open(pin)
	if err != nil {
		return err
	}
	defer ns.Close()
	if in, err := isIn(procfs, pid, ns); in || err != nil {
		return err
	}
	if err := check(procfs, pid, started); err != nil {
		return fmt.Errorf("process %d: %w", pid, err)
	}
	err = onThread(func() error {
		return join(pid, int(ns.Fd()), func() error { return check(procfs, pid, started) })
	})
	if err == nil {
		var in bool
		if in, err = isIn(procfs, pid, ns); err == nil && !in {
			err = errors.New("it is not in the mount namespace")
		}
	}
	if err != nil {
		return fmt.Errorf("move process %d into its job's mount namespace: %w", pid, err)
	}
	return nil
}

// isIn reports whether a process is in the namespace.
func isIn(procfs *kernfs.FS, pid int, ns *os.File) (bool, error) {
	there, err := os.Stat(procfs.Path(strconv.Itoa(pid) + "/ns/mnt"))
	if err != nil {
		return false, err
	}
	pinned, err := ns.Stat()
	return err == nil && os.SameFile(there, pinned), err
}

// check refuses a process that is not as Join expects it.
func check(procfs *kernfs.FS, pid int, started uint64) error {
	p, err := proc.Read(procfs, pid)
	if err != nil {
		return err
	}
	if started != 0 && p.StartTime != started {
		return errors.New("another process has its pid now")
	}
	if p.UID != 0 || p.EUID != 0 || p.Threads != 1 {
		return fmt.Errorf("uid %d, effective %d, %d threads: want root's with one thread", p.UID, p.EUID, p.Threads)
	}
	for _, name := range []string{"ns/mnt", "ns/pid", "ns/user", "root"} {
		own, err := os.Stat(procfs.Path("self/" + name))
		if err != nil {
			return err
		}
		its, err := os.Stat(procfs.Path(strconv.Itoa(pid) + "/" + name))
		if err != nil {
			return err
		}
		if !os.SameFile(own, its) {
			return fmt.Errorf("its %s differs from hookhost's: start pbs_mom and hookhost without PrivateTmp= "+
				"and similar settings", name)
		}
	}
	return nil
}

// tracee is a process that this thread has stopped.
type tracee struct {
	pid   int
	saved registers
	mask  uint64 // its blocked signals
}

// join does the work of Join. It checks the process again once that has stopped, because it may be
// another one than before.
func join(pid, ns int, check func() error) (err error) {
	t := &tracee{pid: pid}
	if err := unix.PtraceSeize(pid); err != nil {
		return fmt.Errorf("ptrace: %w: another process traces it, kernel.yama.ptrace_scope is 3, or hookhost.service "+
			"lacks the drop-in of docs/private.md", err)
	}
	if err = t.stop(); err == nil {
		err = check()
	}
	if err != nil {
		// This thread may end only after the next Join has begun.
		_ = unix.PtraceDetach(pid)
		return err
	}
	if err := t.hold(); err != nil {
		return err
	}
	defer func() {
		if back := t.restore(); back != nil { // the end of this thread kills it
			err = errors.Join(err, fmt.Errorf("continue: %w", back))
		}
	}()
	self, err := t.call(unix.SYS_PIDFD_OPEN, uint64(os.Getpid()), 0, 0)
	if err != nil {
		return fmt.Errorf("pidfd_open: %w", err)
	}
	fd, err := t.call(unix.SYS_PIDFD_GETFD, self, uint64(ns), 0)
	if err == nil {
		if _, err = t.call(unix.SYS_SETNS, fd, unix.CLONE_NEWNS, 0); err != nil {
			err = fmt.Errorf("setns: %w", err)
		}
		_, closed := t.call(unix.SYS_CLOSE, fd, 0, 0)
		err = errors.Join(err, closed)
	} else {
		err = fmt.Errorf("pidfd_getfd: %w", err)
	}
	_, closed := t.call(unix.SYS_CLOSE, self, 0, 0)
	return errors.Join(err, closed)
}

// stop stops the process in its wait. It continues unchanged once it is detached, or this thread
// has ended.
func (t *tracee) stop() (err error) {
	if err := unix.PtraceInterrupt(t.pid); err != nil {
		return os.NewSyscallError("ptrace interrupt", err)
	}
	for {
		st, err := t.wait()
		if err != nil {
			return err
		}
		if int(st)>>16 == unix.PTRACE_EVENT_STOP {
			if st.StopSignal() != unix.SIGTRAP {
				return fmt.Errorf("it is stopped by %v", st.StopSignal())
			}
			break
		}
		if err := unix.PtraceCont(t.pid, int(st.StopSignal())); err != nil { // a signal came first
			return os.NewSyscallError("ptrace cont", err)
		}
	}
	if t.saved, err = read(t.pid); err != nil {
		return err
	}
	code := make([]byte, len(syscallCode))
	if _, err := unix.PtracePeekText(t.pid, t.saved.at(), code); err != nil {
		return os.NewSyscallError("ptrace peektext", err)
	}
	if !bytes.Equal(code, syscallCode) || !t.saved.waits() {
		return errors.New("it does not wait")
	}
	return nil
}

// hold blocks all signals. After that, the end of this thread kills the process, unless restore has
// let it go.
func (t *tracee) hold() error {
	if err := t.signals(unix.PTRACE_GETSIGMASK, &t.mask); err != nil {
		return err
	}
	if err := unix.PtraceSetOptions(t.pid, unix.PTRACE_O_TRACESYSGOOD|unix.PTRACE_O_EXITKILL); err != nil {
		return os.NewSyscallError("ptrace setoptions", err)
	}
	all := ^uint64(0)
	return t.signals(unix.PTRACE_SETSIGMASK, &all)
}

// restore lets the process begin its wait again. A signal that came meanwhile is delivered before.
func (t *tracee) restore() error {
	if err := t.saved.again().write(t.pid); err != nil {
		return err
	}
	if err := t.signals(unix.PTRACE_SETSIGMASK, &t.mask); err != nil {
		return err
	}
	return os.NewSyscallError("ptrace detach", unix.PtraceDetach(t.pid))
}

// call makes the process do a system call.
func (t *tracee) call(number, a, b, c uint64) (uint64, error) {
	if err := t.saved.call(number, a, b, c).write(t.pid); err != nil {
		return 0, err
	}
	for range 2 { // its begin and its end
		if err := unix.PtraceSyscall(t.pid, 0); err != nil {
			return 0, os.NewSyscallError("ptrace syscall", err)
		}
		st, err := t.wait()
		if err != nil {
			return 0, err
		}
		if st.StopSignal() != unix.SIGTRAP|0x80 {
			return 0, fmt.Errorf("it stopped by %v", st.StopSignal())
		}
	}
	r, err := read(t.pid)
	if err != nil {
		return 0, err
	}
	if result := int64(r.result()); result < 0 && result > -4096 {
		return 0, unix.Errno(-result)
	}
	return r.result(), nil
}

// signals reads or writes the signals that the process blocks.
func (t *tracee) signals(request uintptr, mask *uint64) error {
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, request, uintptr(t.pid), unsafe.Sizeof(*mask),
		uintptr(unsafe.Pointer(mask)), 0, 0)
	if errno != 0 {
		return os.NewSyscallError("ptrace sigmask", errno)
	}
	return nil
}

// stopTime bounds how long a process takes to stop. A frozen one never does.
const stopTime = 5 * time.Second

// wait returns when the process has stopped.
func (t *tracee) wait() (st unix.WaitStatus, err error) {
	for end := time.Now().Add(stopTime); time.Now().Before(end); time.Sleep(20 * time.Microsecond) {
		pid, err := unix.Wait4(t.pid, &st, unix.WALL|unix.WNOHANG, nil)
		switch {
		case err != nil && err != unix.EINTR:
			return st, os.NewSyscallError("wait4", err)
		case pid == t.pid && st.Stopped():
			return st, nil
		case pid == t.pid:
			return st, proc.ErrGone
		}
	}
	return st, fmt.Errorf("it did not stop within %v: its job may be frozen", stopTime)
}
