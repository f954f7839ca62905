package kernfs

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Readlink returns the target of the symbolic link name and does not follow it: "socket:[4711]" for
// a descriptor in /proc/PID/fd. On a backend in memory it fails with ErrUnsupported.
func (f *FS) Readlink(name string) (string, error) {
	return ask(f, "readlink", name, (*kernel).readlink)
}

// FileID distinguishes a file from all others of this kernel. The zero value belongs to no file.
type FileID struct{ Device, Inode uint64 }

// Executable returns the file that the process pid executes (proc_pid_exe(5)), which a name could
// not prove. It does not ask the file system, which might hang. On a backend in memory it fails
// with ErrUnsupported.
func (f *FS) Executable(pid int) (FileID, error) {
	return ask(f, "stat", strconv.Itoa(pid)+"/exe", (*kernel).executable)
}

// FileOf returns the file at the path and follows symbolic links.
func FileOf(path string) (FileID, error) {
	id, err := statx(unix.AT_FDCWD, path)
	if err != nil {
		return FileID{}, &os.PathError{Op: "statx", Path: path, Err: err}
	}
	return id, nil
}

// statx requests only what the kernel knows without asking the file system: a user's file system
// may not answer.
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
