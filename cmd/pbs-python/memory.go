package main

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// memory returns a descriptor from which text can be read, and which stays open over execve:
// memfd_create(2).
func memory(text []byte) (int, error) {
	fd, err := unix.MemfdCreate("hookhost", unix.MFD_NOEXEC_SEAL)
	if err == unix.EINVAL { // before Linux 6.3
		fd, err = unix.MemfdCreate("hookhost", 0)
	}
	if err != nil {
		return -1, err
	}
	if !writeAll(fd, text) {
		return -1, syscall.EIO
	}
	_, err = syscall.Seek(fd, 0, 0)
	return fd, err
}
