package main

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
)

// tellOwner appends lines to the standard error of a job of pbs_mom, on its mother superior: MoM, which copies the file to where it
// belongs after epilogue, has no way to take them from a hook.
func (b *backend) tellOwner(ctx context.Context, job *hostapi.Job, lines []string) error {
	path := job.StderrFile
	if job.JoinPath == "oe" {
		path = job.StdoutFile
	}
	if len(lines) == 0 || !job.MotherSuperior || path == "" {
		return nil
	}
	owner := job.Owner
	if rec, err := b.store.Get(ctx, job.ID); err == nil && rec != nil {
		owner = rec.Job.Owner
	}
	if owner.UID < 0 || owner.GID < 0 {
		u, err := user.Lookup(owner.User)
		if err != nil {
			return err
		}
		if owner.UID, err = strconv.Atoi(u.Uid); err != nil {
			return err
		}
		if owner.GID, err = strconv.Atoi(u.Gid); err != nil {
			return err
		}
	}
	return appendAs(owner.UID, owner.GID, path, strings.Join(lines, "\n")+"\n")
}

// ownerLimit is how long the owner's file may take. It may be on a server of files that does not answer, and epilogue has more to tell MoM
// than these lines.
const ownerLimit = 5 * time.Second

// appendAs appends text to a file as a user with one group, who may have put the path there: a link, and all that is not a regular file, is
// an error. It makes no file.
func appendAs(uid, gid int, path, text string) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("open %s: not an absolute path", path)
	}
	done := make(chan error, 1)
	go func() {
		// Never unlocked: the thread ends with this goroutine, and nothing else ever runs with what it may do.
		runtime.LockOSThread()
		done <- func() error {
			if err := becomeOwner(uid, gid); err != nil {
				return err
			}
			// O_NONBLOCK: the opening of a fifo waits for a reader.
			fd, err := unix.Open(path, unix.O_WRONLY|unix.O_APPEND|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
			if err != nil {
				return &os.PathError{Op: "open", Path: path, Err: err}
			}
			f := os.NewFile(uintptr(fd), path)
			defer f.Close()
			var st unix.Stat_t
			if err := unix.Fstat(fd, &st); err != nil {
				return &os.PathError{Op: "stat", Path: path, Err: err}
			}
			if st.Mode&unix.S_IFMT != unix.S_IFREG {
				return fmt.Errorf("open %s: not a regular file", path)
			}
			_, err = f.WriteString(text)
			return err
		}()
	}()
	select {
	case err := <-done:
		return err
	case <-time.After(ownerLimit):
		return fmt.Errorf("open %s: no answer in %v", path, ownerLimit)
	}
}

// becomeOwner gives the calling thread, and no other, a user's rights to files (credentials(7); without root's file system uid the kernel
// takes away the capabilities to pass over file modes).
func becomeOwner(uid, gid int) error {
	groups := uint32(gid)
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, 1, uintptr(unsafe.Pointer(&groups)), 0); errno != 0 {
		return fmt.Errorf("setgroups %d: %w", gid, errno)
	}
	for _, set := range []struct {
		name string
		call func(int) (int, error)
		id   int
	}{{"setfsgid", unix.SetfsgidRetGid, gid}, {"setfsuid", unix.SetfsuidRetUid, uid}} {
		if _, err := set.call(set.id); err != nil {
			return fmt.Errorf("%s %d: %w", set.name, set.id, err)
		}
		if now, err := set.call(-1); err != nil || now != set.id { // which is how these two calls tell
			return fmt.Errorf("%s %d: it is %d: %w", set.name, set.id, now, unix.EPERM)
		}
	}
	return nil
}
