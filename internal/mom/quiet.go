package mom

import (
	"io"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// quietFD is a file descriptor whose reads and writes the Go runtime does not see. While a thread
// waits in a system call, the runtime passes its cpu to an idle thread. On a busy machine none may
// be idle yet. Then the runtime creates one, and ends the program if a limit (-l pids) forbids it.
type quietFD int

func (fd quietFD) Read(b []byte) (int, error) {
	n, err := fd.call("read", unix.SYS_READ, b)
	if n == 0 && err == nil && len(b) > 0 {
		err = io.EOF
	}
	return n, err
}

func (fd quietFD) Write(b []byte) (int, error) {
	for done := 0; done < len(b); {
		n, err := fd.call("write", unix.SYS_WRITE, b[done:])
		if err != nil {
			return done, err
		}
		done += n
	}
	return len(b), nil
}

func (fd quietFD) call(name string, trap uintptr, b []byte) (int, error) {
	for {
		n, _, errno := unix.RawSyscall(trap, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
		switch errno {
		case 0:
			return int(n), nil
		case unix.EINTR:
		default:
			return 0, os.NewSyscallError(name, errno)
		}
	}
}
