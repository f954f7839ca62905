package jobstate

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Moment is a point in time that outlives the process that saw it. It is on two clocks: the wall
// clock, for people, and the kernel's monotonic clock. The monotonic clock cannot be set, and
// stands still while the machine sleeps. The zero value is not a point in time.
type Moment struct {
	Wall time.Time     `json:"wall"`
	Boot string        `json:"boot,omitempty"` // id of the boot that Mono belongs to; "" if unknown
	Mono time.Duration `json:"mono,omitempty"` // CLOCK_MONOTONIC, in nanoseconds
}

// IsZero reports whether m is the zero value.
func (m Moment) IsZero() bool { return m.Wall.IsZero() }

// Sub returns the time from n to m, by the monotonic clock if both are of the same boot, else by
// the wall clock.
func (m Moment) Sub(n Moment) time.Duration {
	if m.Boot != "" && m.Boot == n.Boot {
		return m.Mono - n.Mono
	}
	return m.Wall.Sub(n.Wall)
}

// Add returns the moment d after m, or before it if d is negative.
func (m Moment) Add(d time.Duration) Moment {
	m.Wall = m.Wall.Add(d)
	m.Mono += d
	return m
}

// Clock converts the times of this process to Moments and back. It reads the kernel's clock once
// and then uses Go's monotonic readings, so that it also runs with a test's clock.
type Clock struct {
	boot string
	base time.Time
	mono time.Duration // at base
}

// NewClock returns the clock of the boot with that id.
func NewClock(boot string) (Clock, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return Clock{}, fmt.Errorf("read monotonic clock: %w", err)
	}
	return Clock{boot: boot, base: time.Now(), mono: time.Duration(ts.Nano())}, nil
}

// Now returns this moment.
func (c Clock) Now() Moment { return c.Moment(time.Now()) }

// Moment returns the moment of t, which time.Now has returned in this process.
func (c Clock) Moment(t time.Time) Moment {
	return Moment{Wall: t.Round(0), Boot: c.boot, Mono: c.mono + t.Sub(c.base)}
}

// Time returns the time of m with a monotonic reading, so that timers set to it ignore the wall
// clock. For a moment of another boot it uses the wall clock, the only one that both boots share.
func (c Clock) Time(m Moment) time.Time {
	if m.Boot != "" && m.Boot == c.boot {
		return c.base.Add(m.Mono - c.mono)
	}
	now := time.Now()
	return now.Add(m.Wall.Sub(now))
}
