package daemon

import (
	"sync"
	"time"
)

// idleness finds out when a daemon has had neither a client nor a job for a while. An idleness
// sleeps between changes. Its methods may be called at the same time. A nil idleness is that of a
// daemon that stays.
type idleness struct {
	linger time.Duration
	done   chan struct{}

	mu      sync.Mutex
	jobs    func() bool
	timer   *time.Timer // nil before Start
	clients int
	changes int // clients that came or went, and jobs that ended
}

// newIdle returns an idleness whose Done is closed when there was nobody for linger.
func newIdle(linger time.Duration) *idleness {
	return &idleness{linger: linger, done: make(chan struct{})}
}

// Start counts from now. jobs reports whether there are jobs, and is asked only after linger
// without a change.
func (i *idleness) Start(jobs func() bool) {
	if i == nil {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.jobs, i.timer = jobs, time.AfterFunc(i.linger, i.decide)
}

// Clients notes that clients came, or went where the number is below 0.
func (i *idleness) Clients(change int) { i.note(change) }

// JobEnded notes that a job is over.
func (i *idleness) JobEnded() { i.note(0) }

// Done is closed once the daemon is idle, and is nil for a daemon that stays.
func (i *idleness) Done() <-chan struct{} {
	if i == nil {
		return nil
	}
	return i.done
}

func (i *idleness) note(clients int) {
	if i == nil {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.clients += clients
	i.changes++
	if i.timer != nil {
		i.timer.Reset(i.linger)
	}
}

// decide closes Done after linger without a change, if there is nobody. A client or job that is
// still there makes a change when it ends.
func (i *idleness) decide() {
	i.mu.Lock()
	before := i.changes
	i.mu.Unlock()
	if i.jobs() {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	select {
	case <-i.done:
	default:
		if i.clients == 0 && i.changes == before {
			close(i.done)
		}
	}
}
