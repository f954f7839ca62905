package main

import (
	"context"
	"errors"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/internal/cgroup"
)

// watch is a goroutine that follows a job's memory. It sleeps until the kernel has something to say.
type watch struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// watch starts following a job unless it is followed already.
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
		err := j.Watch(ctx, func(kills int64) {
			h.log.WithFields(logFields(j)).Infof("the kernel has killed %d processes for lack of memory", kills)
		})
		if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, cgroup.ErrNotFound) {
			h.log.WithFields(logFields(j)).Warnf("watch memory: %v", err)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.watches[j.ID()] == w {
			delete(h.watches, j.ID())
		}
	}()
}

// forget stops following a job, waits until nothing holds its files any more, and answers for its cgroup no longer.
func (h *hook) forget(id string) {
	h.mu.Lock()
	w := h.watches[id]
	delete(h.watches, id)
	delete(h.made, id)
	h.mu.Unlock()
	if w != nil {
		w.cancel()
		<-w.done
	}
}

func logFields(j *cgroup.Job) logrus.Fields { return logrus.Fields{"job": j.ID()} }
