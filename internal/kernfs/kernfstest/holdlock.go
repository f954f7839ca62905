package kernfstest

import (
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/must"
)

// HoldLock holds the lock of a directory until release, which is also called at the end of the
// test. Any user can do that. getdents(2) holds the lock while it writes to the caller's memory,
// and memory in a FUSE file system need not arrive. Here userfaultfd(2) delays the memory.
func HoldLock(t *testing.T, dir string) (release func()) {
	t.Helper()
	f, err := os.Open(dir)
	must.NoError(t, err)
	page, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	must.NoError(t, err)
	delay, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC, 0, 0)
	if errno != 0 {
		Elsewhere(t, "this kernel has no userfaultfd: %v", errno)
	}
	// struct uffdio_api and uffdio_register of include/uapi/linux/userfaultfd.h, with the features
	// and the mode that exist since Linux 4.3.
	api := [3]uint64{0xaa}
	register := [4]uint64{uint64(uintptr(unsafe.Pointer(&page[0]))), uint64(len(page)), 1}
	for _, call := range []struct{ request, at uintptr }{
		{0xc018aa3f, uintptr(unsafe.Pointer(&api))}, {0xc020aa00, uintptr(unsafe.Pointer(&register))},
	} {
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, delay, call.request, call.at); errno != 0 {
			t.Fatalf("userfaultfd: %v", errno)
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		unix.Getdents(int(f.Fd()), page)
	}()
	var fault [32]byte
	if _, err := unix.Read(int(delay), fault[:]); err != nil { // returns when the memory is wanted
		t.Fatal(err)
	}
	held := true
	release = func() {
		if held {
			held = false
			unix.Close(int(delay))
			<-done
			unix.Munmap(page)
			f.Close()
		}
	}
	t.Cleanup(release)
	return release
}
