package report

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

func (r *Report) state() string {
	switch {
	case r.NotStarted:
		return fmt.Sprintf("not started (Exit_status %d)", *r.ExitStatus)
	case r.ExitStatus != nil && r.End == nil:
		return "ending, " + exitText(*r.ExitStatus)
	case r.ExitStatus != nil:
		return "finished, " + exitText(*r.ExitStatus)
	case r.End != nil:
		return "finished, exit status not known"
	case r.Start != nil:
		return "running"
	}
	return "not started"
}

// signalOf returns the number of the signal in an exit status, or 0 for another status.
func signalOf(status int) int {
	n := status - 128
	if status > 256 {
		n = status - 256
	}
	if n < 1 || n > 64 {
		return 0
	}
	return n
}

// exitText names the signal in an exit status: 128+N in a shell and in hookhost, 256+N in PBS.
func exitText(status int) string {
	n := signalOf(status)
	if n == 0 {
		return fmt.Sprintf("exit status %d", status)
	}
	name := unix.SignalName(syscall.Signal(n))
	if name == "" {
		name = fmt.Sprintf("signal %d", n) // a real-time signal
	}
	return fmt.Sprintf("killed by %s (Exit_status %d)", name, status)
}
