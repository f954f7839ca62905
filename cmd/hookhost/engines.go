package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/mom"
)

// engines are the host of the job and those that took its place after it died.
type engines struct {
	cli *cli
	cfg *config.File
	log *logrus.Logger

	mu  sync.Mutex
	all []node
}

// restartTime is how long a daemon that died is given to come back before the job goes on without it. systemd starts it
// anew after a second.
const restartTime = 5 * time.Second

// reconnect finds another host for the rest of the job when one has died: the daemon once it is back, or hooks of our
// own. The job's state is on disk and in its cgroup, so either can go on where the dead one stopped. What a living
// host answered stands.
func (e *engines) reconnect(ctx context.Context, cause error) (mom.Engine, error) {
	var answered *api.Error
	if _, ours := e.last().(embedded); ours || errors.As(cause, &answered) {
		return nil, cause
	}
	next, err := e.cli.returned(ctx)
	if err != nil {
		e.log.Warnf("the daemon does not answer (%v): going on without it", cause)
		next, err = e.cli.openNode(ctx, e.cfg, e.log)
	}
	if err != nil {
		return nil, errors.Join(cause, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, next)
	return next, nil
}

// notices follows what hooks tell about the job between events until the job is over or ctx ends. Where the host dies it
// asks whoever takes its place, at growing intervals: nothing announces that one. What is told while nobody is
// there the next host tells, or the epilogue.
func (e *engines) notices(ctx context.Context, id string, tell func(lines []string)) {
	const first, longest = 20 * time.Millisecond, 2 * time.Second
	after, pause := 0, first
	for {
		err := e.last().Notices(ctx, id, after, func(n api.Notice) {
			after, pause = n.Seq, first
			tell(n.JobStderr)
		})
		// A host that does not know of the job, or from before there were notices, has nothing to tell.
		if err == nil || errors.Is(err, api.ErrNotFound) || ctx.Err() != nil {
			return
		}
		select {
		case <-time.After(pause):
			pause = min(2*pause, longest)
		case <-ctx.Done():
			return
		}
	}
}

// returned waits for a daemon that died to be back. Nothing announces that, so it asks at growing intervals.
func (c *cli) returned(ctx context.Context) (node, error) {
	end := time.Now().Add(restartTime)
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		client, err := api.Dial(c.socket)
		if err == nil {
			return client, nil
		}
		if time.Now().After(end) {
			return nil, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (e *engines) last() node {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.all[len(e.all)-1]
}

func (e *engines) Close() {
	for _, engine := range e.all {
		engine.Close()
	}
}
