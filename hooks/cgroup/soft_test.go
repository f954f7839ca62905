package main

import (
	"strconv"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/pbs"
)

func softly(f *config.File) { f.Memory.SoftLimit = true }

// withSwap is a machine of 16 GiB and as much swap.
var withSwap = kernfstest.On(kernfstest.Machine{CPUs: 8, Threads: 2, NUMA: 2, Mem: 16 << 30, Swap: 16 << 30})

// inForce checks the memory limits of a job; -1 means none.
func (n *node) inForce(id string, soft, mem, memsw int64) {
	n.t.Helper()
	l := n.limitsNow(id)
	for _, c := range []struct {
		what string
		got  *int64
		want int64
	}{{"soft limit", l.MemSoft, soft}, {"mem", l.Mem, mem}, {"mem and swap", l.MemSwap, memsw}} {
		if got := c.got; got == nil && c.want != -1 || got != nil && *got != c.want {
			n.t.Errorf("job %s: %s is %v, want %d", id, c.what, show(got), c.want)
		}
	}
}

func show(n *int64) int64 {
	if n == nil {
		return -1
	}
	return *n
}

func TestMemIsASoftLimitBelowVmem(t *testing.T) {
	onFakes(t, softly, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
		all := n.hook.policy.memTotal(n.hook.node())
		n.begin("1.srv", asks("ncpus=1", "mem=64mb", "vmem=96mb"))
		n.inForce("1.srv", 64*mib, 96*mib, 96*mib)
		n.begin("2.srv", asks("ncpus=1", "mem=64mb", "vmem=20gb"))
		n.inForce("2.srv", 64*mib, all, 20*gib)
		n.begin("3.srv", asks("ncpus=1", "mem=64mb"))
		n.inForce("3.srv", 64*mib, 64*mib, 64*mib)
		n.begin("4.srv", asks("ncpus=1"))
		n.inForce("4.srv", -1, all, all)
		n.do(hostapi.EventResize, "1.srv", asks("ncpus=1", "mem=32mb", "vmem=128mb"))
		n.inForce("1.srv", 32*mib, 128*mib, 128*mib)
		n.restart()
		n.inForce("1.srv", 32*mib, 128*mib, 128*mib)
	}, withSwap)
}

// A job holds what it requested, not what it may use beyond that. The same is true after the
// setting has been removed.
func TestSoftLimitedJobHoldsItsMem(t *testing.T) {
	onFakes(t, softly, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
		n.begin("1.srv", asks("ncpus=1", "mem=8gb", "vmem=12gb"))
		n.begin("2.srv", asks("ncpus=1", "mem=4gb", "vmem=5gb"))
		n.startAndSettle(func(p *policy) { p.Memory.SoftLimit = false })
		n.begin("3.srv", asks("ncpus=1", "mem=3gb", "vmem=4gb"))
		n.refuses(hostapi.EventBegin, "4.srv", hostapi.KindBusy, "mem requested", "ncpus=1", "mem=2gb", "vmem=2gb")
	}, withSwap)
}

func TestResizeBrokenOffKeepsTheSoftLimit(t *testing.T) {
	onFakes(t, softly, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
		n.begin("1.srv", asks("ncpus=1", "mem=128mb", "vmem=256mb"))
		n.launch("1.srv")
		n.dieInResize("1.srv", "ncpus=1", "mem=64mb", "vmem=512mb")
		n.startAndSettle(nil)
		l := n.limitsNow("1.srv")
		r, err := n.cgroup("1.srv").JobMark()
		must.NoError(t, err)
		if l.MemSoft == nil || r.Limits == nil || r.Limits.Mem == nil || *r.Limits.Mem != *l.MemSoft {
			t.Errorf("the record has mem %d, the soft limit is %d", show(r.Limits.Mem), show(l.MemSoft))
		}
	}, withSwap)
}

// A job's io is counted whatever is enabled.
func TestJobHasACgroupInWhatIsEnabled(t *testing.T) {
	on := func(f *config.File) {
		f.NetCls.Enabled, f.NetPrio.Enabled, f.PerfEvent.Enabled, f.RDMA.Enabled = true, true, true, true
	}
	n, k := fakeNode(t, kernfstest.NewV1, on)
	n.begin("1.srv")
	pid := n.launch("1.srv")
	b, err := k.Roots().Proc.ReadFile(strconv.Itoa(pid) + "/cgroup")
	must.NoError(t, err)
	for _, c := range []string{"blkio", "net_cls,net_prio", "perf_event", "rdma"} {
		if !strings.Contains(string(b), ":"+c+":/pbs_jobs.service/jobid/1.srv\n") {
			t.Errorf("the job's process is not in %s: %s", c, b)
		}
	}
	n.do(hostapi.EventEpilogue, "1.srv")
	n.do(hostapi.EventEnd, "1.srv")
	for _, c := range []string{"blkio", "net_cls,net_prio", "perf_event", "rdma"} {
		if k.Roots().Cgroup.Exists(c + "/pbs_jobs.service/jobid/1.srv") {
			t.Errorf("%s has the job's cgroup still", c)
		}
	}
}

// If this kernel cannot have a controller, that is an error of the node and includes the reason. No
// controller is skipped.
func TestControllerThatIsNotThereIsRefused(t *testing.T) {
	for _, tt := range []struct {
		edit func(*config.File)
		text string
	}{
		{func(f *config.File) { f.NetCls.Enabled = true },
			"[net_cls] is enabled, but jobs can have no cgroup in net_cls on this node (cgroup v1 only)"},
		{func(f *config.File) { f.NetPrio.Enabled = true }, "no cgroup in net_prio on this node (cgroup v1 only)"},
		{func(f *config.File) { f.RDMA.Enabled = true }, "no cgroup in rdma on this node:"},
		{func(f *config.File) { f.Blkio.Enabled = true }, "no cgroup in blkio on this node:"},
		{func(f *config.File) { f.PerfEvent.Enabled = true }, ""},
		{func(*config.File) {}, ""}, // io is counted if it can be
	} {
		k := kernfstest.NewV2()
		p := testPolicy(t, tt.edit)
		tree, err := cgroup.Detect(
			k.Roots(),
			cgroup.Options{EnableIfThere: []string{"memory", "cpuset", "cpu", "pids"}, Controllers: p.Placing()},
		)
		must.NoError(t, err)
		err = p.need(tree)
		if tt.text == "" && err != nil || tt.text != "" && (err == nil || !strings.Contains(err.Error(), tt.text)) {
			t.Errorf("got %v, want %q", err, tt.text)
		}
	}
}

func TestCpusetFlagsAreSetOnV1(t *testing.T) {
	edit := func(f *config.File) { f.Cpuset.MemHardwall, f.Cpuset.MemorySpreadPage = true, true }
	onFakes(t, edit, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
		n.begin("1.srv")
		l, err := n.cgroup("1.srv").Limits()
		if v1 := n.tree.Has("hardwall"); err != nil || l.MemHardwall != v1 || l.SpreadPage != v1 {
			t.Errorf("hardwall %t, spread %t, %v; want %t", l.MemHardwall, l.SpreadPage, err, v1)
		}
	})
}

func bytesOf(t *testing.T, text string) int64 {
	t.Helper()
	n, err := pbs.ParseSize(text)
	must.NoError(t, err)
	return int64(n)
}

func TestCgswapIsPublishedWhenManaged(t *testing.T) {
	for _, perNUMA := range []bool{false, true} {
		n, _ := fakeNode(
			t,
			kernfstest.NewV2,
			func(f *config.File) { f.Memsw.ManageCgswap, f.Vnodes.PerNUMANode = true, perNUMA },
			withSwap,
		)
		for name, v := range n.do(hostapi.EventStartup, "").Vnodes {
			r := v.ResourcesAvailable
			got, want := bytesOf(t, r["cgswap"]), bytesOf(t, r["vmem"])-bytesOf(t, r["mem"])
			if got != want || !(perNUMA && name == testNode) && got == 0 {
				t.Errorf("%s: cgswap is %d, want %d", name, got, want)
			}
		}
	}
}
