package main

import (
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// fakeNode is a node in memory, with 8 cpus in 4 cores and 16 GiB.
func fakeNode(
	t testing.TB,
	boot func(...kernfstest.Option) *kernfstest.Kernel,
	edit func(*config.File),
	opts ...kernfstest.Option,
) (*node, *kernfstest.Kernel) {
	t.Helper()
	k := boot(opts...)
	roots := k.Roots()
	if there, err := roots.Cgroup.ReadFile("cgroup.controllers"); err == nil { // as systemd does
		for _, c := range []string{"cpuset", "cpu", "memory", "pids"} {
			if slices.Contains(strings.Fields(string(there)), c) {
				must.NoError(t, roots.Cgroup.Write("cgroup.subtree_control", "+"+c))
			}
		}
	}
	opt := cgroup.Options{Signal: k.Signal}
	if p := testPolicy(t, edit); p.Hugetlb.Enabled {
		opt.EnableIfThere = []string{"hugetlb"}
	}
	n := node{
		start: func(_ testing.TB, join *hostapi.Join) int { return k.Spawn(dirsOf(join)...) },
		lives: func(pid int) bool { return slices.Contains(k.Pids(), pid) },
	}
	return newNode(t, n, roots, opt, edit), k
}

// dirsOf are the directories that a Join leads to, below /sys/fs/cgroup.
func dirsOf(join *hostapi.Join) []string {
	if join == nil {
		return nil
	}
	var dirs []string
	for _, file := range join.Tasks {
		dirs = append(dirs, path.Dir(file))
	}
	if join.CgroupDir != "" {
		dirs = append(dirs, join.CgroupDir)
	}
	for i := range dirs {
		dirs[i] = strings.TrimPrefix(dirs[i], "/sys/fs/cgroup/")
	}
	return dirs
}

// fakes are the kernels in memory.
var fakes = []struct {
	name string
	boot func(...kernfstest.Option) *kernfstest.Kernel
}{{"v1", kernfstest.NewV1}, {"hybrid", kernfstest.NewHybrid}, {"v2", kernfstest.NewV2}}

// onFakes runs a test on each of them.
func onFakes(
	t *testing.T,
	edit func(*config.File),
	test func(t *testing.T, n *node, k *kernfstest.Kernel),
	opts ...kernfstest.Option,
) {
	onEachFake(t, func(t *testing.T, boot func(...kernfstest.Option) *kernfstest.Kernel) {
		n, k := fakeNode(t, boot, edit, opts...)
		test(t, n, k)
	})
}

// onEachFake runs a test that boots kernels of its own.
func onEachFake(t *testing.T, test func(t *testing.T, boot func(...kernfstest.Option) *kernfstest.Kernel)) {
	if os.Getenv("HOOKHOST_FAKES") == "no" { // a guest of lab/vm/test: a fake is the same on every kernel
		return
	}
	for _, f := range fakes {
		t.Run(f.name, func(t *testing.T) { test(t, f.boot) })
	}
}
