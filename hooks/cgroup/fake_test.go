package main

import (
	"os"
	"slices"
	"strings"
	"testing"

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
		start: spawning(k),
		lives: func(pid int) bool { return slices.Contains(k.Pids(), pid) },
	}
	return newNode(t, n, roots, opt, edit), k
}

// spawning returns a function that starts processes in memory.
func spawning(k *kernfstest.Kernel) func(t testing.TB, enter func(pid int)) int {
	return func(_ testing.TB, enter func(pid int)) int {
		pid := k.Spawn()
		if enter != nil {
			enter(pid)
		}
		return pid
	}
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

// onEachFake runs a test that boots its kernels itself.
func onEachFake(t *testing.T, test func(t *testing.T, boot func(...kernfstest.Option) *kernfstest.Kernel)) {
	if os.Getenv("HOOKHOST_FAKES") == "no" { // in a guest of lab/vm/test; a fake is the same on every kernel
		return
	}
	for _, f := range fakes {
		t.Run(f.name, func(t *testing.T) { test(t, f.boot) })
	}
}
