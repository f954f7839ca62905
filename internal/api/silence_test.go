package api

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/must"
)

// The kernel takes a call for a daemon that is stopped. The caller gives up, whatever the call is.
func TestClientGivesUpASilentHost(t *testing.T) {
	socket := filepath.Join(socketDir(t), "s")
	l, err := net.Listen("unix", socket)
	must.NoError(t, err)
	defer l.Close()
	for name, call := range map[string]func(c *Client) error{
		"event":  func(c *Client) error { _, err := c.Handle(t.Context(), begun("12.srv")); return err },
		"attach": func(c *Client) error { _, err := c.Attach(t.Context(), "12.srv", 7); return err },
		"jobs":   func(c *Client) error { _, err := c.Jobs(t.Context()); return err },
	} {
		c := dial(t, socket)
		c.silence = 100 * time.Millisecond
		if err := call(c); !errors.Is(err, ErrSilent) {
			t.Errorf("%s: %v, want ErrSilent", name, err)
		}
	}
}

// A host that has given a sign of life may take longer for the rest.
func TestClientWaitsForAHostThatWorks(t *testing.T) {
	b := &backend{jobs: []Job{job("12.srv", 0)}}
	b.handle = func(context.Context, *hostapi.Request) (*hostapi.Outcome, error) {
		time.Sleep(4 * time.Second)
		return &hostapi.Outcome{Message: "late"}, nil
	}
	socket := serve(t, b)
	c := dial(t, socket)
	c.silence = 3 * time.Second
	var event sync.WaitGroup
	event.Go(func() {
		if out, err := c.Handle(t.Context(), begun("12.srv")); err != nil || out.Message != "late" {
			t.Errorf("%v, %v", out, err)
		}
	})
	event.Wait()
}
