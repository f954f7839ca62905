package api

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
