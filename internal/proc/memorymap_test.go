package proc

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/must"
)

// inUse is a /proc in which every lock of a memory map waits for others.
type inUse struct {
	*kernfs.FS
	wait time.Duration
}

func (u inUse) Mkdir(name string, _ fs.FileMode) error { return u.FS.Mkdir(name) }

func (u inUse) OpenFile(name string, flag int) (kernfs.File, error) {
	for pause := unix.NsecToTimespec(int64(u.wait)); unix.Nanosleep(&pause, &pause) == unix.EINTR; {
	}
	return u.FS.OpenFile(name, flag)
}

// A map that threads only use is not held, even if it is never free.
func TestBusyMemoryMapIsNotHeld(t *testing.T) {
	dir := t.TempDir()
	must.NoError(t, os.Mkdir(filepath.Join(dir, "7"), 0o755))
	must.NoError(t, os.WriteFile(filepath.Join(dir, "7", "clear_refs"), nil, 0o600))
	procfs, err := kernfs.Open(dir)
	must.NoError(t, err)
	check := func(wait, limit time.Duration) error {
		e := NewEnvirons(kernfs.New(inUse{procfs, wait}, "/proc"))
		e.wait = limit
		return e.CheckMap(1000, 7)
	}
	must.NoError(t, check(longestUse/10, time.Minute))
	if err := check(2*longestUse, 20*longestUse); !errors.Is(err, ErrHangs) {
		t.Errorf("threads hold it one after the other: %v", err)
	}
}
