package kernfs

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// LinkBackend is what a Backend adds when it has symbolic links. Errors wrap the errno.
type LinkBackend interface {
	Readlink(name string) (string, error)
}

// Readlink returns what the symbolic link name says, and follows nothing: "socket:[4711]" of a
// descriptor in /proc/PID/fd. A backend without links is ErrUnsupported.
func (f *FS) Readlink(name string) (string, error) {
	p, err := f.at("readlink", name)
	if err != nil {
		return "", err
	}
	b, ok := f.backend.(LinkBackend)
	if !ok {
		return "", fmt.Errorf("readlink %s: %w", f.Path(name), ErrUnsupported)
	}
	target, err := b.Readlink(p)
	if err != nil {
		return "", fmt.Errorf("readlink %s: %w", f.Path(name), err)
	}
	return target, nil
}

// NamespaceBackend is what a Backend adds when its processes have namespaces. Errors wrap the
// errno.
type NamespaceBackend interface {
	OpenNamespace(name string) (*os.File, error)
}

// OpenNamespace opens a namespace of a process by its file in /proc/PID/ns (proc_pid_ns(5)); kind
// is such as "user". A backend without them is ErrUnsupported.
func (f *FS) OpenNamespace(pid int, kind string) (*os.File, error) {
	name := strconv.Itoa(pid) + "/ns/" + kind
	p, err := f.at("open", name)
	if err != nil {
		return nil, err
	}
	b, ok := f.backend.(NamespaceBackend)
	if !ok {
		return nil, fmt.Errorf("open %s: %w", f.Path(name), ErrUnsupported)
	}
	opened, err := b.OpenNamespace(p)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", f.Path(name), err)
	}
	return opened, nil
}

// FileID tells a file from all others of this kernel. The zero value is no file's.
type FileID struct{ Device, Inode uint64 }

// ExecutableBackend is what a Backend adds when its processes have executables. Errors wrap the
// errno.
type ExecutableBackend interface {
	Executable(name string) (FileID, error)
}

// Executable returns which file the process pid executes (proc_pid_exe(5)), which no name proves.
// Executable asks no file system, which may hang. A backend without executables is ErrUnsupported.
func (f *FS) Executable(pid int) (FileID, error) {
	name := strconv.Itoa(pid) + "/exe"
	p, err := f.at("stat", name)
	if err != nil {
		return FileID{}, err
	}
	b, ok := f.backend.(ExecutableBackend)
	if !ok {
		return FileID{}, fmt.Errorf("stat %s: %w", f.Path(name), ErrUnsupported)
	}
	id, err := b.Executable(p)
	if err != nil {
		return FileID{}, fmt.Errorf("stat %s: %w", f.Path(name), err)
	}
	return id, nil
}

// FileOf returns which file has the path, symbolic links followed.
func FileOf(path string) (FileID, error) {
	id, err := statx(unix.AT_FDCWD, path)
	if err != nil {
		return FileID{}, &os.PathError{Op: "statx", Path: path, Err: err}
	}
	return id, nil
}

// statx asks for nothing that a file system would have to find out: a user's may not answer.
func statx(dir int, name string) (FileID, error) {
	var st unix.Statx_t
	err := unix.Statx(dir, name, unix.AT_STATX_DONT_SYNC, unix.STATX_INO, &st)
	return FileID{unix.Mkdev(st.Dev_major, st.Dev_minor), st.Ino}, err
}

// Names returns the names in the directory name, in the order of the kernel.
func (f *FS) Names(name string) ([]string, error) {
	file, err := f.OpenFile(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	entries, err := file.ReadDir(-1)
	if err != nil {
		return nil, fmt.Errorf("read directory %s: %w", f.Path(name), err)
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

func (k *kernel) Readlink(name string) (target string, err error) {
	err = k.inParent(name, func(fd int, base string) error {
		b := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(fd, base, b)
		if err == nil {
			target = string(b[:n])
		}
		return err
	})
	return target, err
}

// OpenNamespace follows a magic link, which open does not. Such a link leads to a namespace and
// nowhere else.
func (k *kernel) OpenNamespace(name string) (opened *os.File, err error) {
	err = k.inParent(name, func(dir int, base string) error {
		fd, err := unix.Openat(dir, base, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			opened = os.NewFile(uintptr(fd), name)
		}
		return err
	})
	return opened, err
}

// Executable follows a magic link as well, and opens nothing.
func (k *kernel) Executable(name string) (id FileID, err error) {
	err = k.inParent(name, func(dir int, base string) error {
		id, err = statx(dir, base)
		return err
	})
	return id, err
}
