package kernfstest

import (
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/must"
)

// Skip skips a test that this machine cannot run. With HOOKHOST_KERNEL_TESTS=required the test
// fails instead: a kernel test that was meant to run must not pass by not running.
func Skip(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("HOOKHOST_KERNEL_TESTS") == "required" {
		t.Fatalf("required kernel test cannot run: "+format, args...)
	}
	t.Skipf(format, args...)
}

// Elsewhere skips a test that cannot run on this kernel. The caller has checked the property that
// prevents it, and names it. Such a skip is not a failure, even where kernel tests are required:
// the laboratory (docs/testing.md) ensures that the test runs on another kernel.
func Elsewhere(t testing.TB, format string, args ...any) {
	t.Helper()
	t.Skipf("elsewhere: "+format, args...)
}

// NeedRoot skips a test that does not run as root.
func NeedRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		Skip(t, "not root")
	}
}

// NeedV1 skips a test unless the running kernel has these controllers on v1, each mounted under its
// name. It returns the real roots. A controller that is on v2 cannot also be on v1, so such a test
// is for another kernel.
func NeedV1(t testing.TB, controllers ...string) kernfs.Roots {
	t.Helper()
	NeedRoot(t)
	roots := realRoots(t)
	for _, c := range controllers {
		if id := hierarchyID(t, roots, c); id == 0 {
			Elsewhere(t, "the %s controller is not on v1", c)
		}
		if !roots.Cgroup.Exists(c + "/tasks") {
			Skip(t, "v1 %s controller is not mounted", c)
		}
	}
	return roots
}

// NeedV2 skips a test unless the running kernel has a v2 tree that offers these controllers to its
// children. It returns the real roots and the path of the tree below /sys/fs/cgroup: "unified" on a
// hybrid machine, otherwise ".". Without a v2 tree, or with such a controller on v1, the test is
// for another kernel.
func NeedV2(t testing.TB, controllers ...string) (roots kernfs.Roots, dir string) {
	t.Helper()
	NeedRoot(t)
	roots = realRoots(t)
	if dir = "."; !roots.Cgroup.Exists("cgroup.controllers") {
		dir = "unified"
	}
	for _, c := range controllers {
		if id := hierarchyID(t, roots, c); id != 0 {
			Elsewhere(t, "the %s controller is on v1", c)
		}
	}
	if !mountsV2(t, roots) {
		Elsewhere(t, "no cgroup v2 is mounted")
	}
	b, err := roots.Cgroup.ReadFile(path.Join(dir, "cgroup.subtree_control"))
	if err != nil {
		Skip(t, "no cgroup v2: %v", err)
	}
	for _, c := range controllers {
		if !slices.Contains(strings.Fields(string(b)), c) {
			Skip(t, "the %s controller is not in the root's cgroup.subtree_control", c)
		}
	}
	return roots, dir
}

// hierarchyID returns the controller's v1 hierarchy in /proc/cgroups, or 0 if it is on v2 or
// nowhere.
func hierarchyID(t testing.TB, roots kernfs.Roots, controller string) int {
	t.Helper()
	if controller == "io" { // v1 and this file use its old name
		controller = "blkio"
	}
	b, err := roots.Proc.ReadFile("cgroups")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 4 && f[0] == controller {
			id, err := strconv.Atoi(f[1])
			must.NoError(t, err)
			return id
		}
	}
	return 0
}

// mountsV2 reports whether any v2 tree is mounted.
func mountsV2(t testing.TB, roots kernfs.Roots) bool {
	t.Helper()
	b, err := roots.Proc.ReadFile("self/mountinfo")
	must.NoError(t, err)
	return strings.Contains(string(b), " - cgroup2 ")
}

func realRoots(t testing.TB) kernfs.Roots {
	t.Helper()
	roots, err := kernfs.OpenRoots()
	if err != nil {
		Skip(t, "open roots: %v", err)
	}
	return roots
}
