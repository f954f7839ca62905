package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// MaxWarnings is how many warnings a job can have.
const MaxWarnings = 16

// Warning is what a job gets some time before its walltime is over: a line on its standard error, and perhaps a signal.
type Warning struct {
	Before time.Duration  `json:"before"`           // the end; whole seconds, 1 at least
	Signal syscall.Signal `json:"signal,omitempty"` // 0: none
	Shell  bool           `json:"shell,omitempty"`  // for the leading shell only, else for every process
}

// ParseWarning parses [B:][SIG]@SECONDS: "USR1@300", "B:SIGINT@60", "10@5", "@300". SIG is a signal's name, with or without SIG and in any
// case, or its number; without it there is only the line, and no B:. A signal that the kernel or the C library keeps to itself is refused.
func ParseWarning(text string) (Warning, error) {
	w, err := parseWarning(text)
	if err != nil {
		return Warning{}, fmt.Errorf("%q: %w", text, err)
	}
	return w, nil
}

// maxBefore is in seconds.
const maxBefore = 1 << 31

func parseWarning(text string) (w Warning, err error) {
	name, seconds, found := strings.Cut(text, "@")
	if !found {
		return w, errors.New("want [B:]SIG@SECONDS, such as USR1@300")
	}
	name, w.Shell = strings.CutPrefix(name, "B:")
	if name == "" && w.Shell {
		return w, errors.New("B: without a signal")
	}
	if name != "" {
		if w.Signal, err = parseSignal(name); err != nil {
			return w, err
		}
	}
	n, err := strconv.ParseUint(seconds, 10, 64)
	if err != nil || n == 0 || n > maxBefore {
		return w, fmt.Errorf("%q: want a number of seconds before the end, 1 or more", seconds)
	}
	w.Before = time.Duration(n) * time.Second
	return w, nil
}

// The signals that the C library's threads use themselves (SIGCANCEL and SIGSETXID, nptl(7)).
const firstThreads, lastThreads = 32, 33

// lastSignal is the last real-time signal (signal(7)).
const lastSignal = 64

// parseSignal takes USR1, SIGUSR1, usr1 or 10.
func parseSignal(name string) (syscall.Signal, error) {
	n, err := strconv.ParseUint(name, 10, 8)
	sig := syscall.Signal(n)
	if err != nil {
		upper := strings.ToUpper(name)
		if !strings.HasPrefix(upper, "SIG") {
			upper = "SIG" + upper
		}
		sig = unix.SignalNum(upper)
	}
	switch {
	case sig < 1 || sig > lastSignal:
		return 0, fmt.Errorf("%q is not a signal", name)
	case sig == unix.SIGKILL || sig == unix.SIGSTOP:
		return 0, fmt.Errorf("%s is no warning: no program can catch it", unix.SignalName(sig))
	case sig >= firstThreads && sig <= lastThreads:
		return 0, fmt.Errorf("signal %d belongs to the C library", sig)
	}
	return sig, nil
}

// SignalName returns a signal's name, or for one of the real-time signals its number as text.
func SignalName(sig syscall.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", int(sig))
}

// String returns the warning as ParseWarning takes it.
func (w Warning) String() string {
	text := fmt.Sprintf("@%d", w.Before/time.Second)
	if w.Signal == 0 {
		return text
	}
	name := strings.TrimPrefix(unix.SignalName(w.Signal), "SIG")
	if name == "" {
		name = strconv.Itoa(int(w.Signal))
	}
	if w.Shell {
		name = "B:" + name
	}
	return name + text
}
