package api

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/must"
)

func TestMalformedEvents(t *testing.T) {
	b := &backend{}
	socket := serve(t, b)
	begin := "/v1/events/execjob_begin"
	large := strings.Repeat("x", 50<<20)
	tests := []struct {
		name, path, body string
		status           int
		kind             string
	}{
		{"empty", begin, "", 400, KindMalformed},
		{"garbage", begin, "\x00\xff\x1b[31m", 400, KindMalformed},
		{"cut short", begin, `{"job":{"id":"12.srv"`, 400, KindMalformed},
		{"no job", begin, `{}`, 400, KindMalformed},
		{"bad id", begin, `{"job":{"id":"../../etc"}}`, 400, KindMalformed},
		{"wrong type", begin, `{"job":{"id":"12.srv","owner":7}}`, 400, KindMalformed},
		{"deep", begin, strings.Repeat("[", 1<<20), 400, KindMalformed},
		{"another event", begin, `{"event":"execjob_end","job":{"id":"12.srv"}}`, 400, KindMalformed},
		{"unknown event", "/v1/events/execjob_nonsense", `{"job":{"id":"12.srv"}}`, 400, KindMalformed},
		{"50 MB", begin, `{"job":{"id":"12.srv","name":"` + large + `"}}`, 413, KindTooLarge},
		{"50 MB of an unknown key", begin, `{"x":"` + large + `","job":{"id":"12.srv"}}`, 413, KindTooLarge},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := rawCall(socket, "POST", tt.path, tt.body)
			if err != nil || got.Status != tt.status || !strings.Contains(got.Body, `"kind":"`+tt.kind+`"`) {
				t.Errorf("%d %.200s, %v; want %d %s", got.Status, got.Body, err, tt.status, tt.kind)
			}
			if strings.Count(got.Body, "\n") != 1 {
				t.Errorf("not one line: %q", got.Body)
			}
		})
	}
	// The same without a length in advance.
	client := dial(t, socket)
	if _, err := client.Handle(t.Context(),
		&hostapi.Request{Event: hostapi.EventBegin, Job: &hostapi.Job{ID: "12.srv", Name: large}}); !isStatus(err,
		413) {
		t.Errorf("50 MB through the client: %v", err)
	}
	if len(b.seen()) > 0 {
		t.Errorf("carried out: %v", b.seen())
	}
	if _, err := client.Handle(t.Context(), begun("12.srv")); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func isStatus(err error, status int) bool {
	var e *Error
	return errors.As(err, &e) && e.Status == status
}

func begun(id string) *hostapi.Request {
	return &hostapi.Request{Event: hostapi.EventBegin, Job: &hostapi.Job{ID: id}}
}

// TestSlowCallers opens connections that never get to the point.
func TestSlowCallers(t *testing.T) {
	b := &backend{}
	socket := serve(t, b, func(s *Server) {
		s.timeouts.header, s.timeouts.request, s.timeouts.idle = 50*time.Millisecond, 100*time.Millisecond,
			50*time.Millisecond
	})
	tests := []struct {
		name, head, drip string
	}{
		{"nothing", "", ""},
		{"header", "POST /v1/events/execjob_begin HTTP/1.1\r\n", "X-A: b\r\n"},
		{"body", "POST /v1/events/execjob_begin HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n", " "},
		{"chunks", "POST /v1/events/execjob_begin HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
			"1\r\n \r\n"},
		{"idle", "GET /v1/jobs HTTP/1.1\r\nHost: x\r\n\r\n", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("unix", socket)
			must.NoError(t, err)
			defer conn.Close()
			io.WriteString(conn, tt.head) // an error is of a connection that has ended already
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				io.Copy(io.Discard, conn)
			}()
			drip := time.NewTicker(10 * time.Millisecond)
			defer drip.Stop()
			tooLong := time.After(10 * time.Second)
			for {
				select {
				case <-ended:
					return
				case <-tooLong:
					t.Fatal("the connection is still open")
				case <-drip.C:
					io.WriteString(conn, tt.drip)
				}
			}
		})
	}
	t.Cleanup(func() {
		if len(b.seen()) > 0 {
			t.Errorf("carried out: %v", b.seen())
		}
	})
}

// TestEventOutlivesCaller pins that an event is carried out to its end though nobody waits for it
// any more.
func TestEventOutlivesCaller(t *testing.T) {
	begins, goOn, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	b := &backend{handle: func(ctx context.Context, _ *hostapi.Request) (*hostapi.Outcome, error) {
		close(begins)
		<-goOn
		done <- ctx.Err()
		return nil, nil
	}}
	client := dial(t, serve(t, b))
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := client.Handle(ctx, begun("12.srv"))
		failed <- err
	}()
	<-begins
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("the caller got %v", err)
	}
	close(goOn)
	if err := <-done; err != nil {
		t.Errorf("the event's context: %v", err)
	}
}

// TestLongEvent takes longer than every timeout of a connection.
func TestLongEvent(t *testing.T) {
	b := &backend{handle: func(context.Context, *hostapi.Request) (*hostapi.Outcome, error) {
		time.Sleep(300 * time.Millisecond)
		return &hostapi.Outcome{Message: "late"}, nil
	}}
	client := dial(t, serve(t, b, func(s *Server) {
		s.timeouts = timeouts{header: 50 * time.Millisecond, request: 50 * time.Millisecond,
			idle: 50 * time.Millisecond, answer: 50 * time.Millisecond}
	}))
	out, err := client.Handle(t.Context(), begun("12.srv"))
	if err != nil || out.Message != "late" {
		t.Errorf("%v, %v", out, err)
	}
}

// TestCallerThatDoesNotRead asks for more than the socket buffers hold and leaves it there.
func TestCallerThatDoesNotRead(t *testing.T) {
	hungUp := make(chan struct{})
	b := &backend{jobs: []Job{{Job: &hostapi.Job{ID: "1.srv", Name: strings.Repeat("x", 8<<20)}}}}
	socket := serve(t, b, func(s *Server) {
		s.timeouts.answer = 50 * time.Millisecond
		s.http.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateClosed {
				close(hungUp)
			}
		}
	})
	conn, err := net.Dial("unix", socket)
	must.NoError(t, err)
	defer conn.Close()
	io.WriteString(conn, "GET /v1/jobs HTTP/1.1\r\nHost: x\r\n\r\n")
	<-hungUp
	if n, _ := io.Copy(io.Discard, conn); n >= 8<<20 {
		t.Errorf("%d bytes arrived", n)
	}
}

func TestPanicStaysInItsConnection(t *testing.T) {
	b := &backend{handle: func(_ context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
		if req.Job.ID == "13.srv" {
			panic("unlucky")
		}
		return nil, nil
	}}
	client := dial(t, serve(t, b))
	var e *Error
	if _, err := client.Handle(t.Context(), begun("13.srv")); err == nil || errors.As(err, &e) ||
		errors.Is(err, ErrNoHost) {
		t.Errorf("error %v, want a broken connection", err)
	}
	if _, err := client.Handle(t.Context(), begun("12.srv")); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
