package host

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Bounds on users' requests that wait for one job. A job may have as many ranks on a host as the
// host has cpus, and a launcher attaches them all at once. The time is longer than the alarm of any
// hook of hookhost.
const (
	maxRequests = 1024
	requestWait = 2 * time.Minute
)

// class is the priority of an event in the job's queue.
type class int

const (
	// course is the job's life: its begin, its end and everything in between, reported by MoM, root
	// or the host itself. The order of these events does not change.
	course class = iota
	// inquiry is a request of root that does not change the course of the job: attach, report.
	inquiry
	// request is a user's request, within the bounds above.
	request
)

// turns hands out one turn at a time for each job: by class, and within a class in the order of
// arrival. So the end of a job waits only for the holder of the turn, not for any request. A job
// whose turn nobody holds or wants takes no memory.
type turns struct {
	mu      sync.Mutex
	waiting map[string][]waiter // has a key while the turn is taken
}

type waiter struct {
	class class
	turn  chan struct{}
}

// acquire waits for the job's turn and returns the function that releases it. The wait fails if ctx
// ends first. A request fails at once if too many wait. If the turn is free, only a request needs a
// ctx that has not ended.
func (q *turns) acquire(ctx context.Context, id string, c class) (release func(), err error) {
	if c == request {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, requestWait, fmt.Errorf("no turn in %v", requestWait))
		defer cancel()
	}
	turn, err := q.enter(id, c)
	if err != nil {
		return nil, err
	}
	if turn != nil {
		select {
		case <-turn:
		case <-ctx.Done():
			q.giveUp(id, turn)
			return nil, context.Cause(ctx)
		}
	}
	if c == request && ctx.Err() != nil {
		q.release(id)
		return nil, context.Cause(ctx)
	}
	return func() { q.release(id) }, nil
}

// enter takes the turn, or a place in the queue: the channel turn is closed when the turn comes.
func (q *turns) enter(id string, c class) (turn chan struct{}, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	line, taken := q.waiting[id]
	if !taken {
		put(&q.waiting, id, nil)
		return nil, nil
	}
	if first := behind(line, inquiry); c == request && len(line)-first >= maxRequests {
		return nil, fmt.Errorf("%d requests are already waiting, which is the limit", maxRequests)
	}
	turn = make(chan struct{})
	q.waiting[id] = slices.Insert(line, behind(line, c), waiter{c, turn})
	return turn, nil
}

// behind returns how many in the queue come before the next one of that class.
func behind(line []waiter, c class) int {
	n := slices.IndexFunc(line, func(w waiter) bool { return w.class > c })
	if n < 0 {
		return len(line)
	}
	return n
}

// try takes the job's turn if it is free; otherwise release is nil.
func (q *turns) try(id string) (release func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, taken := q.waiting[id]; taken {
		return nil
	}
	put(&q.waiting, id, nil)
	return func() { q.release(id) }
}

// tryAll takes the turns that are free; release returns them all.
func (q *turns) tryAll(ids []string) (free, busy []string, release func()) {
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

// giveUp gives up a place in the queue, or the turn if it came at the same moment.
func (q *turns) giveUp(id string, turn chan struct{}) {
	q.mu.Lock()
	line := q.waiting[id]
	if i := slices.IndexFunc(line, func(w waiter) bool { return w.turn == turn }); i >= 0 {
		q.waiting[id] = slices.Delete(line, i, i+1)
		q.mu.Unlock()
		return
	}
	q.mu.Unlock()
	q.release(id)
}

func (q *turns) release(id string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	line := q.waiting[id]
	if len(line) == 0 {
		delete(q.waiting, id)
		return
	}
	q.waiting[id] = line[1:]
	close(line[0].turn)
}
