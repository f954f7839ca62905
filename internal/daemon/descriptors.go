package daemon

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// CloseInherited closes the files, from descriptor 3 up, that this process inherited. Its own files
// are close-on-exec, so all others came from its parent. Another process may wait for these to
// close.
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
