package hostapi

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"
)

// LifelineEnv is the environment variable with which a host gives a hook the number of an inherited
// descriptor. The descriptor is the reading end of a pipe. Only the host holds the writing end, and
// it never writes. End of file means that the host is gone, however it died, and ends the hook at
// once.
//
// Without it the hook would live on: go-plugin leaves its programs behind when a host is killed. A
// parent-death signal alone comes too early if the thread that started the program ends first.
const LifelineEnv = "HOOKHOST_LIFELINE_FD"

// holdLifeline calls gone when the host is gone, or does nothing if the variable is not set. If the
// variable names no open descriptor, that is an error.
func holdLifeline(gone func()) error {
	value, ok := os.LookupEnv(LifelineEnv)
	if !ok {
		return nil
	}
	// Programs that the hook starts must not inherit the variable, because the descriptor is closed
	// there.
	if err := os.Unsetenv(LifelineEnv); err != nil {
		return err
	}
	fd, err := strconv.Atoi(value)
	if err != nil || fd <= 2 {
		return fmt.Errorf("%s=%s: not a descriptor", LifelineEnv, value)
	}
	syscall.CloseOnExec(fd)
	// In non-blocking mode, the wait uses a place in the poller instead of a thread.
	if err := syscall.SetNonblock(fd, true); err != nil {
		return fmt.Errorf("%s=%d: %w", LifelineEnv, fd, err)
	}
	pipe := os.NewFile(uintptr(fd), "lifeline")
	go func() {
		// However the read ends, the host is gone.
		_, _ = io.Copy(io.Discard, pipe)
		gone()
	}()
	return nil
}
