package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/host"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/report"
	"github.com/hookhost/hookhost/internal/sister"
)

// usageTime is how long a host may take to tell what a job has used there: a report that is asked for waits for it.
const usageTime = 3 * time.Second

// newFleet returns the way to other hosts.
func newFleet(s config.Sister, id *api.Identity) *sister.Fleet {
	return sister.New(sister.Options{Identity: id, Port: s.Port, Hosts: s.Hosts, Width: s.Width,
		Connect: time.Duration(s.Connect), Answer: time.Duration(s.Answer)})
}

// sisters is the way to other hosts as this one's Host takes it (host.Sisters).
type sisters struct {
	fleet  *sister.Fleet
	broken error // why there is no fleet
}

var _ host.Sisters = (*sisters)(nil)

// Send is Fleet.Send.
func (s *sisters) Send(ctx context.Context, req *hostapi.Request, hosts []string) map[string]host.SisterAnswer {
	answers := make(map[string]host.SisterAnswer, len(hosts))
	if s.fleet == nil {
		for _, name := range hosts {
			answers[name] = host.SisterAnswer{Err: fmt.Errorf("%s: %w", name, s.broken)}
		}
		return answers
	}
	for name, a := range s.fleet.Send(ctx, req, hosts) {
		answers[name] = host.SisterAnswer{Outcome: a.Outcome, Err: a.Err, Doubt: errors.Is(a.Err, sister.ErrDoubt)}
	}
	return answers
}

// Usage asks hosts for their reports, of which only what is their own counts.
func (s *sisters) Usage(ctx context.Context, id string, hosts []string) map[string]host.SisterUsage {
	told := make(map[string]host.SisterUsage, len(hosts))
	if s.fleet == nil {
		for _, name := range hosts {
			told[name] = host.SisterUsage{Err: fmt.Errorf("%s: %w", name, s.broken)}
		}
		return told
	}
	var mu sync.Mutex
	note := func(name string, u host.SisterUsage) {
		mu.Lock()
		defer mu.Unlock()
		told[name] = u
	}
	errs := s.fleet.Each(ctx, hosts, func(ctx context.Context, name string, c *api.Client) error {
		u, err := usageOn(ctx, c, id, name)
		if err != nil { // not as Each tells it: that this may have been carried out is of no interest
			err = fmt.Errorf("%s: %w", name, err)
		}
		u.Err = err
		note(name, u)
		return nil
	})
	for name, err := range errs { // those that were not called
		note(name, host.SisterUsage{Err: err})
	}
	return told
}

func usageOn(ctx context.Context, c *api.Client, id, name string) (host.SisterUsage, error) {
	ctx, cancel := context.WithTimeout(ctx, usageTime)
	defer cancel()
	text, err := c.Report(ctx, id)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return host.SisterUsage{}, fmt.Errorf("no answer within %v", usageTime)
	case err != nil:
		return host.SisterUsage{}, err
	}
	return ownUsage(text, name)
}

// ownUsage returns what a report says of the host that it comes from.
func ownUsage(text json.RawMessage, name string) (host.SisterUsage, error) {
	r, err := report.FromArchive(text)
	if err != nil {
		return host.SisterUsage{}, err
	}
	told := host.SisterUsage{Ended: r.End != nil}
	for h, usage := range r.Hosts {
		if pbs.SameHost(h, name) {
			told.Usage = usage
		}
	}
	return told, nil
}
