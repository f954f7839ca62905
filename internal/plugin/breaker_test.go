package plugin

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestBreakerOpensAfterCrashesAndClosesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b breaker
		crash := func(n int) {
			for range n {
				b.crash(time.Now())
			}
		}
		open := func() bool { return b.check(time.Now()) != nil }

		crash(4)
		if open() {
			t.Fatal("open after 4 crashes")
		}
		if got := b.retry(time.Now()); got != 8*time.Second {
			t.Errorf("a start is tried again after %v, want 8s", got)
		}
		time.Sleep(crashWindow)
		crash(4)
		if open() {
			t.Fatal("open after 4 crashes in the window and 4 before it")
		}
		crash(1)
		if err := b.check(time.Now()); err == nil || err.Error() != "disabled after 5 crashes in 5m; next try in 30s" {
			t.Fatalf("after 5 crashes: %v", err)
		}
		if got := b.retry(time.Now()); got != 30*time.Second {
			t.Errorf("a start is tried again after %v, want 30s", got)
		}

		// On trial: one crash is enough, and each pause is twice the one before, up to half an
		// hour.
		for pause := 60 * time.Second; pause <= 2*time.Hour; pause *= 2 {
			time.Sleep(time.Until(b.until))
			if open() {
				t.Fatalf("open after its pause of %v", b.pause)
			}
			crash(1)
			if want := min(pause, longestPause); b.pause != want || !open() {
				t.Fatalf("pause %v, want %v", b.pause, want)
			}
		}

		// A while without a crash, and all is forgotten.
		time.Sleep(longestPause + crashWindow + time.Second)
		crash(1)
		if open() || b.pause != 0 {
			t.Errorf("open after a first crash: pause %v", b.pause)
		}
	})
}
