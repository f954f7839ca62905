package kernfs

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// file is a plain descriptor, which the runtime's poller does not know.
type file struct {
	fd   int
	name string
	list *os.File // the owner of fd, once a directory is read
}

func (f *file) Fd() uintptr { return uintptr(f.fd) }

func (f *file) Read(b []byte) (int, error) {
	for {
		n, err := unix.Read(f.fd, b)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, err
		case n == 0 && len(b) > 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

func (f *file) Write(b []byte) (int, error) {
	for {
		n, err := unix.Write(f.fd, b)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, err
		case n != len(b):
			return n, io.ErrShortWrite // a second write would set a second value
		default:
			return n, nil
		}
	}
}

// Close closes the descriptor once: by a second call, its number may belong to another file.
func (f *file) Close() error {
	if f.fd < 0 {
		return os.ErrClosed
	}
	fd := f.fd
	f.fd = -1
	if f.list != nil {
		return f.list.Close()
	}
	return unix.Close(fd)
}

func (f *file) ReadDir(n int) ([]fs.DirEntry, error) {
	if f.list == nil {
		f.list = os.NewFile(uintptr(f.fd), f.name)
	}
	entries, err := f.list.ReadDir(n)
	if errno := unix.Errno(0); errors.As(err, &errno) {
		err = errno // the caller names the directory
	}
	return entries, err
}
