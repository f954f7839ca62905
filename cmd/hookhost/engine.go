package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/daemon"
	"github.com/hookhost/hookhost/internal/mom"
	"github.com/hookhost/hookhost/internal/systemd"
)

// engine is the daemon of a `run`: the first one, and those that took its place after it died.
type engine struct {
	cli    *cli
	cfg    *config.File
	log    *logrus.Logger
	client *api.Client // of the first

	mu  sync.Mutex
	all []*api.Client
}

// openEngine connects to the daemon, and starts one where none runs.
func (c *cli) openEngine(ctx context.Context, cfg *config.File, log *logrus.Logger) (*engine, error) {
	client, err := c.openDaemon(ctx)
	if err != nil {
		return nil, err
	}
	return &engine{cli: c, cfg: cfg, log: log, client: client, all: []*api.Client{client}}, nil
}

// ownerTime bounds the wait for an owner that neither answers nor lets another be the owner: it
// starts or stops at this moment.
const ownerTime = 10 * time.Second

// openDaemon connects to the daemon. Where none runs it starts one that goes when it is idle. Two
// that do so at once get the same daemon. It fails with api.ErrNoHost where none can be started.
func (c *cli) openDaemon(ctx context.Context) (*api.Client, error) {
	client, err := api.Dial(c.socket)
	if !errors.Is(err, api.ErrNoHost) || os.Geteuid() != 0 {
		return client, err
	}
	cfg, err := c.load()
	if err != nil {
		return nil, err
	}
	starter, err := c.starter(cfg)
	if err != nil {
		return nil, err
	}
	end := time.Now().Add(ownerTime)
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		if err := starter.Start(ctx); err != nil {
			return nil, fmt.Errorf("%w at %s: %w", api.ErrNoHost, c.socket, err)
		}
		client, err := api.Dial(c.socket)
		if !errors.Is(err, api.ErrNoHost) {
			return client, err
		}
		if time.Now().After(end) {
			pid, _ := daemon.Holder(daemon.Dir, cfg.Cgroup.Prefix)
			return nil, fmt.Errorf("%w: process %d has the jobs of cgroup.prefix %s", err, pid, cfg.Cgroup.Prefix)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// starter starts a daemon as this command was told to find one.
func (c *cli) starter(cfg *config.File) (*daemon.Starter, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{"serve", "--until-idle", "--state", c.state, "--socket", c.socket}
	if c.named {
		args = append(args, "--config", c.config)
	}
	return &daemon.Starter{
		Program: self, Args: args, Env: os.Environ(), Prefix: cfg.Cgroup.Prefix,
		Systemd: systemd.New(systemd.Run, time.Duration(cfg.Cgroup.SystemdWait)),
		Waits:   func() { fmt.Fprintln(stderr, "hookhost: waiting for the daemon to start") },
	}, nil
}

// newJobID returns an id for a job that has none. A daemon that went before it answered is replaced.
func (e *engine) newJobID(ctx context.Context) (string, error) {
	id, err := e.client.NewJobID(ctx)
	if err == nil {
		return id, nil
	}
	if _, err := e.reconnect(ctx, err); err != nil {
		return "", err
	}
	e.client = e.last()
	return e.client.NewJobID(ctx)
}

// restartTime is how long the node's daemon is given to come back before another one is started.
// systemd starts it anew after a second.
const restartTime = 5 * time.Second

// reconnect finds another daemon for the rest of the job when one has died. The job's state is on
// disk and in its cgroup, so the next daemon goes on where the dead one stopped. What a living
// daemon answered stands.
func (e *engine) reconnect(ctx context.Context, cause error) (mom.Engine, error) {
	var answered *api.Error
	if errors.As(cause, &answered) {
		return nil, cause
	}
	client, err := e.redial(ctx, e.last())
	if err != nil {
		return nil, errors.Join(cause, err)
	}
	return client, nil
}

// redial returns the daemon in place of the lost one: for a while the one that comes back, then one
// that it starts. It does nothing where somebody else has redialed since.
func (e *engine) redial(ctx context.Context, lost *api.Client) (*api.Client, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if next := e.all[len(e.all)-1]; next != lost {
		return next, nil
	}
	client, err := e.returned(ctx)
	if errors.Is(err, api.ErrNoHost) {
		client, err = e.cli.openDaemon(ctx)
	}
	if err != nil {
		return nil, err
	}
	e.log.Warn("the daemon has gone: another one goes on with the job")
	e.all = append(e.all, client)
	return client, nil
}

// returned waits for a daemon that died to be back. Nothing announces that, so returned asks at
// growing intervals. Nobody starts a daemon anew that goes when it is idle.
func (e *engine) returned(ctx context.Context) (*api.Client, error) {
	end := time.Now().Add(restartTime)
	if _, untilIdle := daemon.Holder(daemon.Dir, e.cfg.Cgroup.Prefix); untilIdle {
		end = time.Now()
	}
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		client, err := api.Dial(e.cli.socket)
		if err == nil || time.Now().After(end) {
			return client, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// notices follows what hooks tell about the job between events until the job is over or ctx ends.
// A daemon that dies is replaced, so that somebody watches the job's limits. What is told while
// nobody is there the next daemon tells, or the epilogue.
func (e *engine) notices(ctx context.Context, id string, write func(lines []string)) {
	const first, longest = 20 * time.Millisecond, 2 * time.Second
	after, pause := 0, first
	for {
		client := e.last()
		err := client.Notices(ctx, id, after, func(n api.Notice) {
			after, pause = n.Seq, first
			write(n.JobStderr)
		})
		// A daemon that does not know of the job has nothing to tell.
		if err == nil || errors.Is(err, api.ErrNotFound) || ctx.Err() != nil {
			return
		}
		select {
		case <-time.After(pause):
			pause = min(2*pause, longest)
		case <-ctx.Done():
			return
		}
		var answered *api.Error
		if errors.As(err, &answered) {
			continue
		}
		if _, err := e.redial(ctx, client); err != nil {
			e.log.Warn(err)
			return
		}
	}
}

func (e *engine) last() *api.Client {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.all[len(e.all)-1]
}

func (e *engine) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, client := range e.all {
		client.Close()
	}
}
