package host

import (
	"container/heap"
	"sync"
	"time"

	"github.com/hookhost/hookhost/internal/jobstate"
)

// timers call fire when timers of a hook are due, once for all its jobs that are due together. fire must be quick. However many
// timers there are, one runtime timer waits for the nearest; without any nothing does.
//
// They go by Go's monotonic clock, which nobody sets: see jobstate.Clock.
type timers struct {
	fire func(hook string, jobs []string)
	ask  func(hook string, jobs []string) // in place of fire for timers with Ask; as quick

	mu      sync.Mutex
	queue   alarms
	byJob   map[string]map[string]*alarm // by job and hook; also those that stand still
	nearest *time.Timer
	waits   time.Time // what nearest is set to; zero when it is not
	stopped bool
}

// alarm is one timer of a hook for a job.
type alarm struct {
	job, hook string
	timer     jobstate.Timer // as the record has it, or would have it if it had been written; zero for a repetition
	at        time.Time      // zero while it stands still
	index     int            // in the queue; -1 while it stands still
}

func newTimers(fire func(hook string, jobs []string)) *timers {
	return &timers{fire: fire, ask: fire, byJob: make(map[string]map[string]*alarm)}
}

// replace sets the job's timers, by hook, in place of those that it had. One that is due already rings at once, one without
// a time (at is zero) stands still.
func (c *timers) replace(job string, set map[string]alarm) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for hook, a := range c.byJob[job] {
		if _, kept := set[hook]; !kept {
			c.take(a)
		}
	}
	for hook, a := range set {
		c.put(job, hook, a.timer, a.at)
	}
	c.arm()
}

// repeat has the hook's timers for the jobs ring at that time, whatever their records say; not for those that have another set.
func (c *timers) repeat(hook string, jobs []string, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, job := range jobs {
		if c.byJob[job][hook] == nil {
			c.put(job, hook, jobstate.Timer{}, at)
		}
	}
	c.arm()
}

// of calls f with each timer of the job.
func (c *timers) of(job string, f func(hook string, t jobstate.Timer)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for hook, a := range c.byJob[job] {
		f(hook, a.timer)
	}
}

// drop removes all timers of the job.
func (c *timers) drop(job string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.byJob[job] {
		c.take(a)
	}
	c.arm()
}

// stop removes all timers for good.
func (c *timers) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	c.queue = nil
	clear(c.byJob)
	c.arm()
}

// put sets one timer; c.mu is held.
func (c *timers) put(job, hook string, t jobstate.Timer, at time.Time) {
	if c.stopped {
		return
	}
	a := c.byJob[job][hook]
	if a == nil {
		a = &alarm{job: job, hook: hook, index: -1}
		if c.byJob[job] == nil {
			c.byJob[job] = make(map[string]*alarm)
		}
		c.byJob[job][hook] = a
	}
	a.timer, a.at = t, at
	switch {
	case at.IsZero() && a.index >= 0:
		heap.Remove(&c.queue, a.index)
	case at.IsZero():
	case a.index >= 0:
		heap.Fix(&c.queue, a.index)
	default:
		heap.Push(&c.queue, a)
	}
}

// take removes one timer; c.mu is held.
func (c *timers) take(a *alarm) {
	if a.index >= 0 {
		heap.Remove(&c.queue, a.index)
	}
	if delete(c.byJob[a.job], a.hook); len(c.byJob[a.job]) == 0 {
		delete(c.byJob, a.job)
	}
}

// arm sets the runtime timer to the nearest time; c.mu is held.
func (c *timers) arm() {
	var first time.Time
	if len(c.queue) > 0 {
		first = c.queue[0].at
	}
	switch {
	case first.Equal(c.waits):
		return
	case first.IsZero():
		c.nearest.Stop()
	case c.nearest == nil:
		c.nearest = time.AfterFunc(time.Until(first), c.ring)
	default:
		c.nearest.Reset(time.Until(first))
	}
	c.waits = first
}

func (c *timers) ring() {
	c.mu.Lock()
	due, asks := make(map[string][]string), make(map[string][]string) // jobs by hook
	for now := time.Now(); len(c.queue) > 0 && !c.queue[0].at.After(now); {
		a := c.queue[0]
		c.take(a)
		if a.timer.Ask {
			asks[a.hook] = append(asks[a.hook], a.job)
			continue
		}
		due[a.hook] = append(due[a.hook], a.job)
	}
	c.waits = time.Time{} // nearest has rung
	c.arm()
	c.mu.Unlock()
	for hook, jobs := range due {
		c.fire(hook, jobs)
	}
	for hook, jobs := range asks {
		c.ask(hook, jobs)
	}
}

// alarms is a heap by time.
type alarms []*alarm

func (q alarms) Len() int           { return len(q) }
func (q alarms) Less(i, j int) bool { return q[i].at.Before(q[j].at) }
func (q alarms) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push is heap.Interface's.
func (q *alarms) Push(x any) {
	a := x.(*alarm)
	a.index = len(*q)
	*q = append(*q, a)
}

// Pop is heap.Interface's.
func (q *alarms) Pop() any {
	old := *q
	a := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	a.index = -1
	return a
}
