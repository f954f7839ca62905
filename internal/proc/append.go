package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// appendLimit is how long the file may take, since it may be on a server that does not answer.
const appendLimit = 5 * time.Second

// AppendAs appends text to a file as a user with one group, who may control the path. It fails for
// links and anything other than a regular file. AppendAs does not create a file, and fails if the
// file takes longer than 5 seconds.
func AppendAs(uid, gid int, path, text string) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("open %s: not an absolute path", path)
	}
	done := make(chan error, 1)
	go func() {
		// Never unlocked: the thread ends with this goroutine, and nothing else ever runs with its
		// credentials.
		runtime.LockOSThread()
		done <- func() error {
			if err := setUser(uid, gid); err != nil {
				return err
			}
			// O_NONBLOCK, because opening a fifo would wait for a reader.
			const flags = unix.O_WRONLY | unix.O_APPEND | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY |
				unix.O_CLOEXEC
			fd, err := unix.Open(path, flags, 0)
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
	case <-time.After(appendLimit):
		return fmt.Errorf("open %s: no answer in %v", path, appendLimit)
	}
}

// setUser gives only the calling thread a user's access to files (credentials(7)). If the file
// system uid is not root's, the kernel removes the capabilities to bypass file modes.
func setUser(uid, gid int) error {
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
		if now, err := set.call(-1); err != nil || now != set.id { // these two calls do not report failure
			return fmt.Errorf("%s %d: it is %d: %w", set.name, set.id, now, unix.EPERM)
		}
	}
	return nil
}
