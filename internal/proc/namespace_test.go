package proc

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
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

// FuzzStatus reads a file /proc/PID/status. A process has a number of a namespace in its own words
// alone, and a value is one line of the file.
func FuzzStatus(f *testing.F) {
	f.Add("Name:\tsleep\nNSpid:\t7\t1\nTracerPid:\t0\nCoreDumping:\t1\n", 1)
	f.Add("\nNSpid:\nNSpid:\t7 8 9", 9)
	dir := f.TempDir()
	must.NoError(f, os.Mkdir(filepath.Join(dir, "7"), 0o755))
	procfs, err := kernfs.Open(dir)
	must.NoError(f, err)
	f.Fuzz(func(t *testing.T, text string, pid int) {
		must.NoError(t, os.WriteFile(filepath.Join(dir, "7", "status"), []byte(text), 0o600))
		got, err := Translate(procfs, 7, pid)
		_, line, _ := strings.Cut(text, "\nNSpid:")
		line, _, _ = strings.Cut(line, "\n")
		numbers := strings.Fields(line)
		inside := len(numbers) > 1
		own := inside && numbers[len(numbers)-1] == strconv.Itoa(pid)
		if !inside && got != pid || own && got != 7 || inside && !own && !errors.Is(err, ErrGone) {
			t.Errorf("%q: %d is %d, %v", text, pid, got, err)
		}
		for i, value := range statusOf(procfs, "7", "CoreDumping:", "TracerPid:") {
			key := []string{"CoreDumping:", "TracerPid:"}[i]
			if strings.Contains(value, "\n") || value != "" && !strings.Contains("\n"+text, "\n"+key) {
				t.Errorf("%q: %s %q", text, key, value)
			}
		}
	})
}
