package kernfstest

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/must"
)

// HangingFUSE mounts a file system of a user that answers nothing but its first request, and what
// opens the file "open". dir is where it is mounted, and asked returns how many requests it left
// unanswered. Processes that wait for it are released by abort, which unmounts it. abort is
// also called at the end of the test.
func HangingFUSE(t *testing.T, uid int) (dir string, asked func() int, abort func()) {
	t.Helper()
	device, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		Elsewhere(t, "this kernel has no FUSE: "+err.Error())
	}
	dir, err = os.MkdirTemp("", "hhtest_fuse")
	must.NoError(t, err)
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=%d,group_id=%[2]d,allow_other", device, uid)
	must.NoError(t, unix.Mount("test", dir, "fuse", 0, options))
	abort = sync.OnceFunc(func() { // MNT_FORCE ends its connection (fs/fuse/inode.c, fuse_umount_begin)
		if err := unix.Unmount(dir, unix.MNT_FORCE|unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
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
			// Operations of include/uapi/linux/fuse.h. An answer is a header and a structure.
			const lookup, open, flush, initialize = 1, 14, 25, 26
			answer := make([]byte, 16, 16+128)
			copy(answer[8:16], buffer[8:16])
			word := binary.NativeEndian.PutUint32
			switch operation := binary.NativeEndian.Uint32(buffer[4:]); {
			case operation == initialize: // struct fuse_init_out
				answer = answer[:16+64]
				word(answer[16:], 7)
				word(answer[20:], 31)
				word(answer[36:], 4096)
			case operation == lookup && string(buffer[40:n]) == "open\x00": // struct fuse_entry_out
				answer = answer[:16+128]
				binary.NativeEndian.PutUint64(answer[16:], 2) // its number, and that of its inode
				word(answer[32:], 3600)                       // for how many seconds this is valid
				word(answer[40:], 3600)
				binary.NativeEndian.PutUint64(answer[56:], 2)
				binary.NativeEndian.PutUint64(answer[64:], 4096)
				word(answer[116:], unix.S_IFREG|0o444)
				word(answer[120:], 1)
			case operation == open, operation == flush:
				enosys := -int32(unix.ENOSYS)
				word(answer[4:], uint32(enosys)) // nothing to be done
			default:
				requests <- <-requests + 1
				continue
			}
			word(answer, uint32(len(answer)))
			unix.Write(device, answer)
		}
	}()
	return dir, func() int { n := <-requests; requests <- n; return n }, abort
}
