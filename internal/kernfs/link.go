package kernfs

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Readlink returns what the symbolic link name says, and follows nothing: "socket:[4711]" of a
// descriptor in /proc/PID/fd. A backend in memory is ErrUnsupported.
func (f *FS) Readlink(name string) (string, error) {
	return ask(f, "readlink", name, (*kernel).readlink)
}

// FileID tells a file from all others of this kernel. The zero value is no file's.
type FileID struct{ Device, Inode uint64 }

// Executable returns which file the process pid executes (proc_pid_exe(5)), which no name proves.
// Executable asks no file system, which may hang. A backend in memory is ErrUnsupported.
func (f *FS) Executable(pid int) (FileID, error) {
	return ask(f, "stat", strconv.Itoa(pid)+"/exe", (*kernel).executable)
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
	if err := unix.Statx(dir, name, unix.AT_STATX_DONT_SYNC, unix.STATX_INO, &st); err != nil {
		return FileID{}, err
	}
	return FileID{unix.Mkdev(st.Dev_major, st.Dev_minor), st.Ino}, nil
}

func (k *kernel) readlink(name string) (target string, err error) {
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

// executable follows a magic link, which open does not, and opens nothing.
func (k *kernel) executable(name string) (id FileID, err error) {
	err = k.inParent(name, func(dir int, base string) error {
		id, err = statx(dir, base)
		return err
	})
	return id, err
}
