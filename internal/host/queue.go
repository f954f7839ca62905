package host

import (
	"context"
	"slices"
	"sync"
)

// queues gives out one turn at a time for each job, in the order in which they were asked for. A job for which nobody
// has or wants a turn takes no memory.
type queues struct {
	mu      sync.Mutex
	waiting map[string][]chan struct{} // a key is there while the turn is taken
}

// take waits for the job's turn and returns the function that ends it. It fails when ctx ends first.
func (q *queues) take(ctx context.Context, id string) (release func(), err error) {
	q.mu.Lock()
	if q.waiting == nil {
		q.waiting = make(map[string][]chan struct{})
	}
	line, taken := q.waiting[id]
	if !taken {
		q.waiting[id] = nil
		q.mu.Unlock()
		return func() { q.release(id) }, nil
	}
	turn := make(chan struct{})
	q.waiting[id] = append(line, turn)
	q.mu.Unlock()
	select {
	case <-turn:
		return func() { q.release(id) }, nil
	case <-ctx.Done():
		q.leave(id, turn)
		return nil, context.Cause(ctx)
	}
}

// try takes the job's turn if nobody has it; else release is nil.
func (q *queues) try(id string) (release func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, taken := q.waiting[id]; taken {
		return nil
	}
	put(&q.waiting, id, nil)
	return func() { q.release(id) }
}

// tryAll takes the turns of those jobs whose turn nobody has; release ends them all.
func (q *queues) tryAll(ids []string) (free, busy []string, release func()) {
	var releases []func()
	for _, id := range ids {
		if r := q.try(id); r != nil {
			free, releases = append(free, id), append(releases, r)
		} else {
			busy = append(busy, id)
		}
	}
	return free, busy, func() {
		for _, r := range releases {
			r()
		}
	}
}

// leave gives up a place in the line, or the turn if it came at the same moment.
func (q *queues) leave(id string, turn chan struct{}) {
	q.mu.Lock()
	if i := slices.Index(q.waiting[id], turn); i >= 0 {
		q.waiting[id] = slices.Delete(q.waiting[id], i, i+1)
		q.mu.Unlock()
		return
	}
	q.mu.Unlock()
	q.release(id)
}

func (q *queues) release(id string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	line := q.waiting[id]
	if len(line) == 0 {
		delete(q.waiting, id)
		return
	}
	q.waiting[id] = line[1:]
	close(line[0])
}
