package kernfstest

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/must"
)

// HangingFUSE mounts a file system of a user that answers only its first request. dir is where it
// is mounted, and asked returns how many requests it got. Processes that wait for it are released
// by abort, which is also called at the end of the test.
func HangingFUSE(t *testing.T, uid int) (dir string, asked func() int, abort func()) {
	t.Helper()
	device, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		Elsewhere(t, "this kernel has no FUSE: "+err.Error())
	}
	control := "/sys/fs/fuse/connections"
	var st unix.Statfs_t
	must.NoError(t, unix.Statfs(control, &st))
	const fuseCtl = 0x65735543 // of include/uapi/linux/magic.h and fs/fuse/control.c
	if int64(st.Type) != fuseCtl {
		must.NoError(t, unix.Mount("none", control, "fusectl", 0, ""))
		t.Cleanup(func() {
			if err := unix.Unmount(control, unix.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
	}
	dir, err = os.MkdirTemp("", "hhtest_fuse")
	must.NoError(t, err)
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=%d,group_id=%[2]d,allow_other", device, uid)
	must.NoError(t, unix.Mount("test", dir, "fuse", 0, options))
	abort = func() {
		aborts, _ := filepath.Glob(control + "/*/abort")
		for _, file := range aborts {
			if info, err := os.Stat(file); err == nil && int(info.Sys().(*syscall.Stat_t).Uid) == uid {
				os.WriteFile(file, []byte("1"), 0)
			}
		}
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
		abort()
		unix.Close(device)
		os.Remove(dir)
	})
	requests := make(chan int, 1)
	requests <- 0
	go func() {
		buffer := make([]byte, 1<<20)
		for {
			n, err := unix.Read(device, buffer)
			if err == unix.EINTR {
				continue
			}
			if err != nil || n < 16 { // aborted or unmounted
				return
			}
			// FUSE_INIT of include/uapi/linux/fuse.h. The answer is a header and struct
			// fuse_init_out.
			const initialize = 26
			if binary.NativeEndian.Uint32(buffer[4:]) == initialize {
				answer := make([]byte, 16+64)
				binary.NativeEndian.PutUint32(answer, uint32(len(answer)))
				copy(answer[8:16], buffer[8:16])
				binary.NativeEndian.PutUint32(answer[16:], 7)
				binary.NativeEndian.PutUint32(answer[20:], 31)
				binary.NativeEndian.PutUint32(answer[36:], 4096)
				unix.Write(device, answer)
				continue
			}
			requests <- <-requests + 1
		}
	}()
	return dir, func() int { n := <-requests; requests <- n; return n }, abort
}
