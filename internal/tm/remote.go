package tm

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The other end of remsh is two processes. The first stays outside of the job, in sshd's session,
// and has the signals and the status. A job should not be charged for it. The second makes a
// session of its own, attaches itself, and becomes the user's shell. So nothing of the user's has
// run before it is in the job.

// goneGrace is how long a command has after its caller is gone, from SIGHUP to SIGTERM.
const goneGrace = 10 * time.Second

// Remote is the first process: it returns the command's exit status. text is the payload, or "-" if
// the payload comes as the first frame of in. Signals of this process go to the command.
func Remote(socket, text string, in *os.File, heard <-chan os.Signal) (int, error) {
	fail := func(err error) (int, error) { return Failed, fmt.Errorf("remsh %s: %w", Here(), err) }
	frames := bufio.NewReaderSize(in, 64<<10)
	encoded, err := readPayload(text, frames)
	if err != nil {
		return fail(err)
	}
	if _, err := decodePayload(encoded); err != nil {
		return fail(err)
	}
	child, stdin, err := startChild(socket, encoded)
	if err != nil {
		return fail(err)
	}
	r := &relay{pid: child.Process.Pid, stdin: newStdin(stdin), gone: make(chan struct{}, 2)}
	go r.read(frames)
	go r.watch(in)
	return r.wait(child, heard), nil
}

func readPayload(text string, frames io.Reader) ([]byte, error) {
	if text != "-" {
		return fromWord(text)
	}
	f, err := readFrame(frames)
	if err != nil {
		return nil, fmt.Errorf("payload: %w", err)
	}
	if f.kind != framePayload {
		return nil, fmt.Errorf("payload: a frame %q", f.kind)
	}
	return f.data, nil
}

// startChild starts the second process and returns the writing end of its standard input.
func startChild(socket string, encoded []byte) (*exec.Cmd, *os.File, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	payloadIn, payloadOut, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer payloadIn.Close()
	stdinIn, stdinOut, err := os.Pipe()
	if err != nil {
		payloadOut.Close()
		return nil, nil, err
	}
	defer stdinIn.Close()
	child := exec.Command(self, "remsh", "--socket", socket, "--child")
	child.Stdin, child.Stdout, child.Stderr = stdinIn, os.Stdout, os.Stderr
	child.ExtraFiles = []*os.File{payloadIn}
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := child.Start(); err != nil {
		payloadOut.Close()
		stdinOut.Close()
		return nil, nil, err
	}
	go func() { // more than a pipe holds, perhaps
		payloadOut.Write(encoded)
		payloadOut.Close()
	}()
	return child, stdinOut, nil
}

// relay does for the command what the caller says.
type relay struct {
	pid   int // of the second process, and of the session's first process group
	stdin *stdin
	gone  chan struct{} // one for each of two who find out that the caller is gone

	mu   sync.Mutex
	over bool // the second process has ended: its number may soon be another's
}

// kill sends a signal to what is in the command's first process group.
func (r *relay) kill(sig syscall.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over {
		unix.Kill(-r.pid, sig)
	}
}

// end waits for the second process and returns its status as a shell has it. The process is a
// zombie until no more signals are sent, so that no other process gets its number.
func (r *relay) end(child *exec.Cmd) int {
	for errors.Is(unix.Waitid(unix.P_PID, r.pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
	r.mu.Lock()
	r.over = true
	r.mu.Unlock()
	child.Wait()
	status := child.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// read reads frames until there are no more. The caller is gone then: remsh lives as long as the
// command.
func (r *relay) read(frames io.Reader) {
	for {
		f, err := readFrame(frames)
		if err != nil {
			r.stdin.end()
			r.gone <- struct{}{}
			return
		}
		switch f.kind {
		case frameData:
			r.stdin.write(f.data)
		case frameEOF:
			r.stdin.end()
		case frameSignal:
			r.kill(signals[string(f.data)])
		}
	}
}

// watch finds out that the caller is gone. read cannot do so while the command leaves its input
// unread.
func (r *relay) watch(in *os.File) {
	poll := []unix.PollFd{{Fd: int32(in.Fd()), Events: unix.POLLRDHUP}}
	for {
		if _, err := unix.Poll(poll, -1); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	r.gone <- struct{}{}
}

// wait passes on what happens until the command has ended, and returns its status.
func (r *relay) wait(child *exec.Cmd, heard <-chan os.Signal) int {
	ended := make(chan int, 1)
	go func() { ended <- r.end(child) }()
	gone, late := r.gone, (<-chan time.Time)(nil)
	for {
		select {
		case status := <-ended:
			return status
		case sig := <-heard:
			r.kill(sig.(syscall.Signal))
		case <-gone:
			gone, late = nil, time.After(goneGrace)
			r.kill(unix.SIGHUP)
			r.kill(unix.SIGCONT) // a stopped one hears nothing
		case <-late:
			r.kill(unix.SIGTERM)
		}
	}
}

// Child is the second process: it becomes the command, and returns only if that fails. in has the
// payload, env is this process's environment.
func Child(socket string, in *os.File, env []string) error {
	fail := func(err error) error { return fmt.Errorf("remsh %s: %w", Here(), err) }
	encoded, err := io.ReadAll(io.LimitReader(in, maxPayload))
	if err != nil {
		return fail(err)
	}
	in.Close()
	p, err := decodePayload(encoded)
	if err != nil {
		return fail(err)
	}
	attached, err := AttachOn(context.Background(), socket, "", p.Job, os.Getpid())
	if err != nil {
		return fail(fmt.Errorf("tm_attach: %s: %w", ErrorName(err), err))
	}
	for name, value := range p.Env {
		env = set(env, name, string(value))
	}
	return fail(execShell(p.Command, changed(env, attached.Outcome)))
}

// maxLine is how long a line may be as an argument of a shell: see maxWord.
const maxLine = 120 << 10

// execShell becomes the user's shell that carries out a line. A line too long for an argument is in
// a file that the shell reads.
func execShell(line []byte, env []string) error {
	shell := value(env, "SHELL")
	if !filepath.IsAbs(shell) {
		shell = "/bin/sh"
	}
	args := []string{filepath.Base(shell), "-c", string(line)}
	if len(line) > maxLine {
		fd, err := unix.MemfdCreate("remsh", 0) // open in the shell too
		if err != nil {
			return fmt.Errorf("memfd_create: %w", err)
		}
		f := os.NewFile(uintptr(fd), "remsh")
		defer runtime.KeepAlive(f) // its finalizer closes fd
		if _, err := f.Write(append(line, '\n')); err != nil {
			return err
		}
		args = []string{args[0], fmt.Sprintf("/dev/fd/%d", fd)}
	}
	err := syscall.Exec(shell, args, env)
	return fmt.Errorf("exec %s: %w", shell, err)
}
