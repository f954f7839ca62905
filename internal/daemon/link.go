package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
)

// Link is the connection of a `run` to the daemon. The job's state is in its record and its cgroup.
// So if the daemon dies, the next one continues where it stopped.
type Link struct {
	client *api.Client
	log    *logrus.Logger
	served atomic.Bool // a daemon has answered
	lost   atomic.Bool // no daemon came within away, nor since
	away   time.Duration
}

// Open connects to the daemon at socket. It fails with api.ErrNoHost if none runs.
func Open(socket string, log *logrus.Logger) (*Link, error) {
	client, err := api.Dial(socket)
	if err != nil {
		return nil, err
	}
	return &Link{client: client, log: log, away: awayTime}, nil
}

// NewJobID returns an id for a job that has none.
func (l *Link) NewJobID(ctx context.Context) (string, error) {
	return call(ctx, l, func() (string, error) { return l.client.NewJobID(ctx) })
}

// Handle makes the daemon carry out an event: see mom.Engine.
func (l *Link) Handle(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	return call(ctx, l, func() (*hostapi.Outcome, error) { return l.client.Handle(ctx, req) })
}

// Report returns the usage report of a job.
func (l *Link) Report(ctx context.Context, id string) (json.RawMessage, error) {
	return call(ctx, l, func() (json.RawMessage, error) { return l.client.Report(ctx, id) })
}

// awayTime is how long the daemon may be absent during a job. systemd restarts it after a second.
const awayTime = 30 * time.Second

// call asks the daemon. If the daemon has died, it asks the next one, for up to awayTime. If none
// has come by then, later calls do not wait again. It accepts any answer of a living daemon. It
// does not wait for a daemon that has never answered.
func call[T any](ctx context.Context, l *Link, ask func() (T, error)) (T, error) {
	var end time.Time
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		answer, err := ask()
		var answered *api.Error
		if err == nil || errors.As(err, &answered) {
			l.served.Store(true)
			l.lost.Store(false)
			return answer, err
		}
		hangs := errors.Is(err, api.ErrSilent) && !l.served.Load()
		if !end.IsZero() && time.Now().After(end) {
			l.lost.Store(true)
		}
		if hangs || l.lost.Load() {
			return answer, err
		}
		if end.IsZero() {
			end = time.Now().Add(l.away)
			l.log.Warnf("the daemon has gone; waiting %v for the next: %v", l.away, err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return answer, errors.Join(err, context.Cause(ctx))
		}
	}
}

// Close closes the connections to the daemon.
func (l *Link) Close() { l.client.Close() }
