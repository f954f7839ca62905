package kernfstest

import (
	"context"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// file is an open interface file.
type file struct {
	k *Kernel
	target
	name string
	flag int
	text string // created by the first Read, as in seq_file
	read int    // how many bytes of it were read
	made bool
	fd   descriptor
}

// content returns what the file shows now, or ENODEV if the cgroup was removed (kernfs_get_active).
// The caller holds k.mu.
func (f *file) content() (string, error) {
	if f.group.removed {
		return "", unix.ENODEV
	}
	if err := f.k.fail("read", f.name); err != nil {
		return "", err
	}
	if f.knob.show == nil {
		return "", unix.EINVAL
	}
	return f.knob.show(f.group), nil
}

func (f *file) Read(b []byte) (int, error) {
	if f.flag&unix.O_WRONLY != 0 {
		return 0, unix.EBADF
	}
	f.k.mu.Lock()
	defer f.k.mu.Unlock()
	if !f.made {
		text, err := f.content()
		if err != nil {
			return 0, err
		}
		f.text, f.made = text, true
	}
	n := copy(b, f.text[f.read:])
	f.read += n
	if n == 0 && len(b) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (f *file) Write(b []byte) (int, error) {
	if f.flag&(unix.O_WRONLY|unix.O_RDWR) == 0 {
		return 0, unix.EBADF
	}
	if len(b) == 0 {
		return 0, nil // the kernel does not pass an empty write to the file; an empty list is written as "\n"
	}
	f.k.mu.Lock()
	defer f.k.mu.Unlock()
	err := f.store(string(b))
	f.k.record(Op{Op: "write", Path: f.name, Value: string(b), Err: err})
	if err != nil {
		return 0, err
	}
	f.k.wake()
	return len(b), nil
}

func (f *file) store(value string) error {
	switch {
	case f.group.removed:
		return unix.ENODEV
	case len(value) > pageSize: // kernfs_fop_write_iter
		return unix.E2BIG
	}
	if err := f.k.fail("write", f.name); err != nil {
		return err
	}
	if f.knob.store == nil {
		return unix.EINVAL
	}
	return f.knob.store(f.group, strings.TrimSpace(value))
}

func (f *file) ReadDir(int) ([]fs.DirEntry, error) { return nil, unix.ENOTDIR }

func (f *file) Close() error {
	f.fd.close()
	return nil
}

// Watch opens a file to wait for its changes.
func (c *cgroupfs) Watch(name string) (kernfs.Watch, error) {
	f, err := c.OpenFile(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	if _, ok := f.(*file); !ok {
		return nil, unix.EPERM // epoll_ctl: a directory has no poll operation
	}
	w := &watch{file: f.(*file)}
	c.k.mu.Lock()
	defer c.k.mu.Unlock()
	w.notify()
	c.k.watches[w] = true
	return w, nil
}

// watch is a watched file. As on a kernel, it only wakes if the file has a kernfs_notify.
type watch struct {
	*file
	text         string // as of the last change
	events, seen int    // changes, as kernfs_notify counts them: a change that is undone counts twice
}

// notify counts a change; the caller holds k.mu.
func (w *watch) notify() {
	if w.group.removed || !w.knob.notifies {
		return
	}
	if text := w.knob.show(w.group); text != w.text {
		w.text = text
		w.events++
	}
}

func (w *watch) Close() error {
	w.k.mu.Lock()
	delete(w.k.watches, w)
	w.k.mu.Unlock()
	return w.file.Close()
}

func (w *watch) Read() ([]byte, error) {
	w.k.mu.Lock()
	defer w.k.mu.Unlock()
	text, err := w.content()
	if err != nil {
		return nil, err
	}
	w.seen = w.events
	return []byte(text), nil
}

func (w *watch) Wait(ctx context.Context) error {
	for first := true; ; first = false {
		w.k.mu.Lock()
		changed := w.k.changed
		fresh := first // the removal itself does not wake a Wait
		if !w.group.removed {
			fresh = w.events != w.seen
		}
		w.k.mu.Unlock()
		if err := ctx.Err(); err != nil {
			return err
		}
		if fresh {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// dir is an open directory: of a cgroup, or another one if group is nil.
type dir struct {
	group   *cgroup
	entries []fs.DirEntry
	fd      descriptor
}

func (*dir) Read([]byte) (int, error)  { return 0, unix.EISDIR }
func (*dir) Write([]byte) (int, error) { return 0, unix.EBADF }

func (d *dir) Close() error {
	d.fd.close()
	return nil
}

// ReadDir returns the next n entries, or all remaining ones if n is not positive.
func (d *dir) ReadDir(n int) ([]fs.DirEntry, error) {
	if n > 0 && len(d.entries) == 0 {
		return nil, io.EOF
	}
	if n <= 0 || n > len(d.entries) {
		n = len(d.entries)
	}
	out := d.entries[:n]
	d.entries = d.entries[n:]
	return out, nil
}

func (k *Kernel) entries(g *cgroup) []fs.DirEntry {
	var list []fs.DirEntry
	if g == nil {
		for _, h := range k.hierarchies {
			list = append(list, entry{h.dir, fs.ModeDir})
		}
		for name := range k.links {
			list = append(list, entry{name, fs.ModeSymlink})
		}
	} else {
		for kn := range g.knobs {
			list = append(list, entry{kn.name, 0})
		}
		for name := range maps.Keys(g.children) {
			list = append(list, entry{name, fs.ModeDir})
		}
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list
}

// entry is a directory entry, and also its FileInfo.
type entry struct {
	name string
	mode fs.FileMode
}

func (e entry) Name() string               { return e.name }
func (e entry) IsDir() bool                { return e.mode.IsDir() }
func (e entry) Type() fs.FileMode          { return e.mode.Type() }
func (e entry) Info() (fs.FileInfo, error) { return e, nil }
func (e entry) Size() int64                { return 0 }
func (e entry) Mode() fs.FileMode          { return e.mode | 0o644 }
func (e entry) ModTime() time.Time         { return time.Time{} }
func (e entry) Sys() any                   { return nil }
