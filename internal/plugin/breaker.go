package plugin

import (
	"fmt"
	"time"
)

// When a hook counts as broken, and how long it then pauses. The pause doubles with each further
// failure.
const (
	crashLimit   = 5
	crashWindow  = 5 * time.Minute
	firstPause   = 30 * time.Second
	longestPause = 30 * time.Minute
	firstRetry   = time.Second // after a single failed start
)

// breaker keeps a program that crashes repeatedly from being restarted each time. Its zero value is
// closed.
type breaker struct {
	crashes []time.Time // of the last crashWindow
	pause   time.Duration
	until   time.Time // the end of the pause
}

// crash records a crash, an alarm or a start that failed.
func (b *breaker) crash(now time.Time) {
	if b.pause > 0 && now.Sub(b.until) > crashWindow {
		*b = breaker{} // it has worked since
	}
	recent := b.crashes[:0]
	for _, t := range b.crashes {
		if now.Sub(t) < crashWindow {
			recent = append(recent, t)
		}
	}
	b.crashes = append(recent, now)
	// After a pause the hook is on trial: one more crash is enough.
	if len(b.crashes) < crashLimit && b.pause == 0 {
		return
	}
	b.pause = min(max(2*b.pause, firstPause), longestPause)
	b.until = now.Add(b.pause)
}

// check returns why the program must not be started now, or nil if it may be.
func (b *breaker) check(now time.Time) error {
	if left := b.until.Sub(now); left > 0 {
		return fmt.Errorf("disabled after %d crashes in %dm; next try in %v", crashLimit, int(crashWindow.Minutes()),
			left.Round(time.Second))
	}
	return nil
}

// retry returns how long to wait before the start is retried automatically.
func (b *breaker) retry(now time.Time) time.Duration {
	if left := b.until.Sub(now); left > 0 {
		return left
	}
	return firstRetry << max(len(b.crashes)-1, 0)
}
