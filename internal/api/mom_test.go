package api

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/must"
)

// pbsMoM answers with what it was called with, unless event does.
type pbsMoM struct {
	event func(context.Context, MoMCall) (MoMAnswer, error)
}

func (m *pbsMoM) Event(ctx context.Context, call MoMCall) (MoMAnswer, error) {
	if m.event != nil {
		return m.event(ctx, call)
	}
	text := fmt.Sprintf("%s caller=%t parent=%d output=%t asked=%t", call.Input, call.Caller == os.Getpid(),
		call.Parent, call.Output, call.Asked)
	return MoMAnswer{Body: []byte(text + "\x00"), Output: call.Output}, nil
}

// talk sends a call as the hook does, in HTTP/1.0 by hand, and returns the whole answer.
func talk(t *testing.T, socket, header, body string) string {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	must.NoError(t, err)
	defer conn.Close()
	fmt.Fprintf(conn, "POST /v1/pbs/event HTTP/1.0\r\nContent-Length: %d\r\n%s\r\n%s", len(body), header, body)
	b, err := io.ReadAll(conn)
	must.NoError(t, err)
	return string(b)
}

func TestMoMCall(t *testing.T) {
	socket := serve(t, &backend{}, func(s *Server) { s.MoM = &pbsMoM{} })
	for _, tt := range []struct{ name, header, body, status, content, want string }{
		{"plain", "", "in\n\xff", "200", momChanges, "in\n\xff caller=true parent=0 output=false asked=false\x00"},
		{"all", "Hookhost-Parent: 17\r\nAccept: text/plain, application/x-pbs-hook-output\r\nHookhost-Asked: yes\r\n",
			"in", "200", momOutput,
			"in caller=true parent=17 output=true asked=true\x00"},
		{"empty", "", "", "400", "application/json", "no event"},
		{"no pid", "Hookhost-Parent: -1\r\n", "in", "400", "application/json", "want a process id"},
		{"large", "", strings.Repeat("x", maxEvent+1), "413", "application/json", KindTooLarge},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := talk(t, socket, tt.header, tt.body)
			if !strings.HasPrefix(got, "HTTP/1.0 "+tt.status) ||
				!strings.Contains(got, "Content-Type: "+tt.content+"\r\n") || !strings.Contains(got, tt.want) {
				t.Errorf("%.300q", got)
			}
			_, body, _ := strings.Cut(got, "\r\n\r\n")
			if tt.status == "200" &&
				(body != tt.want || !strings.Contains(got, fmt.Sprintf("Content-Length: %d\r\n", len(body)))) {
				t.Errorf("%q, want %q with its length", got, tt.want)
			}
		})
	}
	failing := serve(t, &backend{}, func(s *Server) {
		s.MoM = &pbsMoM{event: func(context.Context, MoMCall) (MoMAnswer, error) {
			return MoMAnswer{}, hostapi.Errorf(hostapi.KindNode, "disk full")
		}}
	})
	if got := talk(t, failing, "", "in"); !strings.HasPrefix(got, "HTTP/1.0 500") ||
		!strings.Contains(got, `{"error":"disk full","kind":"node"}`) {
		t.Errorf("a failure: %q", got)
	}
}

// An event may take longer than a request. The end of the request's time does not look as if the
// hook had gone, and the hook's end does.
func TestMoMCallerGone(t *testing.T) {
	entered, ended := make(chan struct{}), make(chan error, 1)
	mom := &pbsMoM{event: func(ctx context.Context, _ MoMCall) (MoMAnswer, error) {
		close(entered)
		select {
		case <-ctx.Done():
			ended <- ctx.Err()
		case <-time.After(time.Minute):
			ended <- errors.New("still there")
		}
		return MoMAnswer{}, ctx.Err()
	}}
	socket := serve(t, &backend{}, func(s *Server) { s.MoM, s.timeouts.request = mom, 300*time.Millisecond })
	conn, err := net.Dial("unix", socket)
	must.NoError(t, err)
	defer conn.Close()
	io.WriteString(conn, "POST /v1/pbs/event HTTP/1.0\r\nContent-Length: 2\r\n\r\nin")
	<-entered
	select {
	case err := <-ended:
		t.Fatalf("the call ended while its caller waits: %v", err)
	case <-time.After(time.Second): // more than the server's limit for a request
	}
	conn.Close()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// A hook learns that the daemon lives before its event is carried out, and sends the body without
// waiting for that.
func TestMoMCallerGetsASignOfLifeAtOnce(t *testing.T) {
	answer := make(chan struct{})
	socket := serve(t, &backend{}, func(s *Server) {
		s.MoM = &pbsMoM{event: func(context.Context, MoMCall) (MoMAnswer, error) {
			<-answer
			return MoMAnswer{Body: []byte("done")}, nil
		}}
	})
	conn, err := net.Dial("unix", socket)
	must.NoError(t, err)
	defer conn.Close()
	io.WriteString(conn,
		"POST /v1/pbs/event HTTP/1.1\r\nHost: x\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: "+
			"2\r\n\r\nin")
	sign := make([]byte, len("HTTP/1.1 100 Continue\r\n\r\n"))
	if _, err := io.ReadFull(conn, sign); err != nil || !strings.HasPrefix(string(sign), "HTTP/1.1 100 ") {
		t.Fatalf("%q, %v", sign, err)
	}
	close(answer)
	if rest, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(rest), "HTTP/1.1 200 ") ||
		!strings.HasSuffix(string(rest), "\r\n\r\ndone") {
		t.Errorf("%q, %v", rest, err)
	}
}

// An event whose hook has given up before it was read comes with a context that is over.
func TestMoMCallerGoneBeforeItsEventWasRead(t *testing.T) {
	socket := filepath.Join(socketDir(t), "run", "s")
	l, err := Listen(socket)
	must.NoError(t, err)
	conn, err := net.Dial("unix", socket)
	must.NoError(t, err)
	io.WriteString(conn,
		"POST /v1/pbs/event HTTP/1.1\r\nHost: x\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: "+
			"2\r\n\r\nin")
	conn.Close()
	b, over := &backend{}, make(chan error, 1)
	if b.procfs, err = kernfs.Open("/proc"); err != nil {
		t.Fatal(err)
	}
	s := NewServer(b, b, b, b)
	s.MoM = &pbsMoM{event: func(ctx context.Context, _ MoMCall) (MoMAnswer, error) {
		over <- ctx.Err()
		return MoMAnswer{}, nil
	}}
	serveOn(t, s, l)
	select {
	case err := <-over:
		if err == nil {
			t.Error("the context goes on")
		}
	case <-time.After(time.Minute):
		t.Fatal("no event")
	}
}

// An answer in several packets arrives whole, and a client of HTTP/1.1 can use its connection
// again.
func TestMoMLargeAnswer(t *testing.T) {
	body := strings.Repeat("setenv\x00A\x00B\x00", 1<<16)
	socket := serve(t, &backend{}, func(s *Server) {
		s.MoM = &pbsMoM{event: func(context.Context, MoMCall) (MoMAnswer,
			error) {
			return MoMAnswer{Body: []byte(body)}, nil
		}}
	})
	if got := talk(t, socket, "", "in"); !strings.HasSuffix(got, "\r\n\r\n"+body) {
		t.Errorf("%d bytes came", len(got))
	}
	conn, err := net.Dial("unix", socket)
	must.NoError(t, err)
	defer conn.Close()
	r := bufio.NewReader(conn)
	for range 2 {
		io.WriteString(conn, "POST /v1/pbs/event HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nin")
		resp, err := http.ReadResponse(r, nil)
		must.NoError(t, err)
		if b, err := io.ReadAll(resp.Body); err != nil || string(b) != body {
			t.Errorf("%d bytes, %v", len(b), err)
		}
	}
}
