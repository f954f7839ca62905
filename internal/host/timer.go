package host

import (
	"sync"
	"time"
)

// timers calls ring when the timer of a hook for a job is due. ring must be quick. Each one is a
// timer of the Go runtime, which causes no wake-up before its time.
//
// They use Go's monotonic clock, which nobody can set: see jobstate.Clock.
type timers struct {
	ring func(hook, job string)

	mu      sync.Mutex
	byJob   map[string]map[string]*alarm // by job and hook; none without a hook
	stopped bool
}

// alarm is one timer of a hook for a job.
type alarm struct {
	at      time.Time
	runtime *time.Timer
}

func newTimers(ring func(hook, job string)) *timers {
	return &timers{ring: ring, byJob: make(map[string]map[string]*alarm)}
}

// replace replaces the job's timers, by hook. A timer that is already due rings at once.
func (c *timers) replace(job string, set map[string]alarm) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for hook, a := range c.byJob[job] {
		if next, is := set[hook]; is && next.at.Equal(a.at) {
			delete(set, hook)
			continue
		}
		c.remove(job, hook)
	}
	if c.stopped {
		return
	}
	for hook, a := range set {
		a.runtime = time.AfterFunc(time.Until(a.at), func() { c.due(job, hook, &a) })
		if c.byJob[job] == nil {
			c.byJob[job] = make(map[string]*alarm)
		}
		c.byJob[job][hook] = &a
	}
}

// due rings for the alarm, unless another has replaced it.
func (c *timers) due(job, hook string, a *alarm) {
	c.mu.Lock()
	is := c.byJob[job][hook] == a
	if is {
		c.remove(job, hook)
	}
	c.mu.Unlock()
	if is {
		c.ring(hook, job)
	}
}

// drop removes all timers of the job.
func (c *timers) drop(job string) { c.replace(job, nil) }

// stop removes all timers for good.
func (c *timers) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	for job, hooks := range c.byJob {
		for hook := range hooks {
			c.remove(job, hook)
		}
	}
}

// remove removes one timer; c.mu is held.
func (c *timers) remove(job, hook string) {
	hooks := c.byJob[job]
	hooks[hook].runtime.Stop()
	delete(hooks, hook)
	if len(hooks) == 0 {
		delete(c.byJob, job)
	}
}
