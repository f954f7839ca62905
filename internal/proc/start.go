package proc

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
)

// Spec is a program to start as the leader of a new session.
type Spec struct {
	Path string   // the program's file
	Args []string // with the program's name first, as execve(2) takes them
	Env  []string // the whole environment, "NAME=value"

	// Stdin, Stdout and Stderr become descriptors 0, 1 and 2 themselves: nothing copies in between.
	// Nil is /dev/null.
	Stdin, Stdout, Stderr *os.File

	// Credential is who the program runs as; nil for the caller. Another user has none of the
	// caller's session keyring: see LeaveSessionKeyring.
	Credential *syscall.Credential

	// Rlimits are limits that the program starts with, by their names in getrlimit(2), lower case
	// and without RLIMIT_; it has the caller's for the rest. See forkStopped for what that takes.
	Rlimits map[string]hostapi.Rlimit
}

// ExecError says that the program itself could not be run: there is no such file (errors.Is
// fs.ErrNotExist), or it may not or cannot be executed. Everything was in place for it.
type ExecError struct {
	Path string
	Err  error // the errno
}

func (e *ExecError) Error() string {
	return fmt.Sprintf("execute %s: %v", e.Path, e.Err)
}

func (e *ExecError) Unwrap() error { return e.Err }

// Start starts the program inside the cgroups of join; the child is born in all of them, so nothing
// it does escapes account or limit. The caller's threads are where they were when Start returns.
// The child does not die with its parent: a job ends by its events, not by an accident of its
// starter.
//
// cgroup v2 is CLONE_INTO_CGROUP, except on kernels that leave the child its parent's cpus then;
// see birth.go. cgroup v1 has no such thing; see startFromThread. Start fails with *ExecError when
// the program is at fault and with another error when the cgroups or the fork are; then nothing was
// started.
func Start(cmd *Spec, join hostapi.Join) (*Child, error) {
	var files files
	defer files.close()
	procs, err := movesIn(join, &files)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	if procs != nil {
		join.CgroupDir = ""
	}
	attr, err := cmd.procAttr(join, &files)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	defer runtime.KeepAlive(cmd) // Fd() alone does not keep a file open
	if len(join.Tasks) == 0 && cmd.Credential == nil {
		return cmd.fork(attr, procs)
	}
	return cmd.startFromThread(attr, join.Tasks, procs)
}

// procAttr returns what the fork needs; what it opens for that goes into opened.
func (cmd *Spec) procAttr(join hostapi.Join, opened *files) (*syscall.ProcAttr, error) {
	attr := &syscall.ProcAttr{Env: cmd.Env, Sys: &syscall.SysProcAttr{
		Setsid: true, Credential: cmd.Credential}}
	for _, f := range []*os.File{cmd.Stdin, cmd.Stdout, cmd.Stderr} {
		if f == nil {
			var err error
			if f, err = opened.open(os.DevNull, os.O_RDWR); err != nil {
				return nil, err
			}
		}
		attr.Files = append(attr.Files, f.Fd())
	}
	if join.CgroupDir != "" {
		dir, err := opened.open(join.CgroupDir, unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			return nil, err
		}
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, int(dir.Fd())
	}
	return attr, nil
}

// files are files that are closed together.
type files []*os.File

func (fs *files) open(name string, flag int) (*os.File, error) {
	f, err := os.OpenFile(name, flag, 0)
	if err == nil {
		*fs = append(*fs, f)
	}
	return f, err
}

func (fs *files) close() {
	for _, f := range *fs {
		f.Close()
	}
}

// fork starts the program from the calling thread, in that thread's cgroups or in the one whose
// cgroup.procs is given.
func (cmd *Spec) fork(attr *syscall.ProcAttr, procs *os.File) (*Child, error) {
	if limits := needed(cmd.Rlimits); len(limits) > 0 || procs != nil {
		return cmd.forkStopped(attr, limits, procs)
	}
	pid, pidfd, err := cmd.forkExec(attr)
	if err != nil {
		return nil, err
	}
	return newChild(pid, pidfd), nil
}

// forkExec returns the new process; pidfd is -1 when the kernel has none.
func (cmd *Spec) forkExec(attr *syscall.ProcAttr) (pid, pidfd int, err error) {
	pidfd = -1
	attr.Sys.PidFD = &pidfd
	pid, err = syscall.ForkExec(cmd.Path, cmd.Args, attr)
	if err == nil {
		return pid, pidfd, nil
	}
	// ForkExec tells the errno but not the step. Every step before execve was prepared.
	if slices.ContainsFunc(notTheProgram, func(e syscall.Errno) bool { return errors.Is(err, e) }) {
		return 0, -1, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return 0, -1, &ExecError{Path: cmd.Path, Err: err}
}

// notTheProgram are the errnos of clone3 (no room; a cgroup that is gone, threaded or has children
// with controllers) and of the change of user.
var notTheProgram = []syscall.Errno{
	unix.EAGAIN, unix.ENOMEM, unix.ENOSPC, unix.EMFILE, unix.ENFILE, unix.EBUSY, unix.ENODEV, unix.EOPNOTSUPP,
	unix.EPERM, unix.ENOSYS,
}
