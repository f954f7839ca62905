// Package hooktest runs a hook inside a test, without a separate process. Calls, JSON, deadline,
// panics and the checks of an outcome work as in hookhost.
//
//	func TestRejects(t *testing.T) {
//		h := hooktest.New(t, newDeny, "most = 4")
//		out, err := h.Call(t.Context(), &hostapi.Request{
//			Event: hostapi.EventBegin,
//			Job:   &hostapi.Job{ID: "1.server", ResourceList: hostapi.Resources{"ncpus": "8"}},
//		})
//		if err != nil || !out.Reject { ... }
//	}
package hooktest

import (
	"context"
	"net"
	"testing"

	"github.com/sirupsen/logrus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/hookhost/hookhost/hostapi"
)

// Hook is a hook that serves until its test ends.
type Hook struct {
	client *hostapi.Client
	info   hostapi.Info
}

// New makes a hook with that configuration, which may be "", on the node "node1". The hook's log
// goes to t.Log, from level debug on. If the hook refuses its configuration or handles no event,
// the test fails; Try returns that as an error.
func New(t testing.TB, newHook func(*hostapi.Setup) (any, error), config string) *Hook {
	t.Helper()
	h, err := Try(t, newHook, hostapi.SetupData{Config: []byte(config)})
	if err != nil {
		t.Fatalf("configure: %v", err)
	}
	return h
}

// Try makes a hook as New does, from everything that a host can send it, and returns its error. An
// empty Name, Node or LogLevel means "test", "node1" and "debug".
func Try(t testing.TB, newHook func(*hostapi.Setup) (any, error), setup hostapi.SetupData) (*Hook, error) {
	t.Helper()
	log := logrus.New()
	log.SetOutput(t.Output())
	log.SetFormatter(&logrus.TextFormatter{DisableTimestamp: true, DisableColors: true})
	conn := connect(t, &hostapi.Plugin{New: newHook, Log: log})
	raw, err := (&hostapi.Plugin{}).GRPCClient(t.Context(), nil, conn)
	if err != nil {
		return nil, err
	}
	h := &Hook{client: raw.(*hostapi.Client)} // the type that Plugin returns
	for _, unset := range []struct {
		field *string
		value string
	}{{&setup.Name, "test"}, {&setup.Node, "node1"}, {&setup.LogLevel, "debug"}} {
		if *unset.field == "" {
			*unset.field = unset.value
		}
	}
	h.info, err = h.client.Configure(t.Context(), setup)
	return h, err
}

// Call makes the hook carry out one event and returns its outcome as hookhost gets it: never nil
// without an error. ctx's deadline is the alarm; a hook that continues after it delays the end of
// the test. req is used unchanged: an omitted Owner has the ids of root.
func (h *Hook) Call(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	return h.client.Handle(ctx, req)
}

// Events returns the events that the hook handles, in life-cycle order.
func (h *Hook) Events() []hostapi.Event { return h.info.Events }

// connect serves p over memory until the test ends.
func connect(t testing.TB, p *hostapi.Plugin) *grpc.ClientConn {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer(grpc.MaxRecvMsgSize(hostapi.MaxMessage), grpc.WaitForHandlers(true))
	if err := p.GRPCServer(nil, server); err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:hook",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn,
			error) {
			return listener.DialContext(ctx)
		}),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return conn
}
