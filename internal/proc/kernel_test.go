package proc

import (
	"errors"
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/must"
)

func procFS(t testing.TB) *kernfs.FS {
	t.Helper()
	f, err := kernfs.Open("/proc")
	must.NoError(t, err)
	return f
}

// threads returns the cgroups of every thread of this process.
func threads(t testing.TB) map[int]string {
	t.Helper()
	dirs, err := os.ReadDir("/proc/self/task")
	must.NoError(t, err)
	m := map[int]string{}
	for _, d := range dirs {
		b, err := os.ReadFile("/proc/self/task/" + d.Name() + "/cgroup")
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue
		}
		must.NoError(t, err)
		tid, _ := strconv.Atoi(d.Name())
		m[tid] = string(b)
	}
	return m
}
