package main

import (
	"context"
	"sync"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
)

// turns gives each job to one event at a time. The host sends a job's own events one after the
// other, but exechost_startup and exechost_periodic come beside them and look at all jobs. The zero
// value is ready for use.
type turns struct {
	mu    sync.Mutex
	taken map[string]chan struct{} // by job id; closed when the turn is over
}

// turn takes the turn of an event's job, whose cgroup need not exist.
func (h *hook) turn(ctx context.Context, req *hostapi.Request) (j *cgroup.Job, release func(), err error) {
	if j, err = h.job(req); err != nil {
		return nil, nil, err
	}
	release, err = h.turns.wait(ctx, j.ID())
	return j, release, err
}

// wait waits for the job's turn. The error is of KindBusy when ctx ends first.
func (t *turns) wait(ctx context.Context, id string) (release func(), err error) {
	for {
		release, over := t.try(id)
		if release != nil {
			return release, nil
		}
		select {
		case <-over:
		case <-ctx.Done():
			return nil, hostapi.Errorf(hostapi.KindBusy, "job %s: wait for its turn: %w", id, ctx.Err())
		}
	}
}

// try takes the job's turn if it is free. Else release is nil, and over is closed when to try
// again.
func (t *turns) try(id string) (release func(), over <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if over, busy := t.taken[id]; busy {
		return nil, over
	}
	mine := make(chan struct{})
	if t.taken == nil {
		t.taken = map[string]chan struct{}{}
	}
	t.taken[id] = mine
	return func() {
		t.mu.Lock()
		delete(t.taken, id)
		t.mu.Unlock()
		close(mine)
	}, nil
}
