package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/disk"
)

const (
	// deepest bounds the descriptors that a removal has open. Directories of the job further down
	// are moved up.
	deepest = 64
	// atATime is how many names of a directory are read before they are removed.
	atATime = 1024
)

// leftovers removes the files of a user below a directory. Other users may change that directory
// meanwhile, and the user's own directories if their modes let them.
//
// It follows no links, crosses no mount points and does not ask a file system that is mounted
// there. It enters the user's directories only. A name is removed from a directory that is open, so
// nothing that a user exchanges meanwhile leads elsewhere.
type leftovers struct {
	ctx    context.Context
	uid    uint32
	window window
	all    bool // removes all files, whoever owns them and whenever they were made

	removed int
	top     *os.File // the user's directory that the walk is in
	moved   int      // directories that were moved into it
}

// removeFrom removes the user's files from a directory that everybody may write to. It does not
// exist on every node.
func (l *leftovers) removeFrom(dir string) error {
	d, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer d.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(d.Fd()), &st); err != nil {
		return &fs.PathError{Op: "fstat", Path: dir, Err: err}
	}
	if err := disk.CheckSticky(&st); err != nil {
		return fmt.Errorf("clean_dirs: %s: %w: nothing is removed from it", dir, err)
	}
	return l.empty(d, 0)
}

// empty removes the user's files from d, which is at that depth. It tries every name and returns
// the first error.
func (l *leftovers) empty(d *os.File, depth int) (first error) {
	for {
		names, err := d.Readdirnames(atATime)
		for _, name := range names {
			if l.ctx.Err() != nil {
				return context.Cause(l.ctx)
			}
			err := l.remove(d, name, depth+1)
			if err != nil && !errors.As(err, new(*fs.PathError)) { // of a file below, which it names
				err = &fs.PathError{Op: "remove", Path: filepath.Join(d.Name(), name), Err: err}
			}
			if first == nil {
				first = err
			}
		}
		if errors.Is(err, io.EOF) {
			return first
		}
		if err != nil {
			return errors.Join(first, err)
		}
	}
}

// remove removes name from the directory in if it is the user's and in the window. A directory goes
// if it is empty then.
func (l *leftovers) remove(in *os.File, name string, depth int) error {
	st, err := l.stat(in, name)
	if err != nil || st == nil {
		return err
	}
	left := l.all || l.window.contains(made(st), time.Unix(st.Ctime.Sec, int64(st.Ctime.Nsec)))
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		if !left {
			return nil
		}
		return l.unlink(in, name, 0)
	}
	if depth > deepest {
		if !left { // so deep in a directory that was there before, it stays
			return nil
		}
		return l.moveUp(in, name)
	}
	if err := l.enter(in, name, depth); err != nil || !left {
		return err
	}
	err = l.unlink(in, name, unix.AT_REMOVEDIR)
	if err == unix.ENOTEMPTY || err == unix.EEXIST || err == unix.EBUSY { // others' files, or a mount
		return nil
	}
	return err
}

// stat returns nil for a file that is another user's, is mounted there, or is gone.
func (l *leftovers) stat(in *os.File, name string) (*unix.Statx_t, error) {
	fd, err := openBelow(in, name, unix.O_PATH)
	if err != nil || fd < 0 {
		return nil, err
	}
	defer unix.Close(fd)
	var st unix.Statx_t
	const flags = unix.AT_EMPTY_PATH | unix.AT_SYMLINK_NOFOLLOW
	err = unix.Statx(fd, "", flags, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st)
	if err != nil || !l.all && st.Uid != l.uid {
		return nil, err
	}
	return &st, nil
}

// made returns when a file was made, or the zero time if its file system does not know, such as
// tmpfs in Linux 5.10.
func made(st *unix.Statx_t) time.Time {
	if st.Mask&unix.STATX_BTIME == 0 {
		return time.Time{}
	}
	return time.Unix(st.Btime.Sec, int64(st.Btime.Nsec))
}

// enter removes the user's files from the directory name, if it still is the user's.
func (l *leftovers) enter(in *os.File, name string, depth int) error {
	fd, err := openBelow(in, name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil || fd < 0 {
		return err
	}
	d := os.NewFile(uintptr(fd), filepath.Join(in.Name(), name))
	defer d.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || !l.all && st.Uid != l.uid {
		return err
	}
	if depth > 1 {
		return l.empty(d, depth)
	}
	l.top = d
	for {
		before := l.moved
		if err := l.empty(d, depth); err != nil || l.moved == before {
			return err
		}
		if _, err := d.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
}

// moveUp moves a directory that is too deep into top, where the next round finds it.
func (l *leftovers) moveUp(in *os.File, name string) error {
	l.moved++
	return gone(unix.Renameat(int(in.Fd()), name, int(l.top.Fd()), rand.Text()))
}

func (l *leftovers) unlink(in *os.File, name string, flags int) error {
	err := unix.Unlinkat(int(in.Fd()), name, flags)
	if err == nil {
		l.removed++
	}
	return gone(err)
}

// gone returns nil for the error of a name that somebody else has removed.
func gone(err error) error {
	if err == unix.ENOENT {
		return nil
	}
	return err
}

// openBelow opens a name in a directory. It returns -1 if there is none, if it is a link, or if
// something is mounted there.
func openBelow(in *os.File, name string, flags uint64) (int, error) {
	how := unix.OpenHow{Flags: flags | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_SYMLINKS}
	for {
		fd, err := unix.Openat2(int(in.Fd()), name, &how)
		switch err {
		case nil:
			return fd, nil
		case unix.EINTR, unix.EAGAIN:
			continue
		case unix.ENOENT, unix.EXDEV, unix.ELOOP, unix.ENOTDIR:
			return -1, nil
		case unix.ENOSYS:
			return -1, fmt.Errorf("openat2: %w: clean_dirs needs Linux 5.6", err)
		}
		return -1, err
	}
}
