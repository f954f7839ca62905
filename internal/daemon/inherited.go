package daemon

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// CloseInherited closes the files, from descriptor 3 up, that the starter of this process left
// open. This process opens its own files so that they close on exec, so all others are the
// starter's. Somebody may wait for their end.
func CloseInherited() error {
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("close inherited files: %w", err)
	}
	for _, entry := range open {
		var fd int
		if _, err := fmt.Sscan(entry.Name(), &fd); err != nil || fd < 3 {
			continue
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err == nil && flags&unix.FD_CLOEXEC == 0 {
			unix.Close(fd)
		}
	}
	return nil
}
