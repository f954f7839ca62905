package proc

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/must"
)

// output starts cmd, waits for it and returns its standard output.
func output(t testing.TB, cmd *exec.Cmd) (string, Exit) {
	t.Helper()
	r, w, err := os.Pipe()
	must.NoError(t, err)
	defer r.Close()
	cmd.Stdout = w
	child, err := Start(cmd)
	w.Close()
	must.NoError(t, err)
	b, err := io.ReadAll(r)
	must.NoError(t, err)
	exit, err := child.Wait(t.Context())
	must.NoError(t, err)
	return string(b), exit
}

func TestStartProgram(t *testing.T) {
	dir := t.TempDir()
	must.NoError(t, os.Chmod(dir, 0o755))
	t.Chdir(dir)
	tests := []struct {
		name string
		cmd  *exec.Cmd
		want string
		code int
	}{
		{"arguments", &exec.Cmd{Path: "/bin/echo", Args: []string{"echo", "a b", ""}}, "a b \n", 0},
		{"environment is the whole one", &exec.Cmd{Path: "/usr/bin/env", Args: []string{"env"},
			Env: []string{"A=1", "B=x y"}}, "A=1\nB=x y\n", 0},
		{"directory is the caller's", &exec.Cmd{Path: "/bin/pwd", Args: []string{"pwd"}}, dir + "\n", 0},
		{"exit status", &exec.Cmd{Path: "/bin/sh", Args: []string{"sh", "-c", "exit 7"}}, "", 7},
		{"signal", &exec.Cmd{Path: "/bin/sh", Args: []string{"sh", "-c", "kill -9 $$"}}, "", 137},
		{"own session and group", &exec.Cmd{Path: "/bin/sh", Args: []string{
			"sh", "-c", `read -r s < /proc/$$/stat; set -- $s; [ $1 = $5 ] && [ $1 = $6 ] && echo leader`}}, "leader\n",
			0},
		{"nil stdin is empty", &exec.Cmd{Path: "/bin/cat", Args: []string{"cat"}}, "", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, exit := output(t, tt.cmd)
			if got != tt.want || exit.Code() != tt.code {
				t.Errorf("output %q, exit status %d; want %q, %d", got, exit.Code(), tt.want, tt.code)
			}
		})
	}
}

func TestStartKeepsDescriptors(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	must.NoError(t, err)
	defer f.Close()
	var ours, theirs unix.Stat_t
	must.NoError(t, unix.Fstat(int(f.Fd()), &ours))
	child, err := Start(&exec.Cmd{Path: "/usr/bin/stat", Args: []string{"stat", "-L", "-c", "%i", "/proc/self/fd/1"},
		Stdout: f})
	must.NoError(t, err)
	if _, err := child.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(f.Name())
	must.NoError(t, err)
	if err := unix.Stat(f.Name(), &theirs); err != nil || strings.TrimSpace(string(b)) != strconv.Itoa(int(ours.Ino)) {
		t.Errorf("the child's stdout is inode %q, want %d (%v)", b, ours.Ino, err)
	}
}

func TestChildWaitAndSignal(t *testing.T) {
	child, err := Start(&exec.Cmd{Path: "/bin/sleep", Args: []string{"sleep", "60"}})
	must.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := child.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait with a done context = %v", err)
	}
	must.NoError(t, child.Signal(unix.SIGTERM))
	for range 2 {
		exit, err := child.Wait(t.Context())
		if err != nil || exit.Code() != 143 {
			t.Errorf("Wait = %d, %v; want 143", exit.Code(), err)
		}
	}
	if err := child.Signal(unix.SIGTERM); !errors.Is(err, ErrGone) {
		t.Errorf("Signal after the end = %v, want ErrGone", err)
	}
}
