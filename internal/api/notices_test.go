package api

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/must"
)

// follow reads the notices of job 1.srv, from after on, in the background.
func follow(t *testing.T, ctx context.Context, c *Client, after int) (got <-chan Notice, ended <-chan error) {
	notices, done := make(chan Notice, 16), make(chan error, 1)
	go func() { done <- c.Notices(ctx, "1.srv", after, func(n Notice) { notices <- n }) }()
	return notices, done
}

// A notice comes while the answer goes on, and the answer ends with the job.
func TestNoticesComeUntilTheJobEnds(t *testing.T) {
	b := &backend{jobs: []Job{job("1.srv", 0)}, lines: make(chan string)}
	got, ended := follow(t, t.Context(), dial(t, serve(t, b)), 4)
	for i, line := range []string{"a", "b \u2028 \"c\""} {
		b.lines <- line
		must.Equal(t, "", Notice{Seq: 5 + i, JobStderr: []string{line}}, must.Receive(t, "a notice", got))
	}
	close(b.lines)
	if err := must.Receive(t, "the end", ended); err != nil {
		t.Errorf("the job is over: %v", err)
	}
}

// Whatever ends the answer but the job's end is an error: the caller asks again.
func TestNoticesBrokenOff(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(s *Server, b *backend, cancel func())
		is   error
	}{
		{"host fails", func(_ *Server, b *backend, _ func()) { b.lines <- "broken" }, io.ErrUnexpectedEOF},
		{"host stops", func(s *Server, _ *backend, _ func()) { s.Shutdown(context.Background()) }, io.ErrUnexpectedEOF},
		{"caller goes", func(_ *Server, _ *backend, cancel func()) { cancel() }, context.Canceled},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var server *Server
			b := &backend{jobs: []Job{job("1.srv", 0)}, lines: make(chan string)}
			c := dial(t, serve(t, b, func(s *Server) { server = s }))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			got, ended := follow(t, ctx, c, 0)
			b.lines <- "a"
			must.Receive(t, "a notice", got)
			tt.end(server, b, cancel)
			if err := must.Receive(t, "the end", ended); !errors.Is(err, tt.is) {
				t.Errorf("error %v, want %v", err, tt.is)
			}
		})
	}
}

// The server's deadlines are for requests; an answer without news outlives them.
func TestNoticesOutliveDeadlines(t *testing.T) {
	b := &backend{jobs: []Job{job("1.srv", 0)}, lines: make(chan string)}
	short := timeouts{header: 20 * time.Millisecond, request: 40 * time.Millisecond, idle: 20 * time.Millisecond,
		answer: 40 * time.Millisecond}
	got, ended := follow(t, t.Context(), dial(t, serve(t, b, func(s *Server) { s.timeouts = short })), 0)
	for range 2 {
		time.Sleep(4 * short.request) // nothing may happen: that is what is tested
		b.lines <- "a"
		must.Receive(t, "a notice", got)
	}
	close(b.lines)
	if err := must.Receive(t, "the end", ended); err != nil {
		t.Error(err)
	}
}

// A job that is not there is refused at once, and a host that is stopped before the first notice
// breaks off.
func TestNoticesRefused(t *testing.T) {
	c := dial(t, serve(t, &backend{}))
	if err := c.Notices(t.Context(), "1.srv", 0, nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("error %v, want %v", err, ErrNotFound)
	}
}
