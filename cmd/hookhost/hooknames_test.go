package main_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

func TestHooksHaveTheNamesOfTheirProgramsInPS(t *testing.T) {
	n := newNode(t)
	d := n.serve()
	must.Eventually(t, "the hooks run under their names", func() bool {
		names := map[string]bool{}
		for _, pid := range childrenOf(d.cmd.Process.Pid) {
			names[stat(pid).Comm] = true
		}
		t.Log(names)
		return slices.Equal(slices.Sorted(maps.Keys(names)), []string{"cgroup", "devices", "mpi", "walltime"})
	})
}
