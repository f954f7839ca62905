package api

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// waiting is a host where each attach of a user's waits until it is given up.
func waiting(t *testing.T) (b *backend, begun chan struct{}, ended chan error) {
	begun, ended = make(chan struct{}), make(chan error, 1)
	b = &backend{jobs: []Job{job("12.srv", nobody)}}
	b.handle = func(ctx context.Context, _ *hostapi.Request) (*hostapi.Outcome, error) {
		close(begun)
		select {
		case <-ctx.Done():
		case <-time.After(time.Minute):
		}
		ended <- ctx.Err()
		return nil, hostapi.Errorf(hostapi.KindBusy, "given up")
	}
	return b, begun, ended
}

// attaching starts a process of nobody's that asks to be attached.
func attaching(t *testing.T, socket string) *exec.Cmd {
	t.Helper()
	kernfstest.NeedRoot(t)
	cmd := exec.Command("/proc/self/exe", socket, "POST", "/v1/attach", `{"job":"12.srv","pid":$PID}`)
	cmd.Env, cmd.Dir = []string{"API_TEST_HELPER=call", "GORACE=atexit_sleep_ms=0"}, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	must.NoError(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd
}

// A user's attach ends with its connection while it waits, though not with the time for a request.
func TestUsersAttachEndsWithItsConnection(t *testing.T) {
	b, begun, ended := waiting(t)
	socket := serve(t, b, func(s *Server) { s.timeouts.request = time.Second })
	cmd := attaching(t, socket)
	must.Receive(t, "the attach", begun)
	select {
	case err := <-ended:
		t.Fatalf("given up while its caller waits: %v", err)
	case <-time.After(2 * time.Second): // more than the time for a request
	}
	cmd.Process.Kill()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// A host that stops does not wait for users' calls that have not begun. Their callers see a broken
// connection, and ask the next.
func TestUsersAttachDoesNotHoldUpTheHostsEnd(t *testing.T) {
	b, begun, _ := waiting(t)
	socket := filepath.Join(socketDir(t), "run", "s")
	l, err := Listen(socket)
	must.NoError(t, err)
	if b.procfs, err = kernfs.Open("/proc"); err != nil {
		t.Fatal(err)
	}
	s := NewServer(b, b, b, b)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	cmd := attaching(t, socket)
	must.Receive(t, "the attach", begun)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := errors.Join(s.Shutdown(ctx), <-served); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the caller was answered")
	}
}
