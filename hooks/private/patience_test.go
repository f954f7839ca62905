package main

import (
	"testing"
	"time"
)

// A user who holds up removals makes one event wait, and others hardly. Other users' are waited
// for.
func TestHeldRemovalsDelayOneEvent(t *testing.T) {
	usual := cleanTime
	cleanTime = time.Second
	defer func() { cleanTime = usual }()
	p, never := newPatience(), make(chan struct{})
	took := func(uid int) time.Duration {
		began := time.Now()
		p.wait(t.Context(), uid, never)
		return time.Since(began)
	}
	first, later, other := took(7), took(7)+took(7)+took(7), took(8)
	if first < cleanTime || later > cleanTime || other < cleanTime {
		t.Errorf("events of a user waited %v, then %v; those of another %v", first, later, other)
	}
	p.late[7] = time.Now().Add(-2 * lateTime)
	if again := took(7); again < cleanTime {
		t.Errorf("later on they waited %v", again)
	}
}
