package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
)

// TestMain turns the test program into a job's process if it was started as one. It fails when
// tests leave directories, processes or goroutines behind.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == actorArg {
		os.Exit(act(os.Args[2], os.Args[3]))
	}
	os.Exit(kernfstest.Run(m, testPrefix()))
}

func testPrefix() string { return fmt.Sprintf("hhtest_hookdevices_%d", os.Getpid()) }

const actorArg = "-devices-hook-test-actor"

// act opens a device in the role of a job's process and returns the errno.
func act(path, flags string) int {
	f, err := strconv.Atoi(flags)
	if err != nil {
		return 255
	}
	fd, err := unix.Open(path, f|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		var errno unix.Errno
		errors.As(err, &errno)
		return int(errno)
	}
	unix.Close(fd)
	return 0
}
