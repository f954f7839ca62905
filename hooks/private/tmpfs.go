package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/disk"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/pbs"
)

// tmpfsDirs are directories with a tmpfs, which one user can enter. They are the TMPDIRs of jobs,
// named by the job's id, or the XDG_RUNTIME_DIRs of users, named by the uid.
//
// TMPDIRs are not mounted on pbs_mom's own directories (openpbs src/resmom/start_exec.c, mktmpdir).
// Anybody may list the directory of these, and whoever lists it can hold its lock (see
// kernfs.Unlisted), so that no job would begin. pbs_mom also renames its directory at the end, and
// a mount point has no other name.
type tmpfsDirs struct {
	base  string   // a directory of root's that nobody else can list
	size  pbs.Size // of each; 0 means half of the node's memory
	files int      // the most files in each; 0 means one for each two pages of memory
}

// freeTime bounds how long an end waits until the kernel has freed the memory, several gigabytes a
// second.
const freeTime = 10 * time.Second

func (d tmpfsDirs) path(name string) string { return filepath.Join(d.base, name) }

// create mounts a directory that only its owner can use. What an earlier run of the job left is
// removed, so create is idempotent before the job's first program. If create fails, it leaves
// nothing.
func (d tmpfsDirs) create(ctx context.Context, name string, owner hostapi.Owner) error {
	if owner.UID < 0 || owner.GID < 0 {
		return errors.New("the event does not name its owner's ids")
	}
	if err := d.remove(ctx, name); err != nil {
		return err
	}
	if err := disk.MakeDir(d.base, kernfs.Unlisted); err != nil {
		return err
	}
	path := d.path(name)
	if err := os.Mkdir(path, 0o700); err != nil { // root's: useless without the mount
		return err
	}
	options := fmt.Sprintf("mode=0700,uid=%d,gid=%d", owner.UID, owner.GID)
	if d.size > 0 {
		options += ",size=" + strconv.FormatInt(int64(d.size), 10)
	}
	if d.files > 0 {
		options += ",nr_inodes=" + strconv.Itoa(d.files)
	}
	if err := unix.Mount("tmpfs", path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return errors.Join(&fs.PathError{Op: "mount tmpfs on", Path: path, Err: err}, os.Remove(path))
	}
	return nil
}

// check reports whether the directory exists. It fails if nothing is mounted there any more, or if
// the process pid does not see it, as in another mount namespace. A pid of 0 is not checked.
func (d tmpfsDirs) check(name string, procfs *kernfs.FS, pid int) (there bool, err error) {
	path := d.path(name)
	own, err := device(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	base, err := device(d.base)
	if err != nil {
		return false, err
	}
	if own == base {
		return false, fmt.Errorf("%s: it is not mounted any more", path)
	}
	if pid == 0 {
		return true, nil
	}
	seen, err := device(procfs.Path(strconv.Itoa(pid)+"/root") + path)
	if err != nil || seen != own {
		return false, fmt.Errorf("%s: process %d is in another mount namespace and does not see it: start pbs_mom and "+
			"hookhost without PrivateTmp= and similar settings", path, pid)
	}
	return true, nil
}

// device returns the device of a file. It does not ask a file system that a user may have mounted
// there, which need not answer.
func device(path string) (uint64, error) {
	var st unix.Statx_t
	const flags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_STATX_DONT_SYNC | unix.AT_NO_AUTOMOUNT
	if err := unix.Statx(unix.AT_FDCWD, path, flags, 0, &st); err != nil {
		return 0, &fs.PathError{Op: "statx", Path: path, Err: err}
	}
	return unix.Mkdev(st.Dev_major, st.Dev_minor), nil
}

// remove detaches the tmpfs, with all that its owner has mounted on or below it, and removes the
// directory. It waits for the memory to be freed, up to freeTime. Idempotent.
func (d tmpfsDirs) remove(ctx context.Context, name string) error {
	held, err := d.detach(name)
	free(ctx, held)
	return err
}

// detach is remove without the wait. The last of the descriptors that it returns frees the memory,
// even if detach fails.
func (d tmpfsDirs) detach(name string) (held []int, err error) {
	if err := hostapi.CheckJobID(name); err != nil {
		return nil, err
	}
	path := d.path(name)
	for {
		fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err == nil {
			held = append(held, fd)
		}
		err = unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		switch {
		case err == nil: // there may be another one below it
		case err == unix.ENOENT:
			return held, nil
		case err == unix.EINVAL: // it is not mounted
			if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
				return held, err
			}
			return held, nil
		default:
			return held, &fs.PathError{Op: "unmount", Path: path, Err: err}
		}
	}
}

// free closes what detach returned and waits up to freeTime.
func free(ctx context.Context, held []int) {
	freed := make(chan struct{})
	go func() {
		for _, fd := range held {
			unix.Close(fd)
		}
		close(freed)
	}()
	limit := time.NewTimer(freeTime)
	defer limit.Stop()
	select {
	case <-freed:
	case <-limit.C:
	case <-ctx.Done():
	}
}

// jobsIn returns the jobs after which files of a directory are named. A missing one has none.
func jobsIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var ids []string
	for _, e := range entries {
		if hostapi.CheckJobID(e.Name()) == nil {
			ids = append(ids, e.Name())
		}
	}
	return ids, err
}
