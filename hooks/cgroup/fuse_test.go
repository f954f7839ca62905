package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/nodestate"
)

// hangingFUSE mounts a file system of the user's that answers no request but the first. It returns
// where, and how many requests there were.
func hangingFUSE(t *testing.T, uid int) (dir string, asked func() int) {
	t.Helper()
	device, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		kernfstest.Elsewhere(t, "this kernel has no FUSE: "+err.Error())
	}
	control := "/sys/fs/fuse/connections"
	var st unix.Statfs_t
	if err := unix.Statfs(control, &st); err != nil {
		t.Fatal(err)
	}
	const fuseCtl = 0x65735543 // of include/uapi/linux/magic.h and fs/fuse/control.c
	if int64(st.Type) != fuseCtl {
		if err := unix.Mount("none", control, "fusectl", 0, ""); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(control, unix.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
	}
	dir, err = os.MkdirTemp("", "hhtest_fuse")
	if err != nil {
		t.Fatal(err)
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=%d,group_id=%[2]d", device, uid)
	if err := unix.Mount("test", dir, "fuse", 0, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
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
			if err != nil || n < 16 { // aborted, or not mounted any more
				return
			}
			// FUSE_INIT of include/uapi/linux/fuse.h; the answer is a header and struct
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
	return dir, func() int { n := <-requests; requests <- n; return n }
}

// A process that waits for a file system of its user's own keeps neither its job nor the node.
func TestHangingFUSEOfTheOwnerIsAborted(t *testing.T) {
	n := realNode(t, func(f *config.File) { f.Cgroup.KillTimeout = config.Duration(4 * time.Second) })
	n.kept = nodestate.Dir(t.TempDir())
	dir, asked := hangingFUSE(t, tracedUID)
	n.do(hostapi.EventBegin, "1.srv", ownedBy(tracedUID))
	child := n.startOwned("1.srv", tracedUID, "stat", filepath.Join(dir, "file"))
	for end := time.Now().Add(time.Minute); asked() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("nobody asks it")
		}
	}
	text := fmt.Sprintf("of uid %d, which pid %d waited for at its end", tracedUID, child.PID)
	if notes := n.endsInTime("1.srv"); !strings.Contains(notes, text) {
		t.Errorf("notes %q", notes)
	}
	n.want()
}
