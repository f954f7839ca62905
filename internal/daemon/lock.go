// Package daemon makes one process the owner of a node's jobs.
//
// The owner is `hookhost serve`. Only the owner begins, ends or records jobs, and holds the lock
// of its cgroup prefix for its life. A command that finds no owner starts one that goes when it is
// idle.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/disk"
)

// locks is the directory of the locks of all prefixes, wherever the socket is: two daemons with two
// sockets may name one prefix.
const locks = "/run/hookhost"

// errRunning says that another process is the owner.
var errRunning = errors.New("already running")

// idleMark stands behind the pid of an owner that goes when it is idle.
const idleMark = "until-idle"

// prefixLock is the ownership of a cgroup prefix. The kernel drops the lock with its holder, so a
// holder that was killed leaves none. The file stays: two processes would lock two files otherwise.
type prefixLock struct{ file *os.File }

// acquire takes the lock of a prefix in dir, and makes dir, mode 0755, where it is missing. The
// file has the pid of its last holder. acquire fails with errRunning and the holder's pid while
// another process holds the lock.
//
// A holder that goes when it is idle yields to one that stays. The holder gets SIGTERM, and acquire
// waits for the lock until ctx ends. Jobs live on meanwhile.
func acquire(ctx context.Context, dir, prefix string, untilIdle bool) (*prefixLock, error) {
	if err := disk.MakeDir(dir); err != nil {
		return nil, fmt.Errorf("lock prefix %s: %w", prefix, err)
	}
	path := lockPath(dir, prefix)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock prefix %s: %w", prefix, err)
	}
	if err := lock(ctx, f, untilIdle); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	text := strconv.Itoa(os.Getpid())
	if untilIdle {
		text += " " + idleMark
	}
	_, err = f.WriteAt([]byte(text+"\n"), 0)
	if err = errors.Join(err, f.Truncate(int64(len(text)+1))); err != nil {
		f.Close()
		return nil, err
	}
	return &prefixLock{file: f}, nil
}

// Release lets another process be the owner.
func (l *prefixLock) Release() error { return l.file.Close() }

// owned reports whether the last owner of a prefix lives. The lock is not tried for that: an owner
// that starts at this moment would find it taken.
func owned(dir, prefix string) bool {
	path := lockPath(dir, prefix)
	lock, err := os.Lstat(path)
	if err != nil {
		return false
	}
	pid, _ := holder(path)
	has, err := hasOpen(pid, lock)
	return err == nil && has
}

func lockPath(dir, prefix string) string { return filepath.Join(dir, prefix+".lock") }

// dying is how long the lock of a holder that was killed may last. A child of such a holder has its
// files until the child has become a hook.
const dying = 2 * time.Second

func lock(ctx context.Context, f *os.File, untilIdle bool) error {
	asked, began := 0, time.Now()
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
		pid, yields := holder(f.Name())
		stays := !yields || untilIdle
		if stays && (holds(pid, f) || time.Since(began) > dying) {
			return fmt.Errorf("%w, pid %d", errRunning, pid)
		}
		if !stays && pid != asked {
			sent, err := stop(pid, f)
			if err != nil {
				return fmt.Errorf("%w, pid %d: %w", errRunning, pid, err)
			}
			if sent {
				asked = pid
			}
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("%w, pid %d: it does not stop: %w", errRunning, pid, context.Cause(ctx))
		}
	}
}

// holds reports whether a process that lives has the lock's file open.
func holds(pid int, lock *os.File) bool {
	info, err := lock.Stat()
	if err != nil {
		return false
	}
	has, err := hasOpen(pid, info)
	return err == nil && has
}

// stop sends SIGTERM to a process that has the lock's file open. An owner locks the file before it
// writes its pid. So the pid may be of an owner that has died, and by now of any process.
func stop(pid int, lock *os.File) (sent bool, err error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false, ignore(err, unix.ESRCH)
	}
	defer unix.Close(fd)
	info, err := lock.Stat()
	if err != nil {
		return false, err
	}
	has, err := hasOpen(pid, info)
	if err != nil || !has {
		return false, ignore(err, fs.ErrNotExist)
	}
	err = unix.PidfdSendSignal(fd, unix.SIGTERM, nil, 0)
	return err == nil, ignore(err, unix.ESRCH)
}

// ignore returns nil for an error that is none here.
func ignore(err, none error) error {
	if errors.Is(err, none) {
		return nil
	}
	return err
}

// hasOpen reports whether a process has a file open.
func hasOpen(pid int, file fs.FileInfo) (bool, error) {
	dir := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	open, err := os.ReadDir(dir)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(open, func(e os.DirEntry) bool {
		other, err := os.Stat(filepath.Join(dir, e.Name()))
		return err == nil && os.SameFile(file, other)
	}), nil
}

// holder returns the pid of the last owner by a lock's file, dead or alive, and whether that owner
// goes when it is idle. The pid is 0 where there has been none.
func holder(path string) (pid int, untilIdle bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	number, mark, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	pid, err = strconv.Atoi(number)
	if err != nil || pid <= 1 {
		return 0, false
	}
	return pid, mark == idleMark
}
