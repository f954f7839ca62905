package host

import (
	"sync"
	"time"
)

// clock calls fire when a timer of a hook for a job is due, in a goroutine of its own. However many there are, one
// runtime timer waits for the nearest; without any nothing does.
//
// Times carry the monotonic clock while the host lives. After a restart they are the wall clock's, from the job's record.
type clock struct {
	fire func(job, hook string)

	mu      sync.Mutex
	due     map[timerKey]time.Time
	nearest *time.Timer
	stopped bool
}

type timerKey struct{ job, hook string }

func newClock(fire func(job, hook string)) *clock {
	return &clock{fire: fire, due: make(map[timerKey]time.Time)}
}

// set replaces the hook's timer for the job. A time in the past is due at once.
func (c *clock) set(job, hook string, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.due[timerKey{job, hook}] = at
	c.arm()
}

// drop removes all timers of the job.
func (c *clock) drop(job string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k := range c.due {
		if k.job == job {
			delete(c.due, k)
		}
	}
	c.arm()
}

// stop removes all timers for good.
func (c *clock) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	clear(c.due)
	c.arm()
}

// arm sets the runtime timer to the nearest time. c.mu is held.
func (c *clock) arm() {
	if c.nearest != nil {
		c.nearest.Stop()
		c.nearest = nil
	}
	if c.stopped || len(c.due) == 0 {
		return
	}
	var first time.Time
	for _, at := range c.due {
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	c.nearest = time.AfterFunc(time.Until(first), c.ring)
}

func (c *clock) ring() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for k, at := range c.due {
		if !at.After(now) {
			delete(c.due, k)
			go c.fire(k.job, k.hook)
		}
	}
	c.arm()
}
