package jobstate

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Moment is a point in time that outlives the process that saw it. A Moment is on two clocks: the
// wall clock, for people, and the kernel's monotonic clock. The monotonic clock cannot be set, and
// stands still while the machine sleeps. The zero value is no point in time.
type Moment struct {
	Wall time.Time     `json:"wall"`
	Boot string        `json:"boot,omitempty"` // id of the boot that Mono belongs to; "" when that is not known
	Mono time.Duration `json:"mono,omitempty"` // CLOCK_MONOTONIC, in nanoseconds
}

// IsZero reports whether m is no point in time.
func (m Moment) IsZero() bool { return m.Wall.IsZero() }

// Sub returns the time from n to m: by the monotonic clock where both are of one boot, else by the
// wall clock.
func (m Moment) Sub(n Moment) time.Duration {
	if m.Boot != "" && m.Boot == n.Boot {
		return m.Mono - n.Mono
	}
	return m.Wall.Sub(n.Wall)
}

// Add returns the moment d after m, before it when d is negative.
func (m Moment) Add(d time.Duration) Moment {
	m.Wall = m.Wall.Add(d)
	m.Mono += d
	return m
}

// Clock turns the times of this process into Moments and back. A Clock reads the kernel's clock
// once and goes by Go's monotonic readings from there on, so that it runs with a test's clock too.
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

// Moment returns the moment of t, a time that time.Now has returned in this process.
func (c Clock) Moment(t time.Time) Moment {
	return Moment{Wall: t.Round(0), Boot: c.boot, Mono: c.mono + t.Sub(c.base)}
}

// Time returns when m is or was, with a monotonic reading, so that timers set to it ignore the
// wall clock. A moment of another boot is found by the wall clock: there is no other that both
// boots know.
func (c Clock) Time(m Moment) time.Time {
	if m.Boot != "" && m.Boot == c.boot {
		return c.base.Add(m.Mono - c.mono)
	}
	now := time.Now()
	return now.Add(m.Wall.Sub(now))
}
