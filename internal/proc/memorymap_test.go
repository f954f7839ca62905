package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
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

// A process whose first thread has ended has a map, as long as others run.
func TestMapOfAProcessWithoutFirstThread(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(dir, "7", "task", "8")
	must.NoError(t, os.MkdirAll(other, 0o755))
	for file, text := range map[string]string{
		filepath.Join(dir, "7", "stat"): fmt.Sprintf("7 (x) Z 1 7 7 0 -1 %d%s\n", pfExiting, strings.Repeat(" 0", 43)),
		filepath.Join(other, "stat"):    "8 (x) S 1 7 7 0 -1 0" + strings.Repeat(" 0", 43) + "\n",
		other + "/clear_refs":           "",
	} {
		must.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	procfs, err := kernfs.Open(dir)
	must.NoError(t, err)
	must.NoError(t, NewEnvirons(procfs).CheckMap(1000, 7))
	written, err := os.ReadFile(other + "/clear_refs")
	must.NoError(t, err)
	must.Equal(t, "what was written", "5", string(written))
}

// A map that threads only use is not held, even if it is never free.
func TestBusyMemoryMapIsNotHeld(t *testing.T) {
	dir := t.TempDir()
	must.NoError(t, os.Mkdir(filepath.Join(dir, "7"), 0o755))
	stat, err := os.ReadFile("/proc/self/stat")
	must.NoError(t, err, os.WriteFile(filepath.Join(dir, "7", "stat"), stat, 0o600))
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
