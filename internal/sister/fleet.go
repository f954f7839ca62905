// Package sister runs jobs on several hosts. Spread is a decorator around the host: it has the
// job's other hosts carry out each event as well. Jobs gathers usage and passes signals on. Fleet
// calls the hookhosts of other hosts: many at the same time, each in a bounded time. A call that
// may have been carried out, though no answer came, is ErrDoubt.
//
// A call is not repeated. A host that missed the end of a job asks the job's head about it (Heads).
// Under pbs_mom, which tells each host itself, only usage is asked for.
package sister

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/config"
)

// ErrDoubt is of a call that may have been carried out: the connection broke after it was sent, or
// no answer came in time.
var ErrDoubt = errors.New("it may have been carried out")

// Fleet calls other hosts. Its methods may be called at the same time.
type Fleet struct {
	conf     config.Sister
	identity *api.Identity

	mu      sync.Mutex
	clients map[string]*api.Client
}

// NewFleet returns the way to other hosts. No connection is made yet.
func NewFleet(s config.Sister, id *api.Identity) *Fleet {
	return &Fleet{conf: s, identity: id, clients: map[string]*api.Client{}}
}

// Close closes the idle connections.
func (f *Fleet) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.clients {
		c.Close()
	}
	clear(f.clients)
}

// client returns the host's client, which keeps its connection between calls.
func (f *Fleet) client(host string) *api.Client {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.clients[host]
	if c == nil {
		addr := f.conf.Hosts[host]
		if addr == "" {
			addr = net.JoinHostPort(host, strconv.Itoa(f.conf.Port))
		}
		c = api.DialTLS(addr, host, f.identity, time.Duration(f.conf.Connect))
		f.clients[host] = c
	}
	return c
}

// Each calls call once for each host, sister.width at a time, whatever becomes of the others. The
// errors come back by host when the last call is over. A call's ctx ends when its host had its
// time; a call that has not begun when ctx ends is not made. Each error names its host and is
// ErrDoubt where that holds. Several Eachs do not wait for each other: hosts that hang over one job
// keep no other waiting.
func (f *Fleet) Each(
	ctx context.Context, hosts []string, call func(ctx context.Context, host string, c *api.Client) error,
) map[string]error {
	errs := make(map[string]error)
	var mu sync.Mutex
	var calls sync.WaitGroup
	note := func(host string, err error) {
		if err == nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		errs[host] = err
	}
	slots := make(chan struct{}, max(f.conf.Width, 1))
	begun := make(map[string]bool, len(hosts))
	for _, host := range hosts {
		if begun[host] {
			continue
		}
		begun[host] = true
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			note(host, fmt.Errorf("%s: not called: %w", host, context.Cause(ctx)))
			continue
		}
		calls.Go(func() {
			defer func() { <-slots }()
			note(host, f.one(ctx, host, call))
		})
	}
	calls.Wait()
	return errs
}

func (f *Fleet) one(
	ctx context.Context, host string, call func(ctx context.Context, host string, c *api.Client) error,
) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(f.conf.Connect+f.conf.Answer))
	defer cancel()
	err := call(ctx, host, f.client(host))
	if err == nil {
		return nil
	}
	var answered *api.Error
	certain := errors.Is(err, api.ErrUnsent) || errors.Is(err, api.ErrVersion) || errors.As(err, &answered)
	switch {
	case certain:
		return fmt.Errorf("%s: %w", host, err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: no answer in time: %w", host, ErrDoubt)
	}
	return fmt.Errorf("%s: %w: %w", host, err, ErrDoubt)
}

// Answer is what a host made of an event: an outcome or an error, never both.
type Answer struct {
	Outcome *hostapi.Outcome
	Err     error // names the host; errors.Is(Err, ErrDoubt) where it may have been carried out all the same
}

// Send has hosts carry out an event, each as its own, and returns one answer for each of them. No
// host is called twice.
func (f *Fleet) Send(ctx context.Context, req *hostapi.Request, hosts []string) map[string]Answer {
	answers := make(map[string]Answer, len(hosts))
	var mu sync.Mutex
	errs := f.Each(ctx, hosts, func(ctx context.Context, host string, c *api.Client) error {
		out, err := c.Handle(ctx, req)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		answers[host] = Answer{Outcome: out}
		return nil
	})
	for host, err := range errs {
		answers[host] = Answer{Err: err}
	}
	return answers
}

// Attach has another host attach a process of its own to a job. The answer of that host's hooks
// comes back, a rejection too.
func (f *Fleet) Attach(ctx context.Context, host string, in api.AttachRequest) (api.Attached, error) {
	var out api.Attached
	errs := f.Each(ctx, []string{host}, func(ctx context.Context, _ string, c *api.Client) error {
		var err error
		out, err = c.Attach(ctx, "", in.Job, in.PID)
		if err != nil && out.Outcome != nil && out.Outcome.Reject {
			err = nil
		}
		return err
	})
	if e, answered := errors.AsType[*api.Error](errs[host]); answered { // as it is, but with the host's name
		return api.Attached{}, &api.Error{Status: e.Status, Kind: e.Kind, Message: host + ": " + e.Message}
	}
	return out, errs[host]
}
