// Package kernfs is the door to the kernel's file systems: /proc, /sys and the cgroup mounts.
//
// An FS is a directory, and nothing reached through it can be outside of it (openat2 with
// RESOLVE_BENEATH, Linux 5.6; os.Root before that). Its root is a value, so tests can pass a
// captured tree or the fake kernel of kernfstest. Writes never create a file: a misspelt name is
// ENOENT, as on a kernel. Each value is one write(2), as cgroupfs requires.
package kernfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
)

// Backend implements an FS: the kernel (Open) or the fake one (kernfstest). Names are clean,
// relative and separated by slashes; "." is the root. Errors wrap the errno.
type Backend interface {
	// OpenFile opens an existing file or directory. flag is os.O_RDONLY, os.O_WRONLY or os.O_RDWR.
	OpenFile(name string, flag int) (File, error)
	Mkdir(name string, perm fs.FileMode) error
	// Rmdir removes a directory as rmdir(2) does. On cgroupfs that includes its interface files.
	Rmdir(name string) error
}

// File is an open file of a Backend.
type File interface {
	io.ReadWriteCloser
	ReadDir(n int) ([]fs.DirEntry, error)
	// Fd returns the descriptor, for fstat, flock and event registration. The file still owns it.
	// On a backend in memory it may be that of a closed file.
	Fd() uintptr
}

// FS is a directory of a kernel file system. The zero value is not usable. An FS is safe for
// concurrent use.
type FS struct {
	backend Backend
	dir     string // relative to the backend's root; "." is the root itself
	path    string // its path in errors and in Path
}

// New returns the root of b. path is its absolute path, if it has one.
func New(b Backend, path string) *FS { return &FS{backend: b, dir: ".", path: path} }

// Roots are the file systems of a program: the real ones in main, others in tests.
type Roots struct {
	Proc   *FS // /proc
	Sys    *FS // /sys
	Cgroup *FS // /sys/fs/cgroup
}

// OpenRoots opens /proc, /sys and /sys/fs/cgroup of this machine.
func OpenRoots() (Roots, error) {
	var r Roots
	for _, d := range []struct {
		to   **FS
		path string
	}{{&r.Proc, "/proc"}, {&r.Sys, "/sys"}, {&r.Cgroup, "/sys/fs/cgroup"}} {
		f, err := Open(d.path)
		if err != nil {
			return Roots{}, err
		}
		*d.to = f
	}
	return r, nil
}

// Sub returns the directory name below f, which need not exist. It fails if name is outside of f.
func (f *FS) Sub(name string) (*FS, error) {
	dir, err := f.clean(name)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	return &FS{backend: f.backend, dir: dir, path: path.Join(f.path, name)}, nil
}

// Path returns the absolute path of name, for the few system calls that need one. It opens nothing.
func (f *FS) Path(name string) string { return path.Join(f.path, name) }

// clean returns name relative to the backend's root. A name that could be outside of f is EXDEV, as
// with openat2.
func (f *FS) clean(name string) (string, error) {
	if path.IsAbs(name) || strings.Contains(name, "..") && slices.Contains(strings.Split(name, "/"), "..") {
		return "", fmt.Errorf("leaves %s: %w", f.path, syscall.EXDEV)
	}
	switch name = path.Clean(name); { // path.Join would always create a new string
	case f.dir == ".":
		return name, nil
	case name == ".":
		return f.dir, nil
	}
	return f.dir + "/" + name, nil
}

// ask makes f's backend carry out op on name if it implements B, otherwise it fails with
// ErrUnsupported. Errors name op and the path.
func ask[B, T any](f *FS, op, name string, do func(b B, at string) (T, error)) (answer T, err error) {
	at, err := f.clean(name)
	if err != nil {
		return answer, fmt.Errorf("%s %s: %w", op, name, err)
	}
	b, ok := f.backend.(B)
	if !ok {
		return answer, fmt.Errorf("%s %s: %w", op, f.Path(name), ErrUnsupported)
	}
	if answer, err = do(b, at); err != nil {
		err = fmt.Errorf("%s %s: %w", op, f.Path(name), err)
	}
	return answer, err
}

// change is ask for an operation without a result.
func change[B any](f *FS, op, name string, do func(b B, at string) error) error {
	_, err := ask(f, op, name, func(b B, at string) (struct{}, error) { return struct{}{}, do(b, at) })
	return err
}

// OpenFile opens name without creating it. flag is os.O_RDONLY, os.O_WRONLY or os.O_RDWR.
func (f *FS) OpenFile(name string, flag int) (File, error) {
	return ask(f, "open", name, func(b Backend, at string) (File, error) { return b.OpenFile(at, flag) })
}

// ReadFile returns the contents of a small file.
func (f *FS) ReadFile(name string) ([]byte, error) { return f.read(name, false) }

// ReadValue is ReadFile for an attribute of cgroupfs or sysfs. The kernel shows these in one piece
// (kernfs.h, seq_show), except lists of processes. So no second read looks for the end.
func (f *FS) ReadValue(name string) ([]byte, error) { return f.read(name, true) }

func (f *FS) read(name string, onePiece bool) ([]byte, error) {
	file, err := f.OpenFile(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	b, err := readAll(file, onePiece)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", f.Path(name), err)
	}
	return b, nil
}

// WriteError means that the kernel refused a value.
type WriteError struct {
	File  string // absolute path
	Value string
	Err   error // the errno
}

func (e *WriteError) Error() string { return fmt.Sprintf("write %q to %s: %v", e.Value, e.File, e.Err) }
func (e *WriteError) Unwrap() error { return e.Err }

// Write writes value to the existing file name with one write(2), and fails with a *WriteError.
// Write an empty list as "\n". An empty value is EINVAL: the kernel would accept it without passing
// it to the file.
func (f *FS) Write(name, value string) error {
	w := f.Writer(name)
	err := w.Write(value)
	if cerr := w.Close(); err == nil && cerr != nil {
		err = &WriteError{File: f.Path(name), Value: value, Err: cerr}
	}
	return err
}

// Writer writes values to an existing file, one after another. It must be closed, and is for one
// goroutine at a time.
type Writer struct {
	fs   *FS
	name string
	file File // nil until the first value
}

// Writer returns a writer for the file name. The first Write opens the file.
func (f *FS) Writer(name string) *Writer { return &Writer{fs: f, name: name} }

// Write is FS.Write. If the file was removed after the first value, the error is ENODEV.
func (w *Writer) Write(value string) error {
	if value == "" {
		return &WriteError{File: w.fs.Path(w.name), Err: syscall.EINVAL}
	}
	if w.file == nil {
		p, err := w.fs.clean(w.name)
		if err != nil {
			return &WriteError{File: w.name, Value: value, Err: err}
		}
		file, err := w.fs.backend.OpenFile(p, os.O_WRONLY)
		if err != nil {
			return &WriteError{File: w.fs.Path(w.name), Value: value, Err: err}
		}
		w.file = file
	}
	if _, err := io.WriteString(w.file, value); err != nil {
		return &WriteError{File: w.fs.Path(w.name), Value: value, Err: err}
	}
	return nil
}

// Close closes the file, if it was opened.
func (w *Writer) Close() error {
	if w.file == nil {
		return nil
	}
	err := w.file.Close()
	w.file = nil
	return err
}

// Unlisted is the mode of directories that anybody may pass and only root may list. getdents(2)
// holds the directory's lock while it writes to the caller's memory. A page of that memory may be
// in a FUSE file system that does not answer. Everything that changes the directory, its
// attributes or its children waits for the lock.
const Unlisted = 0o711

// Mkdir creates the directory name. Its parent must exist. Only root can list it: see Unlisted.
func (f *FS) Mkdir(name string) error {
	return change(f, "mkdir", name, func(b Backend, at string) error { return b.Mkdir(at, Unlisted) })
}

// Rmdir removes the directory name.
func (f *FS) Rmdir(name string) error { return change(f, "rmdir", name, Backend.Rmdir) }

// Dirs returns the names of the directories in name, sorted.
func (f *FS) Dirs(name string) ([]string, error) {
	entries, err := f.entries(name)
	var dirs []string
	for _, e := range entries {
		if e.IsDir() {
			dirs = append(dirs, e.Name())
		}
	}
	slices.Sort(dirs)
	return dirs, err
}

// Names returns the names in the directory name, in the kernel's order.
func (f *FS) Names(name string) ([]string, error) {
	entries, err := f.entries(name)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

func (f *FS) entries(name string) ([]fs.DirEntry, error) {
	file, err := f.OpenFile(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	entries, err := file.ReadDir(-1)
	if err != nil {
		return nil, fmt.Errorf("read directory %s: %w", f.Path(name), err)
	}
	return entries, nil
}

// absences are the errors which mean that a name does not exist, or cannot exist.
var absences = []error{fs.ErrNotExist, syscall.ENOTDIR, syscall.ENODEV, syscall.EXDEV, syscall.ELOOP,
	syscall.ENAMETOOLONG}

// Exists reports whether name exists. It also returns true if name cannot be opened for another
// reason, such as a lack of descriptors. Callers act on an absence, so it must be certain.
func (f *FS) Exists(name string) bool {
	file, err := f.OpenFile(name, os.O_RDONLY)
	if err != nil {
		return !slices.ContainsFunc(absences, func(absence error) bool { return errors.Is(err, absence) })
	}
	file.Close()
	return true
}
