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

// Warning is sent to a job some time before its walltime runs out: a line on its standard error,
// and optionally a signal.
type Warning struct {
	Before time.Duration  `json:"before"`           // the end; whole seconds, at least 1
	Signal syscall.Signal `json:"signal,omitempty"` // 0: none
	Shell  bool           `json:"shell,omitempty"`  // only for the leading shell, otherwise for every process
}

// ParseWarning parses [B:][SIG]@SECONDS: "USR1@300", "B:SIGINT@60", "10@5", "RTMIN+3@60", "@300".
// parseSignal parses SIG. A warning without SIG is only the line, and cannot have B:.
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
		//lint:ignore ST1005 B: is the syntax that the error is about
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

// The signals that the C library uses for its threads (SIGCANCEL and SIGSETXID, nptl(7)).
const firstThreads, lastThreads = 32, 33

// The real-time signals that programs can use, as the C library counts them (signal(7)).
const firstSignal, lastSignal = 34, 64

// parseSignal accepts a signal's name, with or without SIG and in any case, or its number: USR1,
// SIGUSR1, usr1, 10; RTMIN+3, RTMAX-1. It fails for signals that no program can catch, or that the
// C library uses itself.
func parseSignal(name string) (syscall.Signal, error) {
	n, err := strconv.ParseUint(name, 10, 8)
	sig := syscall.Signal(n)
	if err != nil {
		plain := strings.TrimPrefix(strings.ToUpper(name), "SIG")
		if sig = realTime(plain); sig == 0 {
			sig = unix.SignalNum("SIG" + plain)
		}
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

// realTime parses RTMIN, RTMIN+N, RTMAX or RTMAX-N. For anything else, or a number out of range, it
// returns 0.
func realTime(name string) syscall.Signal {
	base, sign := firstSignal, "+"
	rest, found := strings.CutPrefix(name, "RTMIN")
	if !found {
		base, sign = lastSignal, "-"
		if rest, found = strings.CutPrefix(name, "RTMAX"); !found {
			return 0
		}
	}
	if rest == "" {
		return syscall.Signal(base)
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(rest, sign), 10, 8)
	if err != nil || !strings.HasPrefix(rest, sign) || n > lastSignal-firstSignal {
		return 0
	}
	if sign == "-" {
		return syscall.Signal(base - int(n))
	}
	return syscall.Signal(base + int(n))
}

// SignalName returns a signal's name, or the number of a real-time signal as text.
func SignalName(sig syscall.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", int(sig))
}

// String formats the warning for ParseWarning.
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
