package proc

import (
	"os"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/must"
)

func TestLoadOfAProcessIsReadBehindAHostileName(t *testing.T) {
	const line = "7 (a) R 1 2) S 1 7 7 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 3 0 4711 1000000 512 1844 1 1\n"
	start, l, err := parseLoad([]byte(line))
	must.NoError(t, err)
	want := Load{CPU: 3 * time.Second, RSS: 512 * int64(os.Getpagesize()), Threads: 3}
	if start != 4711 || l != want {
		t.Errorf("start %d, %+v; want 4711, %+v", start, l, want)
	}
	if _, _, err := parseLoad([]byte("7 (a) S 1 2")); err == nil {
		t.Error("a line that is cut off is taken")
	}
}

func TestLoadOfAnotherProcessWithThePidIsNotRead(t *testing.T) {
	procfs, err := kernfs.Open("/proc")
	must.NoError(t, err)
	self, err := Read(procfs, os.Getpid())
	must.NoError(t, err)
	l, err := ReadLoad(procfs, self)
	if err != nil || l.RSS <= 0 || l.Threads <= 0 {
		t.Errorf("%+v, %v", l, err)
	}
	self.StartTime++
	if _, err := ReadLoad(procfs, self); err == nil {
		t.Error("another process was read")
	}
}
