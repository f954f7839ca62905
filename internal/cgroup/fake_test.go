package cgroup

import (
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

func TestContractFakeV1(t *testing.T)     { contract(t, fake{kernfstest.NewV1}) }
func TestContractFakeHybrid(t *testing.T) { contract(t, fake{kernfstest.NewHybrid}) }
func TestContractFakeV2(t *testing.T)     { contract(t, fake{kernfstest.NewV2}) }

// TestContractFakeOld uses a kernel of 2018: no cgroup.kill, no freezer on v2, no peaks, no swap
// accounting.
func TestContractFakeOld(t *testing.T) {
	contract(t, fake{func(opts ...kernfstest.Option) *kernfstest.Kernel {
		return kernfstest.NewHybrid(append(opts,
			kernfstest.Without("cgroup.kill", "cgroup.freeze", "pids.peak", "swap"))...)
	}})
}

// TestContractFakeV2Old uses a kernel of 2020 (5.10): no cgroup.kill, no peaks, no memory.reclaim.
func TestContractFakeV2Old(t *testing.T) {
	contract(t, fake{func(opts ...kernfstest.Option) *kernfstest.Kernel {
		return kernfstest.NewV2(append(opts, kernfstest.Without(
			"cgroup.kill", "memory.peak", "memory.swap.peak", "memory.reclaim", "pids.peak",
			"cpu.pressure", "memory.pressure", "io.pressure",
		))...)
	}})
}

// fake is a world in memory; each test has a separate one.
type fake struct {
	boot func(...kernfstest.Option) *kernfstest.Kernel
}

var kernels = map[*testing.T]*kernfstest.Kernel{}

func (w fake) kernel(t *testing.T) *kernfstest.Kernel {
	k, ok := kernels[t]
	if !ok {
		k = w.boot()
		kernels[t] = k
		t.Cleanup(func() { delete(kernels, t) })
	}
	return k
}

func (w fake) tree(t *testing.T, controllers ...string) *Tree {
	return fakeTree(t, w.kernel(t), controllers...)
}

func fakeTree(t *testing.T, k *kernfstest.Kernel, controllers ...string) *Tree {
	t.Helper()
	roots := k.Roots()
	if roots.Cgroup.Exists("cgroup.subtree_control") { // as systemd does
		for _, c := range []string{"cpuset", "cpu", "memory", "pids", "hugetlb", "io", "rdma"} {
			must.NoError(t, roots.Cgroup.Write("cgroup.subtree_control", "+"+c))
		}
	}
	tree, err := Detect(roots, Options{Signal: k.Signal, Controllers: controllers})
	must.NoError(t, err)
	must.NoError(t, tree.Prepare())
	return tree
}

func (w fake) start(t *testing.T, join Join) process {
	k := w.kernel(t)
	return fakeProcess{k, spawnFake(k, join)}
}

func (w fake) disk(*testing.T) (major, minor uint32, ok bool) { return 8, 0, true }

func spawnFake(k *kernfstest.Kernel, join Join) (pid int) {
	var in []string
	for _, tasks := range join.Tasks {
		in = append(in, path.Dir(tasks))
	}
	if join.CgroupDir != "" {
		in = append(in, join.CgroupDir)
	}
	for i := range in {
		in[i] = strings.TrimPrefix(in[i], "/sys/fs/cgroup/")
	}
	return k.Spawn(in...)
}

type fakeProcess struct {
	k  *kernfstest.Kernel
	id int
}

func (p fakeProcess) pid() int { return p.id }

func (p fakeProcess) burn(t *testing.T, d time.Duration) {
	if !p.lives() {
		t.Errorf("process %d has ended", p.id)
	}
	p.k.Burn(p.id, d)
}

func (p fakeProcess) touch(_ *testing.T, n int64) { p.k.Charge(p.id, kernfstest.Memory{Anon: n}) }

func (p fakeProcess) cache(_ *testing.T, n int64) { p.k.Charge(p.id, kernfstest.Memory{File: n}) }

func (p fakeProcess) huge(_ *testing.T, n int64) bool { return p.k.ChargeHuge(p.id, n) }

func (p fakeProcess) fork(t *testing.T, n int) []int {
	var pids []int
	for range n {
		pid, err := p.k.Fork(p.id)
		must.NoError(t, err)
		pids = append(pids, pid)
	}
	return pids
}

func (p fakeProcess) end(*testing.T) { p.k.Exit(p.id) }

func (p fakeProcess) gone(t *testing.T) {
	t.Helper()
	if p.lives() {
		t.Errorf("process %d lives", p.id)
	}
}

func (p fakeProcess) lives() bool { return slices.Contains(p.k.Pids(), p.id) }
