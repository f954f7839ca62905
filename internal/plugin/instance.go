package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	goplugin "github.com/hashicorp/go-plugin"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"github.com/hookhost/hookhost/hostapi"
)

// outputGrace is how long output is still read after a program's end. Only a process that the
// program left behind keeps the output open.
const outputGrace = time.Second

// stopGrace is how long a program may take to end when asked to.
const stopGrace = 2 * time.Second

// killGrace is how long a killed program may take to die. A process in state D may never die, so
// the host stops waiting after that time.
const killGrace = 3 * time.Second

// instance is one running program of a hook, configured and ready for events. go-plugin starts the
// process, reads its output and reaps it.
type instance struct {
	hook   Hook
	client *hostapi.Client
	info   hostapi.Info

	plugin   *goplugin.Client
	cmd      *exec.Cmd
	pidfd    int                // of the program; -1 on kernels without
	signal   context.CancelFunc // sends SIGKILL to the program's session; before the start it prevents the start
	lifeline *os.File           // the reading end, which belongs to the program
	host     *os.File           // the lifeline's writing end; nobody ever writes
	socket   net.Addr
	conn     connection
	stderr   *lines
	synced   []*lines // what the program prints after the handshake, which go-plugin copies

	exited chan struct{}    // closed when the program has died
	state  *os.ProcessState // valid then; nil if it was not started or not reaped

	killed atomic.Bool // by the host, because of an alarm: whatever dies with it is not the program's fault
}

// connect starts the process and connects its client.
//
// The kernel sends the signal of PR_SET_PDEATHSIG when the forking thread ends. So each program
// gets a thread that lives as long as the program.
func (i *instance) connect() error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		defer close(i.exited)
		addr, err := i.plugin.Start()
		i.lifeline.Close()
		i.socket = addr
		started <- err
		if i.cmd.Process != nil {
			i.watch()
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	protocol, err := i.plugin.Client()
	if err != nil {
		return err
	}
	raw, err := protocol.Dispense(hostapi.PluginName)
	if err != nil {
		return err
	}
	i.client = raw.(*hostapi.Client) // the type that hostapi.Plugin returns
	return nil
}

// watch returns when the program and the rest of its session have died.
func (i *instance) watch() {
	pid := i.cmd.Process.Pid
	for unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	i.killSession()
	reaped := make(chan struct{})
	go func() {
		defer close(reaped)
		i.plugin.Kill() // returns when all output was read
		unix.Close(i.pidfd)
	}()
	select {
	case <-reaped:
		i.state = i.cmd.ProcessState
		for _, l := range i.synced {
			l.end()
		}
	case <-time.After(outputGrace):
		i.stderr.log.Warnf("program %d has ended, but a process that it started still has its output open", pid)
	}
}

// killSession kills the program and all processes in its session. go-plugin reaps the program as
// soon as its output ends, and then its pid may be reused. A pidfd still identifies its session.
// Before Linux 6.9 only the pid does, which is used as soon as the program ends.
func (i *instance) killSession() error {
	err := unix.PidfdSendSignal(i.pidfd, unix.SIGKILL, nil, unix.PIDFD_SIGNAL_PROCESS_GROUP)
	if err != nil && !errors.Is(err, unix.ESRCH) {
		err = unix.Kill(-i.pid(), unix.SIGKILL)
	}
	return err
}

// pid returns 0 for a program that was not started.
func (i *instance) pid() int {
	if i.cmd.Process == nil {
		return 0
	}
	return i.cmd.Process.Pid
}

// stop asks the program to end, and kills it if it does not. Calls under way fail.
func (i *instance) stop() {
	go i.plugin.Kill() // makes a call, which a program that is stopped or hangs never answers
	select {
	case <-i.exited:
	case <-time.After(stopGrace):
	}
	i.kill()
}

// kill ends the program at once and waits until nothing of it is left, but at most killGrace. It is
// idempotent.
func (i *instance) kill() {
	i.signal()
	select {
	case <-i.exited:
	case <-time.After(killGrace):
		i.stderr.log.Errorf("kill program %d: it hangs in the kernel and is left behind", i.pid())
	}
	i.conn.close()
	i.host.Close()
	if i.socket != nil {
		os.Remove(i.socket.String()) // a program that was killed leaves it behind
	}
}

// cause returns how the program ended: the message of its panic, otherwise its exit status.
func (i *instance) cause() string {
	if words := i.stderr.lastWords(); words != "" {
		return words
	}
	if !i.dead() {
		return "killed, and it does not die"
	}
	if i.state == nil {
		return "its exit status is not known"
	}
	return i.state.String()
}

func (i *instance) dead() bool {
	select {
	case <-i.exited:
		return true
	default:
		return false
	}
}

// startError looks for the reason of a failed start in the way the program ended. err comes from
// go-plugin or the hook.
func (i *instance) startError(ctx context.Context, err error) error {
	var own *hostapi.Error
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &own) && !errors.Is(err, hostapi.ErrGone):
		return err
	case i.pid() == 0:
		return cmp.Or(i.noInterpreter(err), err)
	case i.endedItself():
		return fmt.Errorf("it ended before it was ready: %s", i.lastState())
	}
	first, _, _ := strings.Cut(err.Error(), "\n") // drops several lines of advice
	if printed, is := strings.CutPrefix(first, "Unrecognized remote plugin message: "); is {
		return fmt.Errorf("it printed %q before the handshake: nothing may be printed to standard output before it "+
			"(docs/hooks-any-language.md; in Go, main must call hostapi.Serve: docs/hooks.md)",
			hostapi.Clip(strings.TrimSpace(printed), 200))
	}
	return fmt.Errorf("its answer is not that of a hook: %s (main must call hostapi.Serve: docs/hooks.md)",
		hostapi.Clip(first, 200))
}

// lastState returns how the program ended, with the last line that it wrote to standard error.
func (i *instance) lastState() string {
	cause, line := i.cause(), i.stderr.lastLine()
	if line == "" || i.stderr.lastWords() != "" {
		return cause
	}
	return cause + ": " + line
}

// noInterpreter returns an error for a script whose interpreter does not exist, otherwise nil. The
// kernel's error reads as if the script were missing.
func (i *instance) noInterpreter(err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	file, openErr := os.Open(i.hook.Program)
	if openErr != nil {
		return nil
	}
	defer file.Close()
	head := make([]byte, 256)
	n, _ := io.ReadFull(file, head)
	line, _, _ := strings.Cut(string(head[:n]), "\n")
	name, is := strings.CutPrefix(line, "#!")
	name, _, _ = strings.Cut(strings.TrimLeft(name, " \t"), " ")
	if _, statErr := os.Stat(name); !is || !errors.Is(statErr, fs.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("its interpreter %q does not exist", name)
}

// endedItself reports whether the program ended other than by SIGKILL.
func (i *instance) endedItself() bool {
	if !i.dead() || i.state == nil {
		return false
	}
	status := i.state.Sys().(syscall.WaitStatus)
	return !status.Signaled() || status.Signal() != syscall.SIGKILL
}

// connection remembers a program's gRPC connection, which go-plugin forgets to close when the first
// call on it fails.
type connection struct {
	mu sync.Mutex
	c  io.Closer
}

// note is a stream interceptor, because go-plugin begins by opening a stream.
func (c *connection) note(
	ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, next grpc.Streamer,
	opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	c.mu.Lock()
	c.c = cc
	c.mu.Unlock()
	return next(ctx, desc, cc, method, opts...)
}

func (c *connection) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.c != nil {
		c.c.Close()
	}
}
