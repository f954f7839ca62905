package api

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/must"
)

func TestListenMakesASocketThatEverybodyMayEnter(t *testing.T) {
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	socket := filepath.Join(socketDir(t), "run", "hookhost", "s")
	l, err := Listen(socket)
	must.NoError(t, err)
	info, err := os.Stat(socket)
	if err != nil || info.Mode().Perm() != 0o666 {
		t.Errorf("socket: %v, %v; want mode 0666", info.Mode(), err)
	}
	if info, err := os.Stat(filepath.Dir(socket)); err != nil || info.Mode().Perm() != 0o711 {
		t.Errorf("directory: %v, %v; want mode 0711", info.Mode(), err)
	}
	_, err = Listen(socket)
	if want := fmt.Sprintf("already running, pid %d", os.Getpid()); !errors.Is(err, ErrRunning) ||
		!strings.HasSuffix(err.Error(), want) {
		t.Errorf("Listen beside a live host = %v, want %q", err, want)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(socket); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after Close: %v", err)
	}
	if l, err = Listen(socket); err != nil {
		t.Fatal(err)
	}
	l.Close()
}

func TestListenReplacesStaleSocket(t *testing.T) {
	socket := filepath.Join(socketDir(t), "s")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	must.NoError(t, err)
	dead.SetUnlinkOnClose(false)
	dead.Close()
	if _, err := Dial(socket); !errors.Is(err, ErrNoHost) {
		t.Errorf("Dial of a dead host = %v, want ErrNoHost", err)
	}
	l, err := Listen(socket)
	must.NoError(t, err)
	l.Close()
}

func TestListenLeavesOthersAlone(t *testing.T) {
	t.Run("a file", func(t *testing.T) {
		path := filepath.Join(socketDir(t), "s")
		must.NoError(t, os.WriteFile(path, []byte("precious"), 0o600))
		if _, err := Listen(path); err == nil || errors.Is(err, ErrRunning) {
			t.Errorf("Listen = %v", err)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != "precious" {
			t.Errorf("the file: %q, %v", b, err)
		}
	})
	t.Run("a live socket", func(t *testing.T) {
		path := filepath.Join(socketDir(t), "s")
		l, err := net.Listen("unix", path)
		must.NoError(t, err)
		defer l.Close()
		if _, err := Listen(path); !errors.Is(err, ErrRunning) {
			t.Errorf("Listen = %v, want ErrRunning", err)
		}
	})
	t.Run("a long name", func(t *testing.T) {
		if _, err := Listen(filepath.Join(socketDir(t), strings.Repeat("s", 120))); err == nil {
			t.Error("Listen took a name that no socket can have")
		}
	})
}

// A kernel that knows SO_PASSRIGHTS passes no file to the host. Older kernels pass it, and the host
// drops it with what it reads.
func TestCallersPassNoFiles(t *testing.T) {
	socket := serve(t, &backend{})
	conn, err := net.Dial("unix", socket)
	must.NoError(t, err)
	defer conn.Close()
	file, err := conn.(*net.UnixConn).File()
	must.NoError(t, err)
	defer file.Close()
	to := int(file.Fd())
	const call = "GET /v1/jobs HTTP/1.1\r\nHost: x\r\n\r\n"
	_, err = unix.GetsockoptInt(to, unix.SOL_SOCKET, unix.SO_PASSRIGHTS)
	refused := err == nil
	err = unix.Sendmsg(to, []byte(call), unix.UnixRights(to), nil, 0)
	if refused != errors.Is(err, unix.EPERM) || !refused && err != nil {
		t.Errorf("send a file: %v, the kernel knows SO_PASSRIGHTS: %t", err, refused)
	}
	if a, err := rawCall(socket, "GET", "/v1/jobs", ""); err != nil || a.Status != 200 {
		t.Errorf("another call: %+v, %v", a, err)
	}
}

// stuck is a connection that hangs when it is closed, as if the kernel waited in close(2).
type stuck struct {
	net.Conn
	released chan struct{}
}

func (s stuck) Close() error { <-s.released; return nil }

// channel is a listener that returns the connections that are sent to it.
type channel chan net.Conn

func (c channel) Accept() (net.Conn, error) {
	if conn, open := <-c; open {
		return conn, nil
	}
	return nil, net.ErrClosed
}

func (c channel) Close() error   { close(c); return nil }
func (c channel) Addr() net.Addr { return &net.UnixAddr{} }

// A host stops in time although a connection cannot be closed.
func TestStuckConnectionHoldsUpNoEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		caller, conn := net.Pipe()
		released := make(chan struct{})
		l := make(channel, 1)
		l <- stuck{conn, released}
		s := NewServer(nil, nil, nil, nil)
		served := make(chan error, 1)
		go func() { served <- s.Serve(l) }()
		time.Sleep(10 * time.Second) // the server closes a connection without a request after five
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("shutdown: %v", err)
		}
		must.Equal(t, "shutdown took", time.Minute, time.Since(began))
		close(released)
		caller.Close()
		must.NoError(t, <-served)
	})
}
