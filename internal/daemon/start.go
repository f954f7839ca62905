package daemon

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/systemd"
)

// starter starts `hookhost serve --until-idle`.
type starter struct {
	Program string          // this hookhost
	Args    []string        // its arguments, without its name
	Env     []string        // the caller's; systemd gives a unit its own
	Prefix  string          // of the cgroups; names the unit
	Systemd *systemd.System // starts a transient unit where it runs the node
	// Waits is called once where the start takes long.
	Waits func()
}

// How long the start of a daemon may take, and from when on the caller is to know of it.
const (
	startTime = time.Minute
	longStart = 3 * time.Second
)

// errLine bounds what is read of a daemon that does not start.
const errLine = 4 << 10

// serves is the byte by which a daemon tells its starter that it serves.
const serves = 0

// Start starts the daemon in a session of its own and waits until it serves. The error is the
// first line that the daemon wrote. A daemon that finds another owner says nothing and ends. Start
// returns nil for that as well: the caller finds the other at its socket, now or in a moment.
//
// The daemon's standard error is a pipe until the daemon serves: see detach. The pipe's end alone
// does not tell, since systemd keeps the pipe open as long as the unit lives.
func (s *starter) Start(ctx context.Context) error {
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("start a daemon: %w", err)
	}
	defer r.Close()
	abort, err := s.start(ctx, w)
	if err = errors.Join(err, w.Close()); err != nil {
		return fmt.Errorf("start a daemon: %w", err)
	}
	if s.Waits != nil {
		defer time.AfterFunc(longStart, s.Waits).Stop()
	}
	if err := r.SetReadDeadline(time.Now().Add(startTime)); err != nil {
		return fmt.Errorf("start a daemon: %w", err)
	}
	defer context.AfterFunc(ctx, func() { r.SetReadDeadline(time.Now()) })()
	said, err := bufio.NewReader(io.LimitReader(r, errLine)).ReadBytes(serves)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() != nil:
		err = context.Cause(ctx)
	case errors.Is(err, os.ErrDeadlineExceeded):
		abort()
		err = fmt.Errorf("it does not serve within %v", startTime)
	case errors.Is(err, io.EOF) && len(said) > 0:
		line, _, _ := bytes.Cut(said, []byte("\n"))
		err = errors.New(strings.TrimPrefix(string(line), "hookhost: "))
	case errors.Is(err, io.EOF): // another one is the owner
		err = nil
	}
	if err != nil {
		return fmt.Errorf("start a daemon: %w", err)
	}
	return nil
}

// start starts the program with that standard error, by systemd where systemd runs the node. A
// process of a login's scope may end with the login.
func (s *starter) start(ctx context.Context, stderr *os.File) (abort func(), err error) {
	if s.Systemd.Running() {
		unit := "hookhost-until-idle-" + s.Prefix + ".service"
		argv := append([]string{s.Program}, s.Args...)
		return func() {}, s.Systemd.StartDaemon(ctx, unit, argv, stderr)
	}
	cmd := exec.Command(s.Program, s.Args...)
	cmd.Dir, cmd.Stderr = "/", stderr
	cmd.Env = slices.DeleteFunc(slices.Clone(s.Env), ofServiceManager)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go cmd.Wait() // or it would be a zombie for the rest of the caller's life
	return func() { cmd.Process.Kill() }, nil
}

// ofServiceManager reports whether a variable is between the caller and the service manager that
// started the caller.
func ofServiceManager(variable string) bool {
	name, _, _ := strings.Cut(variable, "=")
	return slices.Contains([]string{"NOTIFY_SOCKET", "INVOCATION_ID", "WATCHDOG_USEC"}, name) ||
		strings.HasPrefix(name, "LISTEN_")
}

// detach tells the starter, whose pipe is standard error, that the daemon serves. Then it makes
// log the standard output and error of this process. A starter that has gone is no error.
func detach(log *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(2, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFIFO {
		unix.Write(2, []byte{serves})
	}
	for _, fd := range []int{1, 2} {
		if err := unix.Dup3(int(log.Fd()), fd, 0); err != nil {
			return fmt.Errorf("write to %s: %w", log.Name(), err)
		}
	}
	return nil
}

// maxLog bounds a log that is gone on with.
const maxLog = 1 << 20

// OpenLog opens the log of a daemon whose starter is not to hear it, and makes its directory. A
// long log begins anew.
func OpenLog(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	flags := os.O_CREATE | os.O_WRONLY | os.O_APPEND | unix.O_NOFOLLOW
	if info, err := os.Lstat(path); err == nil && info.Size() > maxLog {
		flags |= os.O_TRUNC
	}
	return os.OpenFile(path, flags, 0o600)
}

// Lossy passes lines on to a log, and drops those that the log does not take, as on a full disk.
// The logger would say so on standard error, where a starter waits for the reason of a failure.
type Lossy struct{ Log io.Writer }

// Write never fails.
func (l Lossy) Write(b []byte) (int, error) {
	l.Log.Write(b)
	return len(b), nil
}

// CloseInherited closes the files, from descriptor 3 up, that the starter of this process left
// open. This process opens its own files so that they close on exec, so all others are the
// starter's. Somebody may wait for their end.
func CloseInherited() error {
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("close inherited files: %w", err)
	}
	for _, entry := range open {
		var fd int
		if _, err := fmt.Sscan(entry.Name(), &fd); err != nil || fd < 3 {
			continue
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err == nil && flags&unix.FD_CLOEXEC == 0 {
			unix.Close(fd)
		}
	}
	return nil
}
