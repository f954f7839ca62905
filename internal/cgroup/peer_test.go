package cgroup

import (
	"errors"
	"path"
	"slices"
	"testing"

	"github.com/containerd/cgroups/v3"
	"github.com/containerd/cgroups/v3/cgroup1"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// containerd/cgroups reads the same files with different code. If two programs that share no code
// agree, both are probably right.

func TestModeAgreesWithContainerd(t *testing.T) {
	_, tree := needMemory(t)
	want := map[cgroups.CGMode]Mode{cgroups.Legacy: ModeV1, cgroups.Hybrid: ModeHybrid,
		cgroups.Unified: ModeV2}[cgroups.Mode()]
	if tree.Mode() != want {
		t.Errorf("mode %v, containerd says %v", tree.Mode(), want)
	}
}

// v1Path returns the job's path, which is the same in every v1 hierarchy.
func v1Path(tree *Tree, j *Job) string {
	return "/" + tree.hierarchies[0].unit + "/" + tree.hierarchies[0].leaf + "/" + j.ID()
}

func TestUsageAgreesWithContainerd(t *testing.T) {
	w, tree := needMemory(t)
	if tree.Mode() == ModeV2 {
		kernfstest.Elsewhere(t, "no controller is on v1")
	}
	j, err := tree.Job(testJob)
	must.NoError(t, err)
	must.NoError(t, j.Create(benchLimits()))
	t.Cleanup(func() { endJob(t, j) })
	w.start(t, j.Join())
	peer, err := cgroup1.Load(cgroup1.StaticPath(v1Path(tree, j)))
	must.NoError(t, err)
	before, err := j.Usage()
	must.NoError(t, err)
	theirs, err := peer.Stat(cgroup1.IgnoreNotExist)
	must.NoError(t, err)
	ours, err := j.Usage()
	must.NoError(t, err)
	if *ours.MemLimit != int64(theirs.Memory.Usage.Limit) || *ours.MemSwapLimit != int64(theirs.Memory.Swap.Limit) {
		t.Errorf("limits %d and %d, containerd has %d and %d", *ours.MemLimit, *ours.MemSwapLimit,
			theirs.Memory.Usage.Limit, theirs.Memory.Swap.Limit)
	}
	if *ours.CgroupPeak < int64(theirs.Memory.Usage.Max) || uint64(*ours.CPU) < theirs.CPU.Usage.Total ||
		*before.Pids > int64(theirs.Pids.Current) || *ours.Pids < int64(theirs.Pids.Current) { // a thread may start
		t.Errorf("peak %d, cpu %d, pids %d to %d; containerd had %d, %d, %d in between", *ours.CgroupPeak, *ours.CPU,
			*before.Pids, *ours.Pids,
			theirs.Memory.Usage.Max, theirs.CPU.Usage.Total, theirs.Pids.Current)
	}
	processes, err := peer.Processes(cgroup1.Memory, true)
	must.NoError(t, err)
	pids, err := j.Processes()
	must.NoError(t, err)
	for _, p := range processes {
		if !slices.Contains(pids, p.Pid) {
			t.Errorf("pid %d: containerd has it, we have %v", p.Pid, pids)
		}
	}
}

// BenchmarkContainerd makes and removes the same v1 cgroups, with the same limits, as
// BenchmarkCreateRemove.
func BenchmarkContainerd(b *testing.B) {
	_, tree := needMemory(b)
	if tree.Mode() == ModeV2 {
		b.Skip("about v1 controllers")
	}
	j, err := tree.Job(testJob)
	must.NoError(b, err)
	l := benchLimits()
	shares, pids := l.CPUShares, *l.Pids
	resources := &specs.LinuxResources{
		Memory: &specs.LinuxMemory{Limit: l.Mem, Swap: l.MemSwap},
		CPU:    &specs.LinuxCPU{Shares: &shares, Cpus: l.CPUs.String(), Mems: l.Mems.String()},
		Pids:   &specs.LinuxPids{Limit: &pids},
	}
	b.Cleanup(func() { // it also creates cgroups in hierarchies that we do not use
		for _, root := range []string{"/sys/fs/cgroup/blkio", "/sys/fs/cgroup/systemd"} {
			for dir := v1Path(tree, j); dir != "/"; dir = path.Dir(dir) {
				if err := unix.Rmdir(root + dir); err != nil && !errors.Is(err, unix.ENOENT) {
					b.Error(err)
				}
			}
		}
	})
	for b.Loop() {
		c, err := cgroup1.New(cgroup1.StaticPath(v1Path(tree, j)), resources)
		must.NoError(b, err)
		must.NoError(b, c.Delete())
	}
}
