package proc

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// As calls f on a thread that has only a user's access to files: the user's, with one group. f must
// not start goroutines or programs, which would have root's.
func As(uid, gid int, f func() error) error {
	done := make(chan error, 1)
	go func() {
		// Never unlocked: the thread ends with this goroutine, and nothing else ever runs with its
		// credentials.
		runtime.LockOSThread()
		err := setUser(uid, gid)
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
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
