package kernfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Open returns the directory path of the running kernel as an FS.
func Open(path string) (*FS, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	dir, err := root.Open(".")
	if err != nil {
		root.Close()
		return nil, err
	}
	return New(&kernel{root: root, dir: dir}, path), nil
}

// kernel opens below a directory with openat2: one system call however deep the name, where os.Root takes one for
// each part of it, and no file is offered to the runtime's poller, which could not wait for it anyway.
type kernel struct {
	root *os.Root
	dir  *os.File // kept: its descriptor anchors openat2
	old  atomic.Bool
}

func (k *kernel) OpenFile(name string, flag int) (File, error) {
	if k.old.Load() {
		return k.root.OpenFile(name, flag, 0)
	}
	// No magic links: /proc/PID/root and its like lead out of any directory.
	how := unix.OpenHow{Flags: uint64(flag) | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS}
	for {
		fd, err := unix.Openat2(int(k.dir.Fd()), name, &how)
		switch {
		case err == nil:
			return &file{fd: fd, name: name}, nil
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN): // EAGAIN: a rename raced with the walk
		case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM) && k.refused():
			k.old.Store(true)
			return k.root.OpenFile(name, flag, 0)
		default:
			return nil, err
		}
	}
}

// refused tells whether openat2 itself is forbidden (seccomp of old container runtimes answers EPERM to it).
func (k *kernel) refused() bool {
	fd, err := unix.Openat2(int(k.dir.Fd()), ".", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC})
	if err == nil {
		unix.Close(fd)
	}
	return err != nil
}

func (k *kernel) Mkdir(name string, perm fs.FileMode) error { return k.root.Mkdir(name, perm) }

// Rmdir does not use os.Root.Remove, which would take a file as well.
func (k *kernel) Rmdir(name string) error {
	parent, base := splitName(name)
	fd := int(k.dir.Fd())
	if parent != "." {
		p, err := unix.Openat2(fd, parent, &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH})
		if errors.Is(err, unix.ENOSYS) {
			return k.root.Remove(name)
		}
		if err != nil {
			return err
		}
		defer unix.Close(p)
		fd = p
	}
	return unix.Unlinkat(fd, base, unix.AT_REMOVEDIR)
}

func splitName(name string) (parent, base string) {
	for i := len(name) - 1; i >= 0; i-- {
		if name[i] == '/' {
			return name[:i], name[i+1:]
		}
	}
	return ".", name
}

// file is a plain descriptor.
type file struct {
	fd   int
	name string
}

// Fd returns the descriptor, for fstat, xattr and event registration. It stays the file's own.
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
			return n, io.ErrShortWrite // a second write would be a second value
		default:
			return n, nil
		}
	}
}

func (f *file) Close() error { return unix.Close(f.fd) }

func (f *file) ReadDir(n int) ([]fs.DirEntry, error) {
	fd, err := unix.Dup(f.fd)
	if err != nil {
		return nil, err
	}
	d := os.NewFile(uintptr(fd), f.name)
	defer d.Close()
	return d.ReadDir(n)
}
