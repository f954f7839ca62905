package kernfstest

import (
	"errors"
	"os"
	"sync"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/must"
)

// HoldDirectory holds the lock of a directory as any user who can list it can: it lists the
// directory into memory that does not arrive. Users have such memory from a FUSE file, root from
// userfaultfd(2). release ends that, and is also called at the end of the test.
func HoldDirectory(t *testing.T, dir string) (release func()) {
	t.Helper()
	fault, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|unix.O_NONBLOCK, 0, 0)
	if errno == unix.ENOSYS || errno == unix.EPERM { // without CAP_SYS_PTRACE, or by seccomp(2)
		Elsewhere(t, "no userfaultfd that holds the kernel: "+errno.Error())
	}
	if errno != 0 {
		t.Fatal(os.NewSyscallError("userfaultfd", errno))
	}
	page, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	must.NoError(t, err)
	// include/uapi/linux/userfaultfd.h
	api := struct{ api, features, ioctls uint64 }{api: 0xaa}
	register := struct{ start, length, mode, ioctls uint64 }{
		start: uint64(uintptr(unsafe.Pointer(&page[0]))), length: uint64(len(page)), mode: 1}
	ioctl := func(request uintptr, arg unsafe.Pointer) {
		t.Helper()
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, fault, request, uintptr(arg)); errno != 0 {
			t.Fatal(os.NewSyscallError("ioctl of userfaultfd", errno))
		}
	}
	const apiOf, registerOf = 0xc018aa3f, 0xc020aa00
	ioctl(apiOf, unsafe.Pointer(&api))
	ioctl(registerOf, unsafe.Pointer(&register))
	listed, err := os.Open(dir)
	must.NoError(t, err)
	done := make(chan error, 1)
	go func() {
		_, err := unix.Getdents(int(listed.Fd()), page)
		done <- err
	}()
	release = sync.OnceFunc(func() {
		unix.Close(int(fault))
		select {
		case err := <-done:
			if err := errors.Join(err, listed.Close(), unix.Munmap(page)); err != nil {
				t.Error(err)
			}
		case <-time.After(2 * time.Minute):
			t.Error("getdents does not end")
		}
	})
	t.Cleanup(release)
	must.Eventually(t, "getdents asks for the page", func() bool {
		ready := []unix.PollFd{{Fd: int32(fault), Events: unix.POLLIN}}
		n, err := unix.Poll(ready, 0)
		return err == nil && n == 1
	})
	return release
}
