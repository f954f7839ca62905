package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hookhost/hookhost/internal/cgroup"
)

// watch is a goroutine that watches a job's memory and records its series. The beat takes the
// samples.
type watch struct {
	cancel  context.CancelFunc
	done    chan struct{}
	resized chan struct{} // holds at most one
}

// watch starts watching a job unless it is already watched. The caller holds the job's turn.
func (h *hook) watch(j *cgroup.Job) {
	c := h.chartOf(j)
	ctx, cancel := context.WithCancel(context.Background())
	w := &watch{cancel: cancel, done: make(chan struct{}), resized: make(chan struct{}, 1)}
	first := false
	h.with(j.ID(), func(e *job) {
		if first = e.watch == nil; first {
			e.watch = w
		}
	})
	if !first {
		cancel()
		return
	}
	go func() {
		defer close(w.done)
		defer cancel()
		f := h.follower(j, c)
		var enforcing sync.WaitGroup
		enforcing.Go(func() { f.run(ctx, w.resized) })
		enforcing.Go(func() { h.pin(ctx, j) })
		stop := c.draw()
		h.follow(ctx, cancel, f)
		enforcing.Wait()
		stop()
		if err := j.NoteMemPeak(h.snapshot(j.ID()).mem); err != nil && !errors.Is(err, cgroup.ErrNotFound) {
			h.logOf(j.ID()).Warn(err)
		}
		h.with(j.ID(), func(e *job) {
			if e.watch == w {
				e.watch = nil
			}
		})
	}()
}

// pin makes sure until ctx ends that the processes of a delegated job can be listed.
func (h *hook) pin(ctx context.Context, j *cgroup.Job) {
	unpin, err := j.Pin()
	if err != nil && !errors.Is(err, cgroup.ErrNotFound) {
		h.logOf(j.ID()).Warn(err)
	}
	if unpin != nil {
		<-ctx.Done()
		unpin()
	}
}

// follow watches the job until ctx ends or its cgroup is gone. In the latter case it calls end. A
// watch that fails is restarted, because it enforces the job's mem.
func (h *hook) follow(ctx context.Context, end context.CancelFunc, f *follower) {
	for failed := false; ; failed = true {
		err := f.j.Watch(ctx, func(kills int64) { h.noteOOM(ctx, f.j, kills) }, f.memory)
		switch {
		case err == nil:
			end()
			return
		case errors.Is(err, cgroup.ErrUnsupported): // no memory controller
			return
		case !failed:
			h.logOf(f.j.ID()).Warn(err)
		}
		select {
		case <-time.After(usualPause):
		case <-ctx.Done():
			return
		}
	}
}

// resized makes sure that the job's processes are sampled if its bounds now require that.
func (h *hook) resized(id string) {
	if w := h.snapshot(id).watch; w != nil {
		select {
		case w.resized <- struct{}{}:
		default:
		}
	}
}

// unwatch stops watching the job. It waits until the job's peak is stored and all files of the
// watch are closed.
func (h *hook) unwatch(id string) {
	if w := h.snapshot(id).watch; w != nil {
		w.cancel()
		<-w.done
	}
}
