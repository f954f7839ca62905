package host

import (
	"slices"
	"sync"
	"time"

	"github.com/hookhost/hookhost/internal/plugin"
)

// periodics holds the timer of the next exechost_periodic for each hook that handles it.
type periodics struct {
	tick func(*plugin.Plugin) // must be quick

	mu      sync.Mutex
	next    map[*plugin.Plugin]periodic
	stopped bool
}

type periodic struct {
	timer *time.Timer
	freq  time.Duration
}

// schedule sets the time of the hook's next periodic: one period from now. A hook that does not
// handle it has no timer.
func (p *periodics) schedule(hook *plugin.Plugin) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.set(hook)
}

// follow schedules the hooks whose period has changed, and drops those that are not in the list.
func (p *periodics) follow(hooks []*plugin.Plugin) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for hook := range p.next {
		if !slices.Contains(hooks, hook) {
			p.drop(hook)
		}
	}
	for _, hook := range hooks {
		if freq, _ := hook.Period(); freq != p.next[hook].freq {
			p.set(hook)
		}
	}
}

// set is schedule; p.mu is held.
func (p *periodics) set(hook *plugin.Plugin) {
	p.drop(hook)
	if freq, ok := hook.Period(); ok && !p.stopped {
		put(&p.next, hook, periodic{time.AfterFunc(freq, func() { p.tick(hook) }), freq})
	}
}

// drop removes the timer of a hook; p.mu is held.
func (p *periodics) drop(hook *plugin.Plugin) {
	if had, is := p.next[hook]; is {
		had.timer.Stop()
		delete(p.next, hook)
	}
}

// stop removes all timers for good.
func (p *periodics) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	for hook := range p.next {
		p.drop(hook)
	}
}
