// Package proctest has processes for tests of jobs.
package proctest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/proc"
)

// Process is a process that a test talks to.
type Process struct {
	*proc.Child
	In  *os.File
	Out *bufio.Reader
}

// waits is the name by which a test program is called that waits to become another.
const waits = "proctest-waits"

// uidVariable names the user that the program becomes.
const uidVariable = "PROCTEST_UID"

// As returns the variable with which Start starts a program as a user and a group of this number.
func As(uid int) string { return fmt.Sprintf("%s=%d", uidVariable, uid) }

// init is the life of such programs. A program that waits does so for a line.
func init() {
	switch os.Args[0] {
	case waits:
	case headless:
		go func() { // init itself runs in the first thread
			io.Copy(io.Discard, os.Stdin)
			os.Exit(0)
		}()
		unix.Syscall(unix.SYS_EXIT, 0, 0, 0)
	default:
		return
	}
	for b := []byte{0}; b[0] != '\n'; {
		if n, err := unix.Read(0, b); n != 1 && !errors.Is(err, unix.EINTR) {
			os.Exit(1)
		}
	}
	var err error
	if uid, convErr := strconv.Atoi(os.Getenv(uidVariable)); convErr == nil {
		err = errors.Join(syscall.Setgroups(nil), syscall.Setgid(uid), syscall.Setuid(uid))
	}
	if err == nil {
		err = syscall.Exec(os.Args[1], os.Args[2:], os.Environ())
	}
	fmt.Fprintf(os.Stderr, "execute %s: %v\n", os.Args[1], err)
	os.Exit(1)
}

// headless is the name by which a test program is called whose first thread ends.
const headless = "proctest-headless"

// StartHeadless is like Start for a process whose first thread has ended, and whose other threads
// run on until its standard input is closed.
func StartHeadless(t testing.TB, enter func(pid int), env ...string) *Process {
	t.Helper()
	p := Start(t, &exec.Cmd{Args: []string{headless}, Env: env}, enter)
	must.Eventually(t, "the first thread to end", func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID))
		return err == nil && bytes.Contains(b, []byte(") Z "))
	})
	return p
}

// Start starts a process with pipes as its standard input and output. enter has its pid before its
// first instruction, to move it into a job's cgroup; nil does nothing, and then As has no effect.
// The path of cmd is this test program where it has none. The end of the test ends the process.
func Start(t testing.TB, cmd *exec.Cmd, enter func(pid int)) *Process {
	t.Helper()
	inR, inW, err := os.Pipe()
	must.NoError(t, err)
	outR, outW, err := os.Pipe()
	must.NoError(t, err)
	if cmd.Path == "" {
		cmd.Path = "/proc/self/exe"
		// The runtime's own use of cpu and memory is small like this, beside what tests measure.
		cmd.Env = append([]string{"GOMAXPROCS=1", "GOGC=off"}, cmd.Env...)
	}
	if enter != nil {
		cmd.Args = append([]string{waits, cmd.Path}, cmd.Args...)
		cmd.Path = "/proc/self/exe"
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inR, outW, os.Stderr
	child, err := proc.Start(cmd)
	inR.Close()
	outW.Close()
	if err != nil {
		inW.Close()
		outR.Close()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := child.Signal(unix.SIGKILL); err != nil && !errors.Is(err, proc.ErrGone) {
			t.Error(err)
		}
		if _, err := child.Wait(context.Background()); err != nil {
			t.Error(err)
		}
		inW.Close()
		outR.Close()
	})
	if enter != nil {
		enter(child.PID)
		fmt.Fprintln(inW)
	}
	return &Process{Child: child, In: inW, Out: bufio.NewReader(outR)}
}
