package kernfs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Dir is an open directory. Reads through it refer to the directory that was opened, even if
// another one has its name by now. A Dir of /proc/PID is one process: once that was reaped, reading
// its files fails with ENOENT or ESRCH. The directory refers to a struct pid, which no later
// process gets (proc_pid_lookup). A Dir is for one goroutine at a time.
type Dir struct {
	file file
	path string
}

// OpenDir opens the directory name. It fails with ErrUnsupported on a backend in memory, and before
// Linux 5.6.
func (f *FS) OpenDir(name string) (*Dir, error) {
	fd, err := ask(f, "open", name, (*kernel).openDir)
	if err != nil {
		return nil, err
	}
	return &Dir{file{fd: fd}, f.Path(name)}, nil
}

// ReadFile returns the contents of a small file in the directory. The name has no slashes. A
// symbolic link is ELOOP.
func (d *Dir) ReadFile(name string) ([]byte, error) {
	how := unix.OpenHow{Flags: unix.O_RDONLY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS}
	for {
		fd, err := unix.Openat2(d.file.fd, name, &how)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN): // EAGAIN: a rename raced with the walk
			continue
		case err != nil:
			return nil, fmt.Errorf("open %s/%s: %w", d.path, name, err)
		}
		opened := file{fd: fd}
		defer opened.Close()
		b, err := readAll(&opened, false)
		if err != nil {
			return nil, fmt.Errorf("read %s/%s: %w", d.path, name, err)
		}
		return b, nil
	}
}

// Close closes the directory.
func (d *Dir) Close() error { return d.file.Close() }

func (k *kernel) openDir(name string) (int, error) {
	fd, err := k.open(name, unix.O_PATH|unix.O_DIRECTORY)
	if err == nil && k.old.Load() {
		unix.Close(fd)
		return -1, ErrUnsupported
	}
	return fd, err
}

// Numbers returns the numeric names in the directory name, in the kernel's order. These are the
// processes in /proc, and the open files in /proc/PID/fd.
func (f *FS) Numbers(name string) ([]int, error) {
	opened, err := f.OpenFile(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	var list []int
	if d, ok := opened.(*file); ok {
		list, err = d.numbers()
	} else {
		entries, rerr := opened.ReadDir(-1)
		for _, e := range entries {
			if n, err := strconv.ParseUint(e.Name(), 10, 31); err == nil {
				list = append(list, int(n))
			}
		}
		err = rerr
	}
	if err != nil {
		return nil, fmt.Errorf("read directory %s: %w", f.Path(name), err)
	}
	return list, nil
}

// numbers reads a directory without creating a string or an entry for each name.
func (f *file) numbers() ([]int, error) {
	buffer := buffers.Get().(*[32 << 10]byte)
	defer buffers.Put(buffer)
	var list []int
	for {
		n, err := unix.Getdents(f.fd, buffer[:])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return nil, err
		case n == 0:
			return list, nil
		}
		list = appendNumbers(list, buffer[:n])
	}
}

// Offsets in struct linux_dirent64 (getdents64(2)): that of the length, which has two bytes, and
// that of the name. They are the same on all architectures.
const (
	direntLength = 16
	direntName   = 19
)

// appendNumbers appends the numeric names in a buffer of getdents64.
func appendNumbers(list []int, b []byte) []int {
	for len(b) > direntName {
		length := int(binary.NativeEndian.Uint16(b[direntLength:]))
		if length <= direntName || length > len(b) {
			return list
		}
		if n, ok := number(b[direntName:length]); ok {
			list = append(list, n)
		}
		b = b[length:]
	}
	return list
}

// number parses a name that ends with a NUL.
func number(name []byte) (n int, ok bool) {
	for i, c := range name {
		switch {
		case c == 0:
			return n, i > 0
		case c < '0' || c > '9':
			return 0, false
		}
		if n = 10*n + int(c-'0'); n > math.MaxInt32 {
			return 0, false
		}
	}
	return 0, false
}
