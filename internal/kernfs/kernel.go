package kernfs

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Open returns the directory path of the running kernel as an FS.
func Open(path string) (*FS, error) {
	k, err := openKernel(path)
	if err != nil {
		return nil, err
	}
	return New(k, path), nil
}

// kernel opens files below a directory with openat2. That takes one call however deep the name is;
// os.Root takes one for each part of the name. Only files that are watched are added to the
// runtime's poller.
type kernel struct {
	root *os.Root
	dir  *os.File // stays open: its descriptor is the starting point of openat2
	old  atomic.Bool
}

func openKernel(path string) (*kernel, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	dir, err := root.Open(".")
	if err != nil {
		root.Close()
		return nil, err
	}
	return &kernel{root: root, dir: dir}, nil
}

func (k *kernel) OpenFile(name string, flag int) (File, error) {
	fd, err := k.open(name, flag)
	if err != nil {
		return nil, err
	}
	return &file{fd: fd, name: name}, nil
}

func (k *kernel) Mkdir(name string, perm fs.FileMode) error {
	return k.inParent(name, func(fd int, base string) error { return unix.Mkdirat(fd, base, uint32(perm.Perm())) })
}

func (k *kernel) Rmdir(name string) error {
	return k.inParent(name, func(fd int, base string) error { return unix.Unlinkat(fd, base, unix.AT_REMOVEDIR) })
}

// inParent calls do with the opened parent directory of name, and the last part of name.
func (k *kernel) inParent(name string, do func(fd int, base string) error) error {
	defer runtime.KeepAlive(k)
	i := strings.LastIndexByte(name, '/')
	if i < 0 {
		return uninterrupted(func() error { return do(int(k.dir.Fd()), name) })
	}
	fd, err := k.open(name[:i], unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return uninterrupted(func() error { return do(fd, name[i+1:]) })
}

// uninterrupted repeats a call that was interrupted by a signal, such as one of the runtime's.
func uninterrupted(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// open returns a descriptor of name, which cannot be outside of k.
func (k *kernel) open(name string, flags int) (int, error) {
	// k.dir must not be finalized, and its descriptor reused, between Fd and the system call.
	defer runtime.KeepAlive(k)
	// No magic links: /proc/PID/root and similar links lead out of any directory.
	how := unix.OpenHow{Flags: uint64(flags) | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS}
	for !k.old.Load() {
		fd, err := unix.Openat2(int(k.dir.Fd()), name, &how)
		switch {
		case err == nil:
			return fd, nil
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN): // EAGAIN: a rename raced with the walk
		case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM) && k.refused():
			k.old.Store(true)
		default:
			return -1, err
		}
	}
	return k.openOld(name, flags)
}

// openOld is open for kernels before 5.6, where os.Root resolves the name itself.
func (k *kernel) openOld(name string, flags int) (int, error) {
	f, err := k.root.OpenFile(name, flags&^unix.O_PATH, 0)
	if err != nil {
		var p *fs.PathError // the caller names the file
		if errors.As(err, &p) {
			err = p.Err
		}
		if !errors.As(err, new(unix.Errno)) {
			err = leavesRoot{err}
		}
		return -1, err
	}
	defer f.Close()
	return unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
}

// leavesRoot gives os.Root's refusal the errno that openat2 would return.
type leavesRoot struct{ error }

func (leavesRoot) Unwrap() error { return unix.EXDEV }

// refused reports whether openat2 itself is forbidden: the seccomp filters of old container
// runtimes answer it with EPERM.
func (k *kernel) refused() bool {
	fd, err := unix.Openat2(int(k.dir.Fd()), ".", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC})
	if err == nil {
		unix.Close(fd)
	}
	return err != nil
}
