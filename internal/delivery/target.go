package delivery

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/internal/report"
)

// target is one target of all reports. Its failures are logged once, until it works again.
type target struct {
	name  string // of its setting
	limit time.Duration
	of    func(Targets) string
	send  func(ctx context.Context, to string, r *report.Report) error
	busy  chan struct{} // full while send runs

	mu     sync.Mutex // protects failed
	failed bool
}

func newTarget(name string, limit time.Duration, of func(Targets) string,
	send func(context.Context, string, *report.Report) error) *target {
	return &target{name: name, limit: limit, of: of, send: send, busy: make(chan struct{}, 1)}
}

// deliver delivers a report within the target's limit. A file system that does not answer holds one
// call of send, not one for each report.
func (t *target) deliver(ctx context.Context, to string, r *report.Report) error {
	select {
	case t.busy <- struct{}{}:
	default:
		return errors.New("an earlier report is not delivered yet")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, t.limit, fmt.Errorf("not over after %v", t.limit))
	done := make(chan error, 1)
	go func() {
		defer cancel()
		err := t.send(ctx, to, r)
		<-t.busy
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(time.Second): // for a program that is killed
		return fmt.Errorf("%s: %w", to, context.Cause(ctx))
	}
}

// note logs the result of a delivery.
func (t *target) note(log *logrus.Entry, job string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	log = log.WithField("job", job)
	switch {
	case err == nil && t.failed:
		log.Infof("%s works again", t.name)
	case err != nil && t.failed:
		log.Debugf("%s: %v", t.name, err)
	case err != nil:
		log.Errorf("%s: %v; further failures are logged at level debug until it works again", t.name, err)
	}
	t.failed = err != nil
}
