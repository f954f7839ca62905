package proc

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Child is a started program. It is reaped when it ends, whether or not anybody waits. A Child is
// safe for concurrent use.
type Child struct {
	PID int // also its session and its process group

	cmd    *exec.Cmd
	reaped chan struct{}
	exit   Exit
	err    error // the wait failed

	mu   sync.Mutex // held while a signal is sent or the child is reaped, so that the pid cannot be reused before
	gone bool
}

// Exit says how a child ended.
type Exit struct{ Status syscall.WaitStatus }

// Code returns the exit status as a shell does: 128+N for a program killed by signal N.
func (e Exit) Code() int {
	if e.Status.Signaled() {
		return 128 + int(e.Status.Signal())
	}
	return e.Status.ExitStatus()
}

// Start starts the program of cmd as the leader of a new session. The child does not die with its
// parent: a job ends by its events, not because its starter crashes.
func Start(cmd *exec.Cmd) (*Child, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	c := &Child{PID: cmd.Process.Pid, cmd: cmd, reaped: make(chan struct{})}
	go c.reap()
	return c, nil
}

// reap reaps the child when it has ended. Until it is reaped, it can be signalled.
func (c *Child) reap() {
	defer close(c.reaped)
	for errors.Is(unix.Waitid(unix.P_PID, c.PID, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
	err := c.cmd.Wait()
	if status := (*exec.ExitError)(nil); err != nil && !errors.As(err, &status) {
		c.err = err
		return
	}
	c.exit.Status, _ = c.cmd.ProcessState.Sys().(syscall.WaitStatus)
}

// Wait returns how the child ended. It may be called more than once. It fails if ctx ends first.
func (c *Child) Wait(ctx context.Context) (Exit, error) {
	select {
	case <-c.reaped:
	case <-ctx.Done():
		return Exit{}, fmt.Errorf("wait for process %d: %w", c.PID, context.Cause(ctx))
	}
	if c.err != nil {
		return Exit{}, fmt.Errorf("wait for process %d: %w", c.PID, c.err)
	}
	return c.exit, nil
}

// Signal sends sig to the child's process group. After the child was reaped it fails with ErrGone,
// since the pid may then refer to another group.
func (c *Child) Signal(sig syscall.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return fmt.Errorf("send %v to process group %d: %w", sig, c.PID, ErrGone)
	}
	if err := syscall.Kill(-c.PID, sig); err != nil {
		return gone(fmt.Sprintf("send %v to process group %d", sig, c.PID), err)
	}
	return nil
}
