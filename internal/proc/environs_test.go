package proc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/must"
)

// A process that hangs in the kernel is a pipe here, which nobody writes to: to open it waits.
func TestEnvironsWaitForNobody(t *testing.T) {
	dir := t.TempDir()
	environ := func(pid int) string { return filepath.Join(dir, fmt.Sprint(pid), "environ") }
	for pid := 1; pid <= mostHung+1; pid++ {
		must.NoError(t, os.Mkdir(filepath.Dir(environ(pid)), 0o755))
		must.NoError(t, unix.Mkfifo(environ(pid), 0o600))
	}
	must.NoError(t, os.Mkdir(filepath.Join(dir, "100"), 0o755))
	must.NoError(t, os.WriteFile(environ(100), []byte("A=1\x00"), 0o600))
	procfs, err := kernfs.Open(dir)
	must.NoError(t, err)
	e := NewEnvirons(procfs)
	if b, err := e.Read(1000, 100); string(b) != "A=1\x00" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := e.Read(1000, 101); !errors.Is(err, ErrGone) {
		t.Errorf("of a process that is gone: %v", err)
	}
	e.wait = time.Millisecond
	for pid := 1; pid <= mostHung; pid++ {
		if _, err := e.Read(1000, pid); !errors.Is(err, ErrHangs) {
			t.Errorf("process %d: %v", pid, err)
		}
	}
	e.wait = time.Hour
	for _, pid := range []int{1, mostHung + 1, 100} { // one that is known, and what would be one too many
		if _, err := e.Read(1000, pid); !errors.Is(err, ErrHangs) {
			t.Errorf("process %d: %v", pid, err)
		}
	}
	if b, err := e.Read(1001, 100); string(b) != "A=1\x00" || err != nil {
		t.Errorf("on behalf of another user: %q, %v", b, err)
	}
	for pid := 1; pid <= mostHung; pid++ {
		f, err := os.OpenFile(environ(pid), os.O_WRONLY, 0)
		must.NoError(t, err)
		f.Close()
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		b, err := e.Read(1000, 100)
		if string(b) == "A=1\x00" && err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%q, %v", b, err)
		}
	}
}
