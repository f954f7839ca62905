package proc

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

func TestTranslateFindsThePIDOfANamespace(t *testing.T) {
	kernfstest.NeedRoot(t)
	procfs, err := kernfs.Open("/proc")
	must.NoError(t, err)
	inside := exec.Command("sleep", "1000")
	inside.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWPID}
	must.NoError(t, inside.Start())
	defer func() { inside.Process.Kill(); inside.Wait() }()
	self, child := os.Getpid(), inside.Process.Pid
	for _, tt := range []struct {
		caller, pid, want int // 0 for none
	}{
		{self, self, self}, {self, child, child}, {self, 1, 1},
		{child, 1, child}, {child, 2, 0}, {child, child, 0}, {child, self, 0},
		{0, self, 0}, {1 << 30, self, 0},
	} {
		got, err := Translate(procfs, tt.caller, tt.pid)
		if got != tt.want || (err != nil) != (tt.want == 0) || err != nil && !errors.Is(err, ErrGone) {
			t.Errorf("Translate(%d, %d) = %d, %v; want %d", tt.caller, tt.pid, got, err, tt.want)
		}
	}
}
