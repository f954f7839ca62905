package main

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// ownUmask gives this process the umask that what it makes for jobs needs, as pbs_mom does
// (openpbs src/resmom/mom_main.c), and returns the one that it was started with.
func ownUmask() int { return unix.Umask(0o022) }

// withholdInherited has no program that this process starts get the descriptors that were open when
// it was started itself, from 3 up: they may be of files that the program's user cannot open.
func withholdInherited() error {
	err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) { // before 5.9, before 5.11
		err = withholdEach()
	}
	if err != nil {
		return fmt.Errorf("close inherited descriptors: %w", err)
	}
	return nil
}

// withholdEach does so one by one.
func withholdEach() error {
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, entry := range open {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil || fd < 3 {
			continue
		}
		_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFD, unix.FD_CLOEXEC)
		if err != nil && !errors.Is(err, unix.EBADF) {
			return &fs.PathError{Op: "fcntl", Path: "/proc/self/fd/" + entry.Name(), Err: err}
		}
	}
	return nil
}
