package proc

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
)

// Spec is a program to start as the leader of a new session.
type Spec struct {
	Path string   // the program's file
	Args []string // with the program's name first, as for execve(2)
	Env  []string // the whole environment, "NAME=value"

	// Stdin, Stdout and Stderr become descriptors 0, 1 and 2 directly, without copying. Nil means
	// /dev/null.
	Stdin, Stdout, Stderr *os.File
}

// Start starts the program. The child does not die with its parent: a job ends by its events, not
// because its starter crashes.
func Start(cmd *Spec) (*Child, error) {
	attr := &syscall.ProcAttr{Env: cmd.Env, Sys: &syscall.SysProcAttr{Setsid: true}}
	for _, f := range []*os.File{cmd.Stdin, cmd.Stdout, cmd.Stderr} {
		if f == nil {
			null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
			if err != nil {
				return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
			}
			defer null.Close()
			f = null
		}
		attr.Files = append(attr.Files, f.Fd())
	}
	pidfd := -1 // stays -1 if the kernel has none
	attr.Sys.PidFD = &pidfd
	pid, err := syscall.ForkExec(cmd.Path, cmd.Args, attr)
	runtime.KeepAlive(cmd) // Fd() alone does not keep a file open
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return newChild(pid, pidfd), nil
}
