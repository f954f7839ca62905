package main

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/hookhost/hookhost/internal/must"
)

// A user who holds up removals makes one event a minute wait, and others hardly. Other users' are
// waited for.
func TestHeldRemovalsDelayOneEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, never := &patience{}, make(chan struct{})
		wait := func(uid int, want time.Duration) {
			t.Helper()
			began := time.Now()
			p.wait(t.Context(), uid, never)
			must.Equal(t, "the event waits", want, time.Since(began))
		}
		wait(7, cleanTime)
		wait(7, cleanTime/20)
		wait(8, cleanTime)
		time.Sleep(lateTime)
		wait(7, cleanTime)
	})
}
