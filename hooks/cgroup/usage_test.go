package main

import (
	"testing"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/pbs"
)

// Memory that was reported once is reported again, no matter who measures. What a job holds when it
// ends is included.
func TestMeasuredMemoryNeverFalls(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		const id = "1.srv"
		n.begin(id, asks("ncpus=1", "mem=1gb"))
		measured := func() (mem int64) {
			u, _, err := n.measure(n.cgroup(id), n.state(id))
			if must.NoError(t, err); u.MemBytes != nil {
				mem = *u.MemBytes
			}
			return mem / mib * mib
		}
		pid := n.launch(id)
		k.Charge(pid, kernfstest.Memory{Anon: 60 * mib, Shmem: 40 * mib})
		must.Eventually(t, "a sample", func() bool { return measured() == 100*mib })
		k.Free(pid, kernfstest.Memory{Anon: 60 * mib})
		must.Equal(t, "mem", int64(100*mib), measured())
		n.restart()
		must.Equal(t, "mem of another hook", int64(100*mib), measured())
		k.Charge(pid, kernfstest.Memory{Anon: 160 * mib})
		must.Equal(t, "mem at the end", int64(200), *n.do(hostapi.EventEpilogue, id).Usage.MemBytes/mib)
	})
}

// A job that ran out of memory at its own limit has used what it could, whatever the samples saw.
// If no sample saw any memory, the kernel's peak is used too. These are v1's counters.
func TestMemIsTheKernelsPeakWhereSamplesMissIt(t *testing.T) {
	for _, tt := range []struct {
		name                       string
		mem, seen, peak, swap, oom int64 // MiB, but for the kills
		want                       int64
	}{
		{"sampled", 50, 0, 80, 80, 0, 50},
		{"the mark lacks the last sample", 50, 60, 80, 80, 0, 60},
		{"out of memory", 50, 0, 80, 80, 1, 80},
		{"out of memory and swap", 50, 0, 60, 100, 1, 60},
		{"the node is out of memory", 50, 0, 70, 70, 1, 50},
		{"unseen", 0, 0, 70, 70, 0, 70},
	} {
		mem, peak, swap, limit, both := tt.mem*mib, tt.peak*mib, tt.swap*mib, 80*mib, 100*mib
		counters := cgroup.Usage{CgroupPeak: &peak, MemSwapPeak: &swap, MemLimit: &limit, MemSwapLimit: &both,
			OOMKills: &tt.oom}
		u := &hostapi.HostUsage{MemBytes: &mem, CgroupPeakBytes: &peak, OOMKills: &tt.oom}
		memAtEnd(u, counters, tt.seen*mib)
		must.Equal(t, tt.name, tt.want*mib, *u.MemBytes)
	}
	u := &hostapi.HostUsage{}
	memAtEnd(u, cgroup.Usage{}, 0)
	if u.MemBytes != nil {
		t.Errorf("mem %d without a memory controller", *u.MemBytes)
	}
}

// On v2 the kernel counts at whose limit memory ran out. Page cache brings a job to its limit too,
// and then another's use of memory can kill its processes.
func TestMemIsSampledWhereAnothersUseOfMemoryKills(t *testing.T) {
	edit := func(f *config.File) { f.Memory.ReservePercent, f.Memory.ReserveAmount = 0, pbs.Size(4*gib) }
	n, k := fakeNode(t, kernfstest.NewV2, edit)
	n.begin("1.srv", asks("ncpus=1", "mem=8gb"))
	n.begin("2.srv", asks("ncpus=1"))
	victim, other := n.launch("1.srv"), n.launch("2.srv")
	k.Charge(victim, kernfstest.Memory{Anon: 7 * gib})
	must.Eventually(t, "a sample", func() bool { return n.snapshot("1.srv").mem >= 7*gib })
	k.Charge(victim, kernfstest.Memory{File: gib})
	must.Equal(t, "killed", []int{victim}, k.Charge(other, kernfstest.Memory{Anon: 6 * gib}))
	u := n.do(hostapi.EventEpilogue, "1.srv").Usage
	must.Equal(t, "peak", 8*int64(gib), *u.CgroupPeakBytes)
	if *u.OOMKills == 0 || *u.MemBytes >= 8*gib {
		t.Errorf("mem %d after %d kills", *u.MemBytes, *u.OOMKills)
	}
}
