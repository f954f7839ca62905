package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// maxEnviron limits how much of an environment is read, since its length is up to the user.
const maxEnviron = 256 << 10

// Environ returns the environment that the process pid was started with, from /proc/PID/environ. It
// is NAME=VALUE, each followed by a NUL, at most 256 KiB. It is empty for kernel threads. The read
// waits for the process's memory map, which a thread that hangs in the kernel may hold forever. A
// caller that must not hang uses Environs. Environ fails with ErrGone if the process is gone.
func Environ(procfs *kernfs.FS, pid int) ([]byte, error) {
	b, err := environIn(procfs, strconv.Itoa(pid))
	if len(b) > 0 || err != nil && !errors.Is(err, ErrGone) {
		return b, err
	}
	dir, goneErr := Running(procfs, pid)
	if goneErr != nil || dir == strconv.Itoa(pid) {
		return b, err
	}
	return environIn(procfs, dir)
}

// environIn is Environ for a directory of /proc.
func environIn(procfs *kernfs.FS, dir string) ([]byte, error) {
	op := "read environment of process " + dir
	f, err := procfs.OpenFile(dir+"/environ", os.O_RDONLY)
	if err != nil {
		return nil, gone(op, err)
	}
	defer f.Close()
	b := make([]byte, 0, 4096)
	for len(b) < maxEnviron {
		if len(b) == cap(b) {
			b = append(b, make([]byte, len(b))...)[:len(b)]
		}
		n, err := f.Read(b[len(b):min(cap(b), maxEnviron)])
		b = b[:len(b)+n]
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, gone(op, fmt.Errorf("read %s: %w", procfs.Path(dir+"/environ"), err))
		}
	}
	return b, nil
}

// Getenv returns the value of a variable in an environment from Environ. If there are several the
// first counts, as in getenv(3). There is no variable with an empty name.
func Getenv(environ []byte, name string) (value string, ok bool) {
	for entry := range bytes.SplitSeq(environ, []byte{0}) {
		if rest, found := bytes.CutPrefix(entry, []byte(name)); found && name != "" && len(rest) > 0 && rest[0] == '=' {
			return string(rest[1:]), true
		}
	}
	return "", false
}
