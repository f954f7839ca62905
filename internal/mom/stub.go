package mom

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/mountns"
	"github.com/hookhost/hookhost/internal/proc"
)

// stub is a process in its own session that waits to become a job's program, as a child of pbs_mom
// does. The event execjob_launch moves it into the job's cgroup, and then it execs. So not a single
// instruction of the program runs outside. The stub runs this program: see RunStub.
type stub struct {
	*proc.Child
	line *os.File // to the stub
}

// stubName is the name under which this program is started as a stub.
const stubName = "hookhost-stub"

// order describes the program that a stub becomes.
type order struct {
	Path       string
	Args, Env  []string
	Umask      int
	Credential *syscall.Credential
}

// ExecError means that the program itself could not be run. The file does not exist (errors.Is
// fs.ErrNotExist), or may not or cannot be executed. Everything else had succeeded.
type ExecError struct {
	Path string
	Err  error // the errno
}

func (e *ExecError) Error() string { return fmt.Sprintf("execute %s: %v", e.Path, e.Err) }

func (e *ExecError) Unwrap() error { return e.Err }

// startStub starts a stub with the job's standard input, output and error, and returns when it
// waits. The stub ends by itself when its caller has ended.
func startStub(spec *Spec) (*stub, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("start a stub: %w", os.NewSyscallError("socketpair", err))
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "stub"), os.NewFile(uintptr(pair[1]), "stub")
	defer theirs.Close()
	// The stub's end has the same number, so it does not use a number of the caller's own files.
	if _, err := unix.FcntlInt(theirs.Fd(), unix.F_SETFD, 0); err != nil {
		ours.Close()
		return nil, fmt.Errorf("start a stub: %w", os.NewSyscallError("fcntl", err))
	}
	cmd := &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{stubName, strconv.Itoa(pair[1])},
		Env: []string{"GOMAXPROCS=1", "GOGC=off"},
	}
	if spec.Stdin != nil { // a nil *os.File in the interface would not be nil
		cmd.Stdin = spec.Stdin
	}
	if spec.Stdout != nil {
		cmd.Stdout = spec.Stdout
	}
	if spec.Stderr != nil {
		cmd.Stderr = spec.Stderr
	}
	child, err := startIn(filepath.Join(spec.Namespaces, spec.Job.ID), cmd)
	if err != nil {
		ours.Close()
		return nil, err
	}
	theirs.Close() // otherwise the stub's end would go unnoticed
	s := &stub{Child: child, line: ours}
	if _, err := io.ReadFull(ours, make([]byte, 1)); err != nil {
		s.end()
		return nil, fmt.Errorf("start a stub: it has ended: %w", err)
	}
	return s, nil
}

// startIn starts a program in the job's mount namespace, if it has one. There the program is in the
// caller's directory, by name.
func startIn(pin string, cmd *exec.Cmd) (child *proc.Child, err error) {
	if _, err := os.Lstat(pin); errors.Is(err, fs.ErrNotExist) {
		return proc.Start(cmd)
	}
	if cmd.Dir, err = os.Getwd(); err != nil {
		return nil, err
	}
	err = mountns.Enter(pin, func() (err error) {
		if child, err = proc.Start(cmd); errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w: is it in a private directory? Start the job in another one", err)
		}
		return err
	})
	return child, err
}

// execute makes the stub run a program. It fails with *ExecError if the program is at fault.
func (s *stub) execute(o *order) error {
	if err := gob.NewEncoder(s.line).Encode(o); err != nil {
		return fmt.Errorf("execute %s: order the stub: %w", o.Path, err)
	}
	text, err := io.ReadAll(s.line) // its end closes when the program runs
	if err != nil || len(text) == 0 {
		return err
	}
	if n, err := strconv.Atoi(string(text)); err == nil {
		return &ExecError{Path: o.Path, Err: syscall.Errno(n)}
	}
	return fmt.Errorf("execute %s: %s", o.Path, text)
}

// end ends a stub that will not become a program. The job's epilogue deals with a stub that hangs
// in the kernel.
func (s *stub) end() {
	s.line.Close()
	s.Signal(unix.SIGKILL)
	ctx, cancel := context.WithTimeout(context.Background(), reapTime)
	defer cancel()
	s.Wait(ctx)
}

// IsStub reports whether this program was started as a stub. Its main function then calls RunStub.
func IsStub() bool { return os.Args[0] == stubName && len(os.Args) == 2 }

// RunStub runs a stub. It returns if the stub cannot become the program. The stub's caller receives
// the errno of execve(2), or another error as text.
func RunStub() {
	if fd, err := strconv.Atoi(os.Args[1]); err == nil {
		unix.CloseOnExec(fd)
		line := quietFD(fd)
		err := carryOut(line)
		if errno, is := err.(syscall.Errno); is { // execve(2)'s, which is not wrapped
			fmt.Fprint(line, int(errno))
		} else {
			fmt.Fprint(line, err)
		}
	}
}

// room is the memory mapped for the order. An environment has at most 6 MB.
const room = 32 << 20

// carryOut waits for the order and carries it out.
//
// By the time the order comes, the job's limits are in force. So the runtime must already have the
// memory (-l pvmem) and threads (-l pids) that it still needs. With one cpu, these are the thread
// that is locked here and one for everything else. This one keeps the cpu while it waits: see
// quietFD.
func carryOut(line quietFD) error {
	runtime.LockOSThread()
	elsewhere := make(chan struct{})
	go close(elsewhere)
	<-elsewhere
	runtime.KeepAlive(make([]byte, room))
	runtime.GC()
	var before, now syscall.Rlimit
	if err := syscall.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		return os.NewSyscallError("getrlimit", err)
	}
	if _, err := line.Write([]byte{0}); err != nil {
		return err
	}
	var o order
	if err := gob.NewDecoder(line).Decode(&o); err != nil {
		return fmt.Errorf("read the order: %w", err)
	}
	// Go has raised the soft limit of open files. Exec restores it, unless Setrlimit was called.
	if err := syscall.Getrlimit(unix.RLIMIT_NOFILE, &now); err != nil {
		return os.NewSyscallError("getrlimit", err)
	}
	if now != before {
		if err := syscall.Setrlimit(unix.RLIMIT_NOFILE, &now); err != nil {
			return os.NewSyscallError("setrlimit", err)
		}
	}
	unix.Umask(o.Umask)
	if o.Credential != nil {
		if err := proc.BecomeUser(o.Credential); err != nil {
			return err
		}
	}
	return syscall.Exec(o.Path, o.Args, o.Env)
}
