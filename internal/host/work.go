package host

import (
	"context"
	"sync"

	"github.com/hookhost/hookhost/internal/jobstate"
)

// work counts the tasks of a host, so that Close can wait for them. Its zero value is open.
type work struct {
	mu     sync.RWMutex
	closed bool
	// Neither group grows after closed is set.
	events     sync.WaitGroup
	background sync.WaitGroup
}

// beginEvent counts an event as begun, and end counts it as over. ok is false when the host is
// closing.
func (w *work) beginEvent() (end func(), ok bool) {
	return w.events.Done, w.enter(&w.events)
}

// goBackground runs f in the background, unless the host is closing. f must end with the host's
// context.
func (w *work) goBackground(f func()) {
	if w.enter(&w.background) {
		go func() { defer w.background.Done(); f() }()
	}
}

func (w *work) enter(group *sync.WaitGroup) bool {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if !w.closed {
		group.Add(1)
	}
	return !w.closed
}

// close prevents new tasks. A second call returns false.
func (w *work) close() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	first := !w.closed
	w.closed = true
	return first
}

// waitFor waits for the group, until ctx is done.
func waitFor(ctx context.Context, group *sync.WaitGroup) {
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// atOnce bounds how many jobs the host ends at the same time.
const atOnce = 8

// eachAtOnce calls do for each of the records, for atOnce of them at a time, and waits for all.
func eachAtOnce(recs []*jobstate.Record, do func(*jobstate.Record)) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for _, rec := range recs {
		slots <- struct{}{}
		wg.Go(func() { defer func() { <-slots }(); do(rec) })
	}
	wg.Wait()
}

// busy is a set of keys, each of which works on one thing at a time. Its zero value is empty.
type busy[K comparable] struct {
	mu   sync.Mutex
	keys map[K]bool
}

// begin returns false if the key is already busy.
func (b *busy[K]) begin(key K) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	first := !b.keys[key]
	put(&b.keys, key, true)
	return first
}

func (b *busy[K]) end(key K) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.keys, key)
}
