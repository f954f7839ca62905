package main

import (
	"context"
	"sync"
	"time"
)

// alarm does something at once when it is started, and again after a while as long as that is not done. Then nothing runs but a
// goroutine that sleeps, until somebody sets it.
type alarm struct {
	every time.Duration
	do    func(ctx context.Context) (again bool)
	sets  chan struct{} // of room for one: two that come together are one
	nows  chan struct{} // likewise
}

func newAlarm(every time.Duration, do func(context.Context) bool) *alarm {
	return &alarm{every: every, do: do, sets: make(chan struct{}, 1), nows: make(chan struct{}, 1)}
}

// set has it done after a while, unless it is to be done earlier.
func (a *alarm) set() { signalOnce(a.sets) }

// now has it done at once.
func (a *alarm) now() { signalOnce(a.nows) }

func signalOnce(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// run returns when ctx has ended.
func (a *alarm) run(ctx context.Context) {
	var due <-chan time.Time
	a.now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.sets:
			if due == nil {
				due = time.After(a.every)
			}
			continue
		case <-a.nows:
		case <-due:
		}
		due = nil
		if a.do(ctx) {
			due = time.After(a.every)
		}
	}
}

// hourly bounds how often something is said about each of many: once an hour. The zero value is ready.
type hourly struct {
	mu   sync.Mutex
	last map[string]time.Time
}

// may tells whether something may be said of it now, and takes it for said.
func (h *hourly) may(of string, now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if last, said := h.last[of]; said && now.Sub(last) < time.Hour {
		return false
	}
	if h.last == nil {
		h.last = map[string]time.Time{}
	}
	h.last[of] = now
	return true
}

// forget has the next word be said at once.
func (h *hourly) forget(of string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.last, of)
}
