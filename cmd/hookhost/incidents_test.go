package main_test

import (
	"slices"
	"sync"
	"testing"
	"time"
)

// incidents are what befell the nodes of a test: faults by its own hand, and violations.
type incidents struct {
	test testing.TB

	lock       sync.Mutex
	faults     map[string]int // that were injected, by kind
	violations int
	excused    []*span
}

// span is a time in which a fault may cost events their acceptance: see excuses.
type span struct {
	from, to time.Time // to is zero while it lasts
	forgets  bool      // a daemon that is killed may leave no word of an end
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
	s := &span{from: time.Now(), forgets: forgets}
	i.excused = append(i.excused, s)
	return func() {
		i.lock.Lock()
		defer i.lock.Unlock()
		s.to = time.Now()
	}
}

// since returns the spans that lasted longer than until then.
func (i *incidents) since(then time.Time) (spans []span) {
	i.lock.Lock()
	defer i.lock.Unlock()
	for _, s := range i.excused {
		if s.to.IsZero() || s.to.After(then) {
			spans = append(spans, *s)
		}
	}
	return spans
}

// excuses reports whether an event since then may have been refused for a fault.
func (i *incidents) excuses(then time.Time) bool { return len(i.since(then)) > 0 }

// mayForget reports whether a daemon that is killed may leave no word of an end since then.
func (i *incidents) mayForget(then time.Time) bool {
	return slices.ContainsFunc(i.since(then), func(s span) bool { return s.forgets })
}

// forgets reports whether the end of a job since then may have to be told once more, as pbs_mom
// does by its list of jobs.
func (i *incidents) forgets(then time.Time) bool {
	return slices.ContainsFunc(i.since(then), func(s span) bool { return s.forgets && !s.to.IsZero() })
}
