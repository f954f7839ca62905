package proc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Child is a started program. It is reaped when it ends, whether or not anybody waits. A Child is
// safe for concurrent use.
type Child struct {
	PID int // also its session and its process group

	reaped chan struct{}
	exit   Exit
	err    error // wait4 failed

	mu   sync.Mutex // held while a signal is sent or the child is reaped, so that the pid cannot be reused before
	gone bool
}

// Exit says how a child ended, and what it and its waited-for descendants used.
type Exit struct {
	Status syscall.WaitStatus
	Rusage syscall.Rusage
}

// Code returns the exit status as a shell does: 128+N for a program killed by signal N.
func (e Exit) Code() int {
	if e.Status.Signaled() {
		return 128 + int(e.Status.Signal())
	}
	return e.Status.ExitStatus()
}

// newChild owns pidfd, which is -1 if the kernel has none.
func newChild(pid, pidfd int) *Child {
	c := &Child{PID: pid, reaped: make(chan struct{})}
	go c.reap(pidfd)
	return c
}

// reap waits only for this child and no other child of the process.
func (c *Child) reap(pidfd int) {
	defer close(c.reaped)
	c.await(pidfd)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
	for {
		_, err := syscall.Wait4(c.PID, &c.exit.Status, 0, &c.exit.Rusage)
		if !errors.Is(err, unix.EINTR) {
			c.err = err
			return
		}
	}
}

// await returns when the child has ended but is not yet reaped, so that it can still be signalled.
func (c *Child) await(pidfd int) {
	if pidfd >= 0 && unix.SetNonblock(pidfd, true) == nil {
		h := newHandle(c.PID, pidfd)
		defer h.Close()
		if h.await(); h.err == nil {
			return
		}
	}
	// Without a pidfd (before Linux 5.4) waiting occupies a thread.
	for errors.Is(unix.Waitid(unix.P_PID, c.PID, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
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
