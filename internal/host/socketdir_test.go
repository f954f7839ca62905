package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
)

// A hook takes events from root alone: another user does not get to its socket.
func TestUsersDoNotReachTheSocketOfAHook(t *testing.T) {
	n := newNode(t)
	kernfstest.NeedRoot(t)
	if err := os.Chmod(n.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	n.hook("a", "misbehave", "")
	h := n.open()
	must(t, h, hostapi.EventBegin, "1.srv")
	var sockets []string
	err := filepath.WalkDir(filepath.Join(n.dir, "run"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type() == fs.ModeSocket {
			sockets = append(sockets, path)
		}
		return err
	})
	if err != nil || len(sockets) != 1 {
		t.Fatalf("sockets %v, %v", sockets, err)
	}
	refused := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with what it has become
		for _, nr := range []uintptr{unix.SYS_SETRESGID, unix.SYS_SETRESUID} {
			if _, _, errno := unix.RawSyscall(nr, 65534, 65534, 65534); errno != 0 {
				refused <- errno
				return
			}
		}
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			err = unix.Connect(fd, &unix.SockaddrUnix{Name: sockets[0]})
			unix.Close(fd)
		}
		refused <- err
	}()
	if err := <-refused; !errors.Is(err, unix.EACCES) {
		t.Errorf("another user connects: %v, want EACCES", err)
	}
	must(t, h, hostapi.EventEnd, "1.srv")
}
