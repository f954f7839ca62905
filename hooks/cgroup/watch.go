package main

import (
	"context"

	"github.com/hookhost/hookhost/internal/cgroup"
)

// watch is a goroutine that follows a job's memory. It sleeps until the kernel has something to say.
type watch struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// watch starts following a job unless it is followed already. The caller has the job's turn.
func (h *hook) watch(j *cgroup.Job) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.watches[j.ID()]; ok || !h.tree.Has("memory") {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	w := &watch{cancel: cancel, done: make(chan struct{})}
	h.watches[j.ID()] = w
	go func() {
		defer close(w.done)
		defer cancel()
		err := j.Watch(ctx, func(kills int64) {
			h.logOf(j.ID()).Infof("the kernel has killed %d processes for lack of memory", kills)
		})
		if err != nil {
			h.logOf(j.ID()).Warn(err)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.watches[j.ID()] == w {
			delete(h.watches, j.ID())
		}
	}()
}

// stopWatch has the job's watch end soon: it may be in the middle of a system call that takes milliseconds.
func (h *hook) stopWatch(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w := h.watches[id]; w != nil {
		w.cancel()
	}
}

// unwatch stops following the job and waits until nothing holds its files any more.
func (h *hook) unwatch(id string) {
	h.mu.Lock()
	w := h.watches[id]
	h.mu.Unlock()
	if w != nil {
		w.cancel()
		<-w.done
	}
}
