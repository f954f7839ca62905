package hostapi

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"
)

// LifelineEnv names the variable in which a host tells a hook the number of an inherited
// descriptor. The descriptor is the reading end of a pipe. The host alone holds the writing end,
// and never writes to it. Its end of file means that the host is gone, however it died, and ends
// the hook at once.
//
// Otherwise the hook would live on: go-plugin leaves its programs behind when a host is killed. A
// parent-death signal alone comes too early if the thread that started the program ends before.
const LifelineEnv = "HOOKHOST_LIFELINE_FD"

// holdLifeline calls gone when the host is gone, or does nothing if there is no such variable. A
// variable that names no open descriptor is an error.
func holdLifeline(gone func()) error {
	value, ok := os.LookupEnv(LifelineEnv)
	if !ok {
		return nil
	}
	// A program that the hook starts has no lifeline under this number.
	if err := os.Unsetenv(LifelineEnv); err != nil {
		return err
	}
	fd, err := strconv.Atoi(value)
	if err != nil || fd <= 2 {
		return fmt.Errorf("%s=%s: not a descriptor", LifelineEnv, value)
	}
	syscall.CloseOnExec(fd)
	// Non-blocking, the wait costs a place in the poller and not a thread.
	if err := syscall.SetNonblock(fd, true); err != nil {
		return fmt.Errorf("%s=%d: %w", LifelineEnv, fd, err)
	}
	pipe := os.NewFile(uintptr(fd), "lifeline")
	go func() {
		// Every way in which the reading ends means the same.
		_, _ = io.Copy(io.Discard, pipe)
		gone()
	}()
	return nil
}
