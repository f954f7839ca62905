package kernfstest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// Run runs a package's tests and returns the exit status. The status is also 1 if the tests leave
// behind cgroups whose names begin with prefix, child processes or goroutines.
func Run(m *testing.M, prefix string) int {
	code := m.Run()
	complain := func(what any) {
		fmt.Fprintln(os.Stderr, "left behind:", what)
		code = max(code, 1)
	}
	for _, pattern := range []string{"/sys/fs/cgroup/*/", "/sys/fs/cgroup/"} {
		left, _ := filepath.Glob(pattern + prefix + "*")
		for _, dir := range left {
			complain(dir)
		}
	}
	if _, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); !errors.Is(err, unix.ECHILD) {
		complain("a child process")
	}
	if code == 0 { // failed tests may have left something
		if err := goleak.Find(); err != nil {
			complain(err)
		}
	}
	return code
}

// RemoveUnit removes the parents of all jobs below a prefix from the real cgroup tree.
func RemoveUnit(t testing.TB, prefix string) {
	t.Helper()
	for _, name := range []string{".service/job*", ".service"} {
		for _, top := range []string{"/sys/fs/cgroup/*/", "/sys/fs/cgroup/"} {
			dirs, err := filepath.Glob(top + prefix + name)
			if err != nil {
				t.Error(err)
			}
			for _, dir := range dirs {
				if err := unix.Rmdir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("rmdir %s: %v", dir, err)
				}
			}
		}
	}
}
