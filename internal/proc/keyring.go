package proc

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// LeaveSessionKeyring gives the calling thread and its children a new, empty session keyring. A
// process has access to all keys in its session keyring, even if it changes its uid (keyrings(7)).
// The keyring survives fork(2) and execve(2). The caller must lock its goroutine to the thread. If
// the kernel has no keys, or a filter forbids keyctl(2), there are no keys to read, and that is not
// an error.
func LeaveSessionKeyring() error {
	_, _, errno := unix.Syscall(unix.SYS_KEYCTL, unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0)
	if errno == 0 || errno == unix.ENOSYS || errno == unix.EPERM {
		return nil
	}
	return fmt.Errorf("leave session keyring: %w", os.NewSyscallError("keyctl", errno))
}
