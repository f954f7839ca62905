// Package kernfs is the door to the kernel's file systems: /proc, /sys and the cgroup mounts.
//
// An FS is a directory that nothing reached through it can leave (openat2 with RESOLVE_BENEATH,
// Linux 5.6; os.Root before that). Its root is a value, so tests pass a captured tree or the fake
// kernel of kernfstest. Writes never create: a misspelt file name is ENOENT here as it is on a
// kernel. Each value is one write(2), as cgroupfs wants it.
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

// Backend is what carries an FS: the kernel (Open) or the fake one (kernfstest). Names are clean,
// relative and slash separated; "." is the root. Errors wrap the errno.
type Backend interface {
	// OpenFile opens an existing file or directory; flag is one of os.O_RDONLY, os.O_WRONLY,
	// os.O_RDWR.
	OpenFile(name string, flag int) (File, error)
	Mkdir(name string, perm fs.FileMode) error
	// Rmdir removes a directory as rmdir(2) does; on cgroupfs its interface files go with it.
	Rmdir(name string) error
}

// File is an open file of a Backend.
type File interface {
	io.ReadWriteCloser
	ReadDir(n int) ([]fs.DirEntry, error)
	// Fd returns the descriptor, for fstat, flock and event registration. The descriptor stays the
	// file's own. In memory it may be that of a closed file.
	Fd() uintptr
}

// FS is a directory of a kernel file system. The zero value is not usable. An FS is safe for
// concurrent use.
type FS struct {
	backend Backend
	dir     string // below the backend's root; "." for the root itself
	path    string // what to call it in errors and for Path
}

// New returns the root of b; path is its absolute path where it has one.
func New(b Backend, path string) *FS { return &FS{backend: b, dir: ".", path: path} }

// Roots are the doors a program gets: the real ones in main, others in tests.
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

// Sub returns the directory name below f; it need not exist. Sub fails when name leaves f.
func (f *FS) Sub(name string) (*FS, error) {
	dir, err := f.clean(name)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	return &FS{backend: f.backend, dir: dir, path: path.Join(f.path, name)}, nil
}

// Path returns the absolute path of name, for the few system calls that need one. Path opens
// nothing.
func (f *FS) Path(name string) string { return path.Join(f.path, name) }

// clean returns name below the backend's root. A name that may leave f is EXDEV, as openat2 has it.
func (f *FS) clean(name string) (string, error) {
	if path.IsAbs(name) || strings.Contains(name, "..") && slices.Contains(strings.Split(name, "/"), "..") {
		return "", fmt.Errorf("leaves %s: %w", f.path, syscall.EXDEV)
	}
	switch name = path.Clean(name); { // path.Join, which makes a new name in any case
	case f.dir == ".":
		return name, nil
	case name == ".":
		return f.dir, nil
	}
	return f.dir + "/" + name, nil
}

// ask has f's backend do op to name, if it is a B: else it fails with ErrUnsupported. Errors name
// op and the path.
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

// change is ask for what has no answer.
func change[B any](f *FS, op, name string, do func(b B, at string) error) error {
	_, err := ask(f, op, name, func(b B, at string) (struct{}, error) { return struct{}{}, do(b, at) })
	return err
}

// OpenFile opens name without creating it; flag is one of os.O_RDONLY, os.O_WRONLY, os.O_RDWR.
func (f *FS) OpenFile(name string, flag int) (File, error) {
	return ask(f, "open", name, func(b Backend, at string) (File, error) { return b.OpenFile(at, flag) })
}

// ReadFile returns the whole of a small file.
func (f *FS) ReadFile(name string) ([]byte, error) { return f.read(name, false) }

// ReadValue is ReadFile for an attribute of cgroupfs or sysfs. The kernel shows each of these in
// one piece (kernfs.h, seq_show), but for lists of processes. So no read asks for the end.
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

// WriteError is a value that the kernel did not take.
type WriteError struct {
	File  string // absolute path
	Value string
	Err   error // the errno
}

func (e *WriteError) Error() string { return fmt.Sprintf("write %q to %s: %v", e.Value, e.File, e.Err) }
func (e *WriteError) Unwrap() error { return e.Err }

// Write writes value to the existing file name with one write(2). An empty list is written as "\n".
// Write fails with a *WriteError. An empty value is EINVAL, as the kernel takes a write of nothing
// and the file never sees it.
func (f *FS) Write(name, value string) error {
	w := f.Writer(name)
	err := w.Write(value)
	if cerr := w.Close(); err == nil && cerr != nil {
		err = &WriteError{File: f.Path(name), Value: value, Err: cerr}
	}
	return err
}

// Writer is an existing file that values are written to, one after another. A Writer is for one
// goroutine at a time and has to be closed.
type Writer struct {
	fs   *FS
	name string
	file File // nil until the first value
}

// Writer returns the file name, which it opens when the first value is written.
func (f *FS) Writer(name string) *Writer { return &Writer{fs: f, name: name} }

// Write is FS.Write. A file that was removed after the first value is ENODEV.
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

// Mkdir makes the directory name, 0755. Its parent has to exist.
func (f *FS) Mkdir(name string) error {
	return change(f, "mkdir", name, func(b Backend, at string) error { return b.Mkdir(at, 0o755) })
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

// Names returns the names in the directory name, in the order of the kernel.
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

// absences are the errors that say that a name is not there, or that no such name can be.
var absences = []error{fs.ErrNotExist, syscall.ENOTDIR, syscall.ENODEV, syscall.EXDEV, syscall.ELOOP,
	syscall.ENAMETOOLONG}

// Exists reports whether name is there. A name that cannot be opened for another reason is there.
// Its absence has consequences, and a process that is out of descriptors has not seen any.
func (f *FS) Exists(name string) bool {
	file, err := f.OpenFile(name, os.O_RDONLY)
	if err != nil {
		return !slices.ContainsFunc(absences, func(absence error) bool { return errors.Is(err, absence) })
	}
	file.Close()
	return true
}
