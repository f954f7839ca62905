package proc

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// LeaveSessionKeyring gives the calling thread, and what is forked from it, a new and empty session
// keyring. A process has the rights to all keys of its session keyring, whatever uid it takes on
// (keyrings(7)). The keyring is kept over fork(2) and execve(2). The caller locks its goroutine to
// the thread. A kernel without keys, and a filter that forbids keyctl(2), have none to read: no
// error.
func LeaveSessionKeyring() error {
	_, _, errno := unix.Syscall(unix.SYS_KEYCTL, unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0)
	if errno == 0 || errno == unix.ENOSYS || errno == unix.EPERM {
		return nil
	}
	return fmt.Errorf("leave session keyring: %w", os.NewSyscallError("keyctl", errno))
}
