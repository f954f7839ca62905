package api

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/must"
)

func TestClientReturnsOutcomesAndErrors(t *testing.T) {
	b := &backend{jobs: []Job{job("1.srv", os.Getuid())},
		handle: func(_ context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
			used := hostapi.Resources{"mem": "4kb"}
			return &hostapi.Outcome{Reject: true, Message: "no room", ResourcesUsed: used}, nil
		}}
	client := dial(t, serve(t, b))
	ctx := t.Context()

	out, err := client.Handle(ctx, begun("12.srv"))
	if want := (&hostapi.Outcome{Reject: true, Message: "no room",
		ResourcesUsed: hostapi.Resources{"mem": "4kb"}}); err != nil || !cmp.Equal(out, want) {
		t.Errorf("Handle = %+v, %v", out, err)
	}
	jobs, err := client.Jobs(ctx)
	if err != nil || len(jobs) != 1 || jobs[0].Job.ID != "1.srv" || jobs[0].Job.Owner.UID != os.Getuid() ||
		jobs[0].Phase != "running" {
		t.Errorf("Jobs = %+v, %v", jobs, err)
	}
	report, err := client.Report(ctx, "1.srv")
	if err != nil || string(report) != `{"job":"1.srv"}` {
		t.Errorf("Report = %s, %v", report, err)
	}
	if _, err := client.Report(ctx, "2.srv"); !errors.Is(err, ErrNotFound) {
		t.Errorf("Report of no job = %v, want ErrNotFound", err)
	}
	var e *Error
	if a, err := client.Attach(ctx, "", os.Getpid()); a.Job != "1.srv" || !errors.As(err, &e) ||
		e.Kind != KindTMHook || e.Message != "no room" {
		t.Errorf("Attach = %q, %v; want %s", a.Job, err, KindTMHook)
	}
	node, err := client.Node(ctx)
	if err != nil || node.PID != os.Getpid() || len(node.Hooks) != 1 {
		t.Errorf("Node = %+v, %v", node, err)
	}
	if err := client.Reload(ctx); err != nil {
		t.Errorf("Reload = %v", err)
	}
}

// TestErrorKinds sends every kind of error over the socket.
func TestErrorKinds(t *testing.T) {
	for kind, status := range map[hostapi.Kind]int{
		hostapi.KindJob: 400, hostapi.KindBusy: 409, hostapi.KindNode: 500, hostapi.KindTimeout: 500,
		hostapi.KindInternal: 500,
	} {
		b := &backend{handle: func(context.Context, *hostapi.Request) (*hostapi.Outcome, error) {
			return nil, hostapi.Errorf(kind, "limit job 12.srv: %s", "why")
		}}
		_, err := dial(t, serve(t, b)).Handle(t.Context(), begun("12.srv"))
		if hostapi.KindOf(err) != kind || !isStatus(err, status) || err.Error() != "limit job 12.srv: why" {
			t.Errorf("%s: %v of kind %s; want status %d", kind, err, hostapi.KindOf(err), status)
		}
	}
}

func TestDialNoHost(t *testing.T) {
	_, err := Dial(filepath.Join(socketDir(t), "absent"))
	if !errors.Is(err, ErrNoHost) || !strings.Contains(err.Error(), "systemctl start hookhost, or hookhost serve &") {
		t.Errorf("no socket: %v, want ErrNoHost and the remedy", err)
	}
	socket := filepath.Join(socketDir(t), "s")
	l, err := Listen(socket)
	must.NoError(t, err)
	client := dial(t, socket)
	conn, err := l.Accept()
	must.NoError(t, err)
	l.Close()
	conn.Close()
	// The connection that Dial made is broken; that is not yet "no host".
	if _, err := client.Node(t.Context()); err == nil || errors.As(err, new(*Error)) {
		t.Errorf("the host died: %v", err)
	}
	if _, err := client.Node(t.Context()); !errors.Is(err, ErrNoHost) {
		t.Errorf("the host is dead: %v, want ErrNoHost", err)
	}
}

func TestAnswerThatIsNone(t *testing.T) {
	socket := filepath.Join(socketDir(t), "s")
	l, err := net.Listen("unix", socket)
	must.NoError(t, err)
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			buf := make([]byte, 4096)
			conn.Read(buf)
			conn.Write([]byte("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 5\r\nConnection: close\r\n\r\noops\n"))
			conn.Close()
		}
	}()
	if _, err := dial(t, socket).Node(t.Context()); !isStatus(err, 502) || hostapi.KindOf(err) != hostapi.KindInternal {
		t.Errorf("error %v (%s)", err, hostapi.KindOf(err))
	}
}

// BenchmarkEvent is one empty event there and back: over one connection, and as a command makes it,
// with a new one.
func BenchmarkEvent(b *testing.B) {
	host := &backend{handle: func(context.Context, *hostapi.Request) (*hostapi.Outcome,
		error) {
		return &hostapi.Outcome{}, nil
	}}
	socket := serve(b, host)
	b.Run("kept connection", func(b *testing.B) {
		client := dial(b, socket)
		for b.Loop() {
			if _, err := client.Handle(b.Context(), begun("12.srv")); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("new connection", func(b *testing.B) {
		for b.Loop() {
			client, err := Dial(socket)
			must.NoError(b, err)
			if _, err := client.Handle(b.Context(), begun("12.srv")); err != nil {
				b.Fatal(err)
			}
			client.Close()
		}
	})
}

// Between Dial and the first call, a caller may wait for longer than the host does.
func TestFirstCallMayComeLate(t *testing.T) {
	socket := serve(t, &backend{}, func(s *Server) { s.timeouts.header = 50 * time.Millisecond })
	client := dial(t, socket)
	time.Sleep(fresh + 50*time.Millisecond)
	if _, err := client.Handle(t.Context(), begun("12.srv")); err != nil {
		t.Error(err)
	}
}
