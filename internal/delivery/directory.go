package delivery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/disk"
	"github.com/hookhost/hookhost/internal/plugin"
	"github.com/hookhost/hookhost/internal/proc"
	"github.com/hookhost/hookhost/internal/report"
)

// The files of a report are in the directory's folder of the job's owner: JOB.json and JOB.html. A
// later run of the job replaces them. They are written with the owner's access to files alone, so a
// folder may be on a file system where root is nobody. Nothing that the owner does there concerns
// anybody else.

// CheckDirectory returns an error if dir is not a directory in which owners can get their reports.
func CheckDirectory(dir string) error {
	fd, err := openDirectory(dir)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// writeFiles writes the files of a report. Each is replaced as a whole.
func writeFiles(_ context.Context, dir string, r *report.Report) error {
	owner := r.PBSJob.Owner
	if err := plugin.ResolveOwner(&owner); err != nil {
		return err
	}
	top, err := openDirectory(dir)
	if err != nil {
		return err
	}
	defer unix.Close(top)
	files := map[string][]byte{}
	for _, format := range []string{"json", "html"} {
		write, err := report.FormatNamed(format)
		if err != nil {
			return err
		}
		var b bytes.Buffer
		if err := write(&b, func(yield func(*report.Report) bool) { yield(r) }); err != nil {
			return err
		}
		files[r.Job+"."+format] = b.Bytes()
	}
	name := folderOf(owner.User, owner.UID)
	if err := makeFolder(top, name, owner.UID, owner.GID); err != nil {
		return fmt.Errorf("make %s/%s: %w", dir, name, err)
	}
	return proc.As(owner.UID, owner.GID, func() error {
		folder, err := openFolder(top, name, owner.UID)
		if err != nil {
			return fmt.Errorf("open %s/%s: %w", dir, name, err)
		}
		defer unix.Close(folder)
		for file, content := range files {
			if err := replace(folder, file, content); err != nil {
				return fmt.Errorf("write %s/%s/%s: %w", dir, name, file, err)
			}
		}
		return nil
	})
}

// folderOf returns the name of a user's folder: the user's name, or the uid if that is no name of a
// file.
func folderOf(user string, uid int) string {
	if user == "" || strings.HasPrefix(user, ".") || strings.Contains(user, "/") {
		return strconv.Itoa(uid)
	}
	return user
}

// openDirectory opens the site's directory. Users must not be able to replace others' folders in
// it: root alone may write to it, or it is like /tmp.
func openDirectory(dir string) (fd int, err error) {
	fd, err = unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && disk.CheckSticky(&st) != nil {
		if err = disk.CheckOwner(&st); err != nil {
			err = fmt.Errorf("%w: it has to be root's with mode 0755 or 1777", err)
		}
	}
	if err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("open %s: %w", dir, err)
	}
	return fd, nil
}

// makeFolder makes a user's folder unless there is one. In a directory in which all users may
// write, the user makes it, otherwise root.
func makeFolder(top int, name string, uid, gid int) error {
	var st unix.Stat_t
	switch err := unix.Fstatat(top, name, &st, unix.AT_SYMLINK_NOFOLLOW); {
	case err == nil:
		return nil // openFolder checks it
	case !errors.Is(err, unix.ENOENT):
		return err
	}
	if err := unix.Fstat(top, &st); err != nil {
		return err
	}
	if disk.CheckSticky(&st) == nil {
		return proc.As(uid, gid, func() error { return unix.Mkdirat(top, name, 0o700) })
	}
	// Only root can write here, so the name stays what it is.
	if err := unix.Mkdirat(top, name, 0o700); err != nil {
		return err
	}
	return unix.Fchownat(top, name, uid, gid, unix.AT_SYMLINK_NOFOLLOW)
}

// openFolder opens a user's folder, which must be the user's and no link.
func openFolder(top int, name string, uid int) (fd int, err error) {
	fd, err = unix.Openat(top, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && int(st.Uid) != uid {
		err = fmt.Errorf("it belongs to uid %d, not to the job's owner: remove it", st.Uid)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// replace replaces a file in a folder, or the link of that name.
func replace(folder int, name string, content []byte) error {
	fresh := "." + name + ".tmp"
	if err := unix.Unlinkat(folder, fresh, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(folder, fresh, flags, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), fresh)
	_, err = f.Write(content)
	if err = errors.Join(err, f.Close()); err == nil {
		err = unix.Renameat(folder, fresh, folder, name)
	}
	if err != nil {
		return errors.Join(err, unix.Unlinkat(folder, fresh, 0))
	}
	return nil
}
