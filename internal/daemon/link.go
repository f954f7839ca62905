package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/systemd"
)

// Finder connects a command to the daemon, and starts a daemon if none runs.
type Finder struct {
	Paths
	Load  func() (*config.File, error) // reads the configuration, if a daemon is to be started
	Env   []string                     // the caller's
	Waits func()                       // is called once if the start takes long
}

// ownerTime bounds the wait for an owner that neither answers nor lets another be the owner: it
// starts or stops at this moment.
const ownerTime = 10 * time.Second

// Dial connects to the daemon. If none runs, root starts one that goes when it is idle. Two callers
// that do so at once get the same daemon. An owner that does not answer yet is waited for. Dial
// fails with api.ErrNoHost if none can be started.
func (f *Finder) Dial(ctx context.Context) (*api.Client, error) {
	client, err := api.Dial(f.Socket)
	if !errors.Is(err, api.ErrNoHost) || os.Geteuid() != 0 {
		return client, err
	}
	cfg, err := f.Load()
	if err != nil {
		return nil, err
	}
	starter, err := f.starter(cfg)
	if err != nil {
		return nil, err
	}
	end := time.Now().Add(ownerTime)
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		if !owned(locks, cfg.Cgroup.Prefix) {
			if err := starter.Start(ctx); err != nil {
				return nil, fmt.Errorf("%w at %s: %w", api.ErrNoHost, f.Socket, err)
			}
		}
		client, err := api.Dial(f.Socket)
		if !errors.Is(err, api.ErrNoHost) {
			return client, err
		}
		if time.Now().After(end) {
			pid, _ := holder(lockPath(locks, cfg.Cgroup.Prefix))
			return nil, fmt.Errorf("%w: process %d has the jobs of cgroup.prefix %s", err, pid, cfg.Cgroup.Prefix)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// starter returns what starts a daemon of the same paths.
func (f *Finder) starter(cfg *config.File) (*starter, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{"serve", "--until-idle", "--state", f.State, "--socket", f.Socket}
	if f.Must {
		args = append(args, "--config", f.Config)
	}
	return &starter{
		Program: self, Args: args, Env: f.Env, Prefix: cfg.Cgroup.Prefix, Waits: f.Waits,
		Systemd: systemd.New(systemd.Run, time.Duration(cfg.Cgroup.SystemdWait)),
	}, nil
}

// Link is the daemon of a `run`: the first one, and those that took its place after it died.
type Link struct {
	finder *Finder
	prefix string
	log    *logrus.Logger

	mu     sync.Mutex
	client *api.Client // of the last daemon
}

// Open connects to the daemon, and starts one if none runs.
func (f *Finder) Open(ctx context.Context, prefix string, log *logrus.Logger) (*Link, error) {
	client, err := f.Dial(ctx)
	if err != nil {
		return nil, err
	}
	return &Link{finder: f, prefix: prefix, log: log, client: client}, nil
}

// NewJobID returns an id for a job that has none.
func (l *Link) NewJobID(ctx context.Context) (string, error) {
	return call(ctx, l, func(c *api.Client) (string, error) { return c.NewJobID(ctx) })
}

// Handle has a daemon carry out an event: see mom.Engine.
func (l *Link) Handle(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	return call(ctx, l, func(c *api.Client) (*hostapi.Outcome, error) { return c.Handle(ctx, req) })
}

// Report returns the usage report of a job.
func (l *Link) Report(ctx context.Context, id string) (json.RawMessage, error) {
	return call(ctx, l, func(c *api.Client) (json.RawMessage, error) { return c.Report(ctx, id) })
}

// callTime is how long after its first failure a call is begun anew. The daemon after a dead one
// may die as well.
const callTime = 10 * time.Second

// call calls the daemon, and the next one if that has died. The job's state is on disk and in its
// cgroup, so the next daemon goes on where the dead one stopped. The answer of a living daemon
// stands.
func call[T any](ctx context.Context, l *Link, ask func(*api.Client) (T, error)) (T, error) {
	for until := (time.Time{}); ; {
		client := l.current()
		answer, err := ask(client)
		var answered *api.Error
		if err == nil || errors.As(err, &answered) || !until.IsZero() && time.Now().After(until) {
			return answer, err
		}
		if until.IsZero() {
			until = time.Now().Add(callTime)
		}
		if lost := l.redial(ctx, client); lost != nil {
			return answer, errors.Join(err, lost)
		}
	}
}

// restartTime is how long the node's daemon is given to come back before another one is started.
// systemd starts it anew after a second.
const restartTime = 5 * time.Second

// redial connects to the daemon in place of the lost one, unless another goroutine has done so
// since. For a while that is a daemon that comes back, then one that redial starts.
func (l *Link) redial(ctx context.Context, lost *api.Client) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.client != lost {
		return nil
	}
	client, err := l.returned(ctx)
	if errors.Is(err, api.ErrNoHost) {
		client, err = l.finder.Dial(ctx)
	}
	if err != nil {
		return err
	}
	l.log.Warn("the daemon has gone: another one goes on with the job")
	lost.Close()
	l.client = client
	return nil
}

// returned waits for a daemon that died to be back. Nothing announces that, so returned asks at
// growing intervals. A daemon that goes when it is idle is not started anew by anything.
func (l *Link) returned(ctx context.Context) (*api.Client, error) {
	end := time.Now().Add(restartTime)
	if _, untilIdle := holder(lockPath(locks, l.prefix)); untilIdle {
		end = time.Now()
	}
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		client, err := api.Dial(l.finder.Socket)
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

// Notices follows the lines of hooks about the job between events until the job is over or ctx
// ends: see mom.Spec. A daemon that dies is replaced, so that the job's limits are watched. If none
// can be started now, Notices tries again as long as the job runs. The next daemon has the lines
// that come while none is there, or the epilogue.
func (l *Link) Notices(ctx context.Context, id string, write func(lines []string)) {
	const first, longest = 20 * time.Millisecond, 30 * time.Second
	after, pause := 0, first
	for {
		client, began := l.current(), time.Now()
		err := client.Notices(ctx, id, after, func(n api.Notice) {
			after = n.Seq
			write(n.JobStderr)
		})
		// A daemon that does not know of the job has nothing to say.
		if err == nil || errors.Is(err, api.ErrNotFound) || ctx.Err() != nil {
			return
		}
		if time.Since(began) > longest { // a daemon was there
			pause = first
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
		if err := l.redial(ctx, client); err != nil && ctx.Err() == nil {
			l.log.Warn(err)
		}
	}
}

func (l *Link) current() *api.Client {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.client
}

// Close closes the connections to the daemon.
func (l *Link) Close() { l.current().Close() }
