package mom

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const (
	// deepest bounds the descriptors that a removal has open. Directories further down are moved to
	// the top.
	deepest = 64
	// atATime is how many names of a directory are read before they are removed.
	atATime = 1024
)

// removeTree removes the file or directory named name in the directory dir, with everything below
// it, until ctx ends. Users may change the tree meanwhile. It does not follow links, and tries
// every entry of a directory even if others fail. A missing name is not an error.
func removeTree(ctx context.Context, dir, name string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	t := &tree{ctx: ctx}
	return t.remove(d, name, 0)
}

// tree is a tree that is being removed.
type tree struct {
	ctx context.Context
	top *os.File // its first directory
}

// remove removes name from the directory in, at that depth of the tree.
func (t *tree) remove(in *os.File, name string, depth int) error {
	if t.ctx.Err() != nil {
		return fmt.Errorf("remove %s: %w", filepath.Join(in.Name(), name), context.Cause(t.ctx))
	}
	fail := func(err error) error {
		if err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		return &os.PathError{Op: "remove", Path: filepath.Join(in.Name(), name), Err: err}
	}
	err := unix.Unlinkat(int(in.Fd()), name, 0)
	if err == nil || err != unix.EISDIR && err != unix.EPERM { // POSIX has EPERM for a directory
		return fail(err)
	}
	if depth > deepest {
		return fail(unix.Renameat(int(in.Fd()), name, int(t.top.Fd()), rand.Text()))
	}
	fd, openErr := unix.Openat(int(in.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(openErr, unix.ENOTDIR) || errors.Is(openErr, unix.ELOOP) {
		return fail(err)
	}
	if openErr != nil {
		return fail(openErr)
	}
	d := os.NewFile(uintptr(fd), filepath.Join(in.Name(), name))
	defer d.Close()
	if t.top == nil {
		t.top = d
	}
	for {
		if err := t.empty(d, depth); err != nil {
			return err
		}
		err := unix.Unlinkat(int(in.Fd()), name, unix.AT_REMOVEDIR)
		if err != unix.ENOTEMPTY && err != unix.EEXIST { // otherwise somebody is filling it
			return fail(err)
		}
		if t.ctx.Err() != nil { // a FUSE file system may refuse forever
			return fail(context.Cause(t.ctx))
		}
	}
}

// empty removes the contents of d. It fails only if none of them can be removed.
func (t *tree) empty(d *os.File, depth int) error {
	for {
		if _, err := d.Seek(0, io.SeekStart); err != nil {
			return err
		}
		names, err := d.Readdirnames(atATime)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var errs []error
		for _, name := range names {
			if err := t.remove(d, name, depth+1); err != nil {
				errs = append(errs, err)
			}
			if t.ctx.Err() != nil {
				return errors.Join(errs...)
			}
		}
		if len(errs) == len(names) {
			return errs[0]
		}
	}
}
