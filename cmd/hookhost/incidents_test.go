package main_test

import (
	"context"
	"os/exec"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// untilInterrupted returns a context that ends with the test's first SIGINT or SIGTERM, such as by
// Ctrl-C. A test that takes minutes ends early then, and removes what it made. The second one ends
// it at once.
func untilInterrupted(t *testing.T) context.Context {
	ctx, stop := signal.NotifyContext(t.Context(), syscall.SIGINT, syscall.SIGTERM)
	t.Cleanup(stop)
	context.AfterFunc(ctx, stop)
	return ctx
}

// whileLong returns a function that reports whether a run of that length still goes on. A run of no
// length never does, and Ctrl-C ends its test as any other.
func whileLong(t *testing.T, long time.Duration) func() bool {
	if long == 0 {
		return func() bool { return false }
	}
	ctx, began := untilInterrupted(t), time.Now()
	return func() bool { return time.Since(began) < long && ctx.Err() == nil }
}

// apart has a terminal's Ctrl-C pass by a program, which the test ends itself.
func apart(cmd *exec.Cmd) *exec.Cmd {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	return cmd
}

// incidents are what befell the nodes of a test: faults by its own hand, and violations.
type incidents struct {
	test testing.TB

	lock       sync.Mutex
	faults     map[string]int // that were injected, by kind
	violations int
	excused    []*span
}

// span is a time in which a fault may cost events their acceptance.
type span struct {
	to      time.Time // zero while it lasts
	forgets bool      // a daemon that is killed may leave no word of its jobs
}

func newIncidents(t testing.TB) *incidents { return &incidents{test: t, faults: map[string]int{}} }

// count notes a fault.
func (i *incidents) count(fault string) {
	i.lock.Lock()
	defer i.lock.Unlock()
	i.faults[fault]++
}

// wrong notes a violation.
func (i *incidents) wrong(format string, args ...any) {
	i.test.Helper()
	i.lock.Lock()
	i.violations++
	i.lock.Unlock()
	i.test.Errorf(time.Now().Format("15:04:05.000 ")+format, args...)
}

// sums returns how many faults and violations there were.
func (i *incidents) sums() (faults, violations int) {
	i.lock.Lock()
	defer i.lock.Unlock()
	for _, n := range i.faults {
		faults += n
	}
	return faults, i.violations
}

// excuse begins a span in which events may be refused, and returns what ends it.
func (i *incidents) excuse(forgets bool) (end func()) {
	i.lock.Lock()
	defer i.lock.Unlock()
	s := &span{forgets: forgets}
	i.excused = append(i.excused, s)
	return func() {
		i.lock.Lock()
		defer i.lock.Unlock()
		s.to = time.Now()
	}
}

// excuses reports whether an event since then may have been refused for a fault.
func (i *incidents) excuses(then time.Time) bool {
	return i.had(func(s *span) bool { return s.to.IsZero() || s.to.After(then) })
}

// forgets reports whether a daemon that is killed now leaves no word of its jobs.
func (i *incidents) forgets() bool {
	return i.had(func(s *span) bool { return s.forgets && s.to.IsZero() })
}

// forgot reports whether the end of a job since then may have to be told once more, as pbs_mom does
// by its list of jobs.
func (i *incidents) forgot(then time.Time) bool {
	return i.had(func(s *span) bool { return s.forgets && !s.to.IsZero() && s.to.After(then) })
}

func (i *incidents) had(is func(*span) bool) bool {
	i.lock.Lock()
	defer i.lock.Unlock()
	return slices.ContainsFunc(i.excused, is)
}
