package host

import (
	"context"
	"time"
)

// bucket lets a burst pass and then one at a time.
type bucket struct {
	burst int
	every time.Duration
	left  int
	at    time.Time // when left was right
}

func newBucket(burst int, every time.Duration) bucket {
	return bucket{burst: burst, every: every, left: burst, at: time.Now()}
}

// wait returns how long it is until one more may pass.
func (b *bucket) wait() time.Duration {
	grown := int(time.Since(b.at) / b.every)
	if b.left += grown; b.left >= b.burst {
		b.left, b.at = b.burst, time.Now()
	} else {
		b.at = b.at.Add(time.Duration(grown) * b.every)
	}
	if b.left > 0 {
		return 0
	}
	return time.Until(b.at.Add(b.every))
}

// try tells whether one more may pass now, and lets it.
func (b *bucket) try() bool {
	if b.wait() > 0 {
		return false
	}
	b.left--
	return true
}

// take waits until one more may pass; false when ctx ended first.
func (b *bucket) take(ctx context.Context) bool {
	if pause := b.wait(); pause > 0 {
		wait := time.NewTimer(pause)
		defer wait.Stop()
		select {
		case <-wait.C:
		case <-ctx.Done():
			return false
		}
		b.left, b.at = 1, b.at.Add(b.every)
	}
	b.left--
	return true
}
