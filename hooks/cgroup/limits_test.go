package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/topology"
)

const (
	mib = int64(1) << 20
	gib = int64(1) << 30
)

// fourCPUs returns a host with four cores in one socket and 10 GiB.
func fourCPUs(swap int64) host {
	node := &topology.Node{MemTotal: 10 * gib, SwapTotal: swap, Threads: 1, Online: kernfs.IDs(0, 1, 2, 3),
		NUMA: []topology.NUMANode{{CPUs: kernfs.IDs(0, 1, 2, 3), MemTotal: 10 * gib, HasMemory: true}}}
	for i := range 4 {
		node.CPUs = append(node.CPUs, topology.CPU{ID: i, Core: i, Siblings: kernfs.IDs(i)})
	}
	return host{node: node, cpus: node.Online, mems: kernfs.IDs(0), has: func(string) bool { return true }}
}

func ptr[T any](v T) *T { return &v }

func size(n int64) *pbs.Size { return ptr(pbs.Size(n)) }

// decide is assign without devices.
func (p *policy) decide(h host, a ask, others []holding) (cgroup.Limits, []string, error) {
	got, err := p.assign(h, a, others)
	return got.limits, got.notes, err
}

func TestLimitsFollowRequestDefaultsAndRoom(t *testing.T) {
	other := func(id string, cpus kernfs.IDSet, mem int64) holding {
		return holding{id: id, limits: cgroup.Limits{CPUs: cpus, Mem: &mem, MemSwap: &mem}}
	}
	byDefault := func(swap int64) holding {
		l := other("1.x", kernfs.IDs(0), 10*gib).limits
		return testPolicy(t, nil).holdingOf(fourCPUs(swap), assignment{limits: l, allMem: true})
	}
	plain := func(cpus kernfs.IDSet, mem, memsw int64) cgroup.Limits {
		shares := uint64(cpus.Len()) * 1000
		return cgroup.Limits{CPUs: cpus, Mems: kernfs.IDs(0), Mem: &mem, MemSwap: &memsw, CPUShares: shares}
	}
	tests := []struct {
		name   string
		edit   func(*config.File)
		swap   int64
		share  pbs.HostShare
		others []holding
		want   cgroup.Limits
	}{
		{name: "as asked", share: pbs.HostShare{NCPUs: 2, Mem: size(64 * mib)},
			want: plain(kernfs.IDs(0, 1), 64*mib, 64*mib)},
		{name: "beside another job", share: pbs.HostShare{NCPUs: 2, Mem: size(64 * mib)},
			others: []holding{other("1.x", kernfs.IDs(0, 1), gib)},
			want:   plain(kernfs.IDs(2, 3), 64*mib, 64*mib)},
		{name: "no mem asked, no default: all there is", share: pbs.HostShare{NCPUs: 1},
			want: plain(kernfs.IDs(0), 10*gib, 10*gib)},
		{name: "no mem asked, a default", edit: func(f *config.File) { f.Memory.Default = pbs.Size(256 * mib) },
			share: pbs.HostShare{NCPUs: 1},
			want:  plain(kernfs.IDs(0), 256*mib, 256*mib)},
		{name: "a default that is not enforced",
			edit:  func(f *config.File) { f.Memory.Default, f.Memory.EnforceDefault = pbs.Size(256*mib), false },
			share: pbs.HostShare{NCPUs: 1}, want: plain(kernfs.IDs(0), 10*gib, 10*gib)},
		{name: "a job that holds all by default does not count", share: pbs.HostShare{NCPUs: 1, Mem: size(8 * gib)},
			others: []holding{byDefault(0)}, want: plain(kernfs.IDs(1), 8*gib, 8*gib)},
		{name: "not where swap counts as well",
			share: pbs.HostShare{NCPUs: 1, Mem: size(8 * gib), Vmem: size(10 * gib)}, swap: 2 * gib,
			others: []holding{byDefault(2 * gib)}, want: plain(kernfs.IDs(1), 8*gib, 10*gib)},
		{name: "vmem as asked", share: pbs.HostShare{NCPUs: 1, Mem: size(64 * mib), Vmem: size(96 * mib)}, swap: gib,
			want: plain(kernfs.IDs(0), 64*mib, 96*mib)},
		{name: "vmem alone bounds mem as well", share: pbs.HostShare{NCPUs: 1, Vmem: size(96 * mib)}, swap: gib,
			want: plain(kernfs.IDs(0), 96*mib, 96*mib)},
		{name: "swap by default, no more than there is",
			edit: func(f *config.File) { f.Memsw.Default = pbs.Size(2 * gib) }, swap: gib,
			share: pbs.HostShare{NCPUs: 1, Mem: size(gib)}, want: plain(kernfs.IDs(0), gib, 2*gib)},
		{name: "no cpus: none of its own, little time", share: pbs.HostShare{Mem: size(64 * mib)},
			want: cgroup.Limits{Mem: ptr(64 * mib), MemSwap: ptr(64 * mib),
				CPUShares: 2, Period: 100 * time.Millisecond, Quota: 20600 * time.Microsecond}},
		{name: "quota", edit: func(f *config.File) { f.CPU.EnforcePerPeriodQuota = true },
			share: pbs.HostShare{NCPUs: 2, Mem: size(gib)},
			want: cgroup.Limits{
				CPUs: kernfs.IDs(0, 1), Mems: kernfs.IDs(0), Mem: ptr(gib), MemSwap: ptr(gib),
				CPUShares: 2000, Period: 100 * time.Millisecond, Quota: 206 * time.Millisecond}},
		{name: "quota, more cpus than there are, no cpusets",
			edit:  func(f *config.File) { f.CPU.EnforcePerPeriodQuota, f.Cpuset.Enabled = true, false },
			share: pbs.HostShare{NCPUs: 1 << 47, Mem: size(gib)}, want: cgroup.Limits{
				Mem: ptr(gib), MemSwap: ptr(gib),
				CPUShares: 1000 << 47, Period: 100 * time.Millisecond, Quota: 412 * time.Millisecond}},
		{name: "excluded cpus", edit: func(f *config.File) { f.Cpuset.ExcludeCPUs = "0-1" },
			share: pbs.HostShare{NCPUs: 2, Mem: size(gib)},
			want:  plain(kernfs.IDs(2, 3), gib, gib)},
		{name: "nothing enabled", edit: func(f *config.File) {
			f.CPU.Enabled, f.Cpuset.Enabled = false, false
			f.Memory.Enabled, f.Memsw.Enabled, f.Pids.Enabled = false, false, false
		}, share: pbs.HostShare{NCPUs: 2, Mem: size(gib)}, want: cgroup.Limits{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, there := testPolicy(t, tt.edit), fourCPUs(tt.swap)
			there.cpus = p.Cpuset.Left(there.cpus)
			got, _, err := p.decide(there, ask{HostShare: tt.share}, tt.others)
			must.NoError(t, err)
			must.Equal(t, "", tt.want, got)
		})
	}
}

// Limits that only v2 has are decided only there.
func TestDecideOnV2(t *testing.T) {
	on, off := true, false
	for _, tt := range []struct {
		name     string
		edit     func(*config.File)
		v1       bool
		oomGroup string // -l oom_group
		want     cgroup.Limits
		notes    int
	}{
		{name: "by default", want: cgroup.Limits{OOMGroup: &on}},
		{name: "the job does not want to be killed as a whole", oomGroup: "false", want: cgroup.Limits{OOMGroup: &off}},
		{name: "the node does not, the job does", edit: func(f *config.File) { f.Memory.OOMGroup = false },
			oomGroup: "true",
			want:     cgroup.Limits{OOMGroup: &on}},
		{name: "the node does not", edit: func(f *config.File) { f.Memory.OOMGroup = false },
			want: cgroup.Limits{OOMGroup: &off}},
		{name: "throttled", edit: func(f *config.File) { f.Memory.HighPercent = 50 },
			want: cgroup.Limits{OOMGroup: &on, MemHigh: ptr(32 * mib)}},
		{name: "on v1", v1: true, edit: func(f *config.File) { f.Memory.HighPercent = 50 }},
		{name: "on v1, asked for", v1: true, oomGroup: "true", notes: 1},
		{name: "without memory", edit: func(f *config.File) { f.Memory.Enabled, f.Memsw.Enabled = false, false },
			oomGroup: "true", notes: 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := fourCPUs(0)
			h.v2 = !tt.v1
			list := hostapi.Resources{}
			if tt.oomGroup != "" {
				list["oom_group"] = tt.oomGroup
			}
			l, notes, err := testPolicy(t, tt.edit).decide(
				h,
				ask{HostShare: pbs.HostShare{NCPUs: 1, Mem: size(64 * mib)}, list: list},
				nil,
			)
			if err != nil || len(notes) != tt.notes {
				t.Fatalf("notes %q, %v", notes, err)
			}
			must.Equal(t, "", tt.want, cgroup.Limits{OOMGroup: l.OOMGroup, MemHigh: l.MemHigh})
		})
	}
}

// If mem excludes page cache, the kernel's limit has room for that: as much as mem, or what the
// site configures. It never exceeds what all jobs together may have. The job's mem is unchanged:
// others cannot have it, resize changes it, and reports show it.
func TestKernelLimitHasRoomForCache(t *testing.T) {
	edit := func(c *config.File) { c.Memory.Enforce, c.Memory.ReservePercent = "rss", 0 }
	onFakes(t, edit, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
		all := n.policy.memTotal(n.node())
		limited := func(id string, mem, memsw int64) {
			t.Helper()
			l, err := n.cgroup(id).Limits()
			if err != nil || l.Mem == nil || *l.Mem != mem || l.MemSwap == nil || *l.MemSwap != memsw ||
				l.MemHigh != nil {
				t.Errorf("limits of job %s: %+v, %v; want %d of memory, %d with swap", id, l, err, mem, memsw)
			}
		}
		reported := func(id string, u *hostapi.HostUsage, want int64) {
			t.Helper()
			if u.MemLimitBytes == nil || *u.MemLimitBytes != want {
				t.Errorf("job %s: mem_limit_bytes %v, want %d", id, u.MemLimitBytes, want)
			}
		}
		out := n.begin("1.srv", asks("ncpus=1", "mem=10gb"))
		limited("1.srv", all, all)
		reported("1.srv", out.Usage, 10*gib)
		reported("1.srv", n.do(hostapi.EventPeriodic, "").Jobs["1.srv"].Usage, 10*gib)
		n.refuses(hostapi.EventBegin, "2.srv", hostapi.KindBusy, "mem requested", "ncpus=1", "mem=7gb")
		n.begin("2.srv", asks("ncpus=1"))
		limited("2.srv", all, all)
		out, err := n.resize("1.srv", "ncpus=1", "mem=8gb")
		must.NoError(t, err)
		limited("1.srv", all, all)
		reported("1.srv", out.Usage, 8*gib)
		n.restart()
		reported("1.srv", n.do(hostapi.EventPeriodic, "").Jobs["1.srv"].Usage, 8*gib)
		n.begin("3.srv", asks("ncpus=1", "mem=7gb", "vmem=8gb"))
		limited("3.srv", 8*gib, 8*gib)
		reported("3.srv", n.do(hostapi.EventEpilogue, "3.srv").Usage, 7*gib)
		_, err = n.resize("1.srv", "ncpus=1", "mem=2gb")
		must.NoError(t, err)
		limited("1.srv", 4*gib, 4*gib)
		n.startAndSettle(func(p *policy) { p.Memory.Cache = pbs.Size(gib) })
		limited("1.srv", 3*gib, 3*gib)
		limited("2.srv", all, all)
	})
}

// The mem in a mark is what was granted on this host. A job may be on so many hosts that its mark
// cannot hold the chunks. The request in such a mark is the sum over all hosts.
func TestMemInAMarkIsWhatWasAssigned(t *testing.T) {
	assigned := cgroup.Assigned{Limits: &cgroup.Limits{Mem: ptr(int64(3 * gib))}}
	all := assigned
	all.AllMem = true
	for _, tt := range []struct {
		name     string
		asks     hostapi.Resources
		assigned cgroup.Assigned
		want     *pbs.Size
	}{
		{"asked for", hostapi.Resources{"mem": "4gb"}, assigned, size(3 * gib)},
		{"of blocks", hostapi.Resources{"blocks": "1"}, assigned, size(3 * gib)},
		{"all there is, without asking", nil, all, nil},
		{"GPUs in a form of the site's own", hostapi.Resources{"gpus": "two"}, assigned, size(3 * gib)},
	} {
		got := assignmentIn(cgroup.JobMark{Assigned: tt.assigned,
			Begin: &hostapi.Request{Node: testNode, Job: &hostapi.Job{ID: "1.srv", ResourceList: tt.asks}}})
		if diff := cmp.Diff(tt.want, got.ask.Mem); diff != "" {
			t.Errorf("%s: -want +got:\n%s", tt.name, diff)
		}
	}
}

func TestMemOfManyHosts(t *testing.T) {
	onFakes(t, byRSS, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
		n.do(hostapi.EventBegin, "1.srv", asks("ncpus=3001", "mem=300100mb"), func(req *hostapi.Request) {
			req.Job.ExecVnode = "(" + testNode + ":ncpus=1:mem=102400kb)" + strings.Repeat(
				"+(other:ncpus=1:mem=102400kb)",
				3000,
			)
		})
		for range 2 {
			if b := n.boundsNow(n.cgroup("1.srv")); b.mem != 100*mib {
				t.Errorf("bounds %+v; want mem %d", b, 100*mib)
			}
			n.restart()
		}
		n.do(hostapi.EventBegin, "2.srv", asks("ncpus=1", "mem=8gb"))
	})
}

// A request for everything counts, but a default of everything does not. The cgroup's record
// distinguishes them.
func TestBeginBesideAll(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
		all := fmt.Sprintf("mem=%db", n.policy.memTotal(n.node()))
		for _, tt := range []struct {
			first, second []string
			want          hostapi.Kind
		}{
			{[]string{"ncpus=1", all}, []string{"ncpus=1", all}, hostapi.KindBusy},
			{[]string{"ncpus=1", all}, []string{"ncpus=1", "mem=1mb"}, hostapi.KindBusy},
			{[]string{"ncpus=1", all}, []string{"ncpus=1"}, ""},
			{[]string{"ncpus=1"}, []string{"ncpus=1", all}, ""},
			{[]string{"ncpus=1", "mem=1mb"}, []string{"ncpus=1", all}, hostapi.KindBusy},
		} {
			n.do(hostapi.EventBegin, "1.srv", asks(tt.first...))
			if _, err := n.event(hostapi.EventBegin, "2.srv", asks(tt.second...)); hostapi.KindOf(err) != tt.want {
				t.Errorf("%v beside %v: error %v", tt.second, tt.first, err)
			}
			n.do(hostapi.EventEnd, "1.srv")
			n.do(hostapi.EventEnd, "2.srv")
		}
	})
}

// With mem_fences a job goes to a NUMA node that has its memory.
func TestDecideMemFences(t *testing.T) {
	h := fourCPUs(0)
	h.mems = kernfs.IDs(0, 1)
	h.node.NUMA = []topology.NUMANode{
		{ID: 0, CPUs: kernfs.IDs(0, 1), MemTotal: 5 * gib, HasMemory: true}, {ID: 1, CPUs: kernfs.IDs(2, 3),
			MemTotal: 5 * gib, HasMemory: true}}
	for i := range h.node.CPUs {
		h.node.CPUs[i].NUMA = i / 2
	}
	held := holding{limits: cgroup.Limits{CPUs: kernfs.IDs(0), Mems: kernfs.IDs(0), Mem: ptr(4 * gib)}}
	for _, tt := range []struct {
		name       string
		mem        int64
		cpus, mems kernfs.IDSet
	}{
		{"room beside the other job", gib, kernfs.IDs(1), kernfs.IDs(0)},
		{"room on the other node only", 2 * gib, kernfs.IDs(2), kernfs.IDs(1)},
		{"room on both together", 6 * gib, kernfs.IDs(1), kernfs.IDs(0, 1)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := testPolicy(t, func(f *config.File) { f.Cpuset.MemFences = true })
			l, _, err := p.decide(h, ask{HostShare: pbs.HostShare{NCPUs: 1, Mem: size(tt.mem)}}, []holding{held})
			if err != nil || !l.CPUs.Equal(tt.cpus) || !l.Mems.Equal(tt.mems) {
				t.Errorf("cpus %s, mems %s, %v; want %s, %s", l.CPUs, l.Mems, err, tt.cpus, tt.mems)
			}
		})
	}
}

func testPolicy(t testing.TB, edit func(*config.File)) *policy {
	t.Helper()
	p, err := newPolicy(nil)
	must.NoError(t, err)
	p.Memory.ReservePercent = 0
	if edit != nil {
		edit(&p.File)
	}
	return p
}

func TestDecideRefuses(t *testing.T) {
	holds := func(cpus kernfs.IDSet, mem int64) []holding {
		return []holding{{id: "1.x", limits: cgroup.Limits{CPUs: cpus, Mem: &mem, MemSwap: &mem}}}
	}
	tests := []struct {
		name   string
		edit   func(*config.File)
		share  pbs.HostShare
		others []holding
		kind   hostapi.Kind
		text   string
	}{
		{"more cpus than are free", nil, pbs.HostShare{NCPUs: 3}, holds(kernfs.IDs(1, 2), gib), hostapi.KindBusy,
			"ncpus requested (3) exceeds ncpus available (2); held: cpus 1-2 by job 1.x"},
		{"more cpus than there are, some taken", nil, pbs.HostShare{NCPUs: 5}, holds(kernfs.IDs(1, 2), gib),
			hostapi.KindJob, "ncpus requested (5) exceeds ncpus available (4)"},
		{"more memory than is free", nil, pbs.HostShare{NCPUs: 1, Mem: size(9 * gib)}, holds(kernfs.IDs(0), 2*gib),
			hostapi.KindBusy,
			"mem requested (9437184kb) exceeds mem available (8388608kb)"},
		{"vmem below mem", nil, pbs.HostShare{NCPUs: 1, Mem: size(2 * mib), Vmem: size(mib)}, nil, hostapi.KindJob,
			"vmem requested (1024kb) under minimum possible (2048kb)"},
		{"vmem in which nothing starts", nil, pbs.HostShare{NCPUs: 1, Vmem: size(1024)}, nil, hostapi.KindJob,
			"vmem requested (1kb) under minimum possible (1024kb)"},
		{"vmem beyond the host", nil, pbs.HostShare{NCPUs: 1, Vmem: size(20 * gib)}, nil, hostapi.KindJob,
			"vmem requested (20971520kb) exceeds vmem available (10485760kb)"},
		{"no cpus where that is not allowed", func(f *config.File) { f.Cpuset.AllowZeroCPUs = false }, pbs.HostShare{},
			nil, hostapi.KindJob,
			"cpuset enabled with mandatory ncpus >= 1, but job does not request ncpus on this host"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := testPolicy(t, tt.edit).decide(fourCPUs(0), ask{HostShare: tt.share}, tt.others)
			if err == nil || hostapi.KindOf(err) != tt.kind || err.Error() != tt.text {
				t.Errorf("error %q of kind %q, want %q of kind %q", err, hostapi.KindOf(err), tt.text, tt.kind)
			}
		})
	}
}

// No job gets more cpu time than all jobs together have.
func TestQuotaOfTheParent(t *testing.T) {
	for _, tt := range []struct {
		ncpus  int
		parent float64 // 0: no limit
		want   time.Duration
	}{
		{0, 0, 20600 * time.Microsecond},
		{0, 0.05, 5 * time.Millisecond},
		{0, 0.5, 20600 * time.Microsecond},
		{0, 0.00001, time.Millisecond},
		{2, 0, 206 * time.Millisecond},
		{2, 1.5, 150 * time.Millisecond},
		{2, 1.0 / 3, 33333 * time.Microsecond},
		{2, 8, 206 * time.Millisecond},
	} {
		there := fourCPUs(0)
		if tt.parent != 0 {
			there.quota = &tt.parent
		}
		got := assignment{ask: ask{HostShare: pbs.HostShare{NCPUs: tt.ncpus}}}
		p := testPolicy(t, func(f *config.File) { f.CPU.EnforcePerPeriodQuota = true })
		must.NoError(t, p.decideShares(&got, there, nil))
		l := got.limits
		if l.Quota != tt.want || l.Period != 100*time.Millisecond {
			t.Errorf("%d cpus below %v: %v of %v, want %v", tt.ncpus, tt.parent, l.Quota, l.Period, tt.want)
		}
	}
}

// A job's quota and shares are the same as with pbs_cgroups, to the microsecond.
func TestZeroCPUsGetWhatPBSCgroupsGives(t *testing.T) {
	for _, tt := range []struct {
		shares, quota, fudge float64
		period               time.Duration
		wantShares           uint64
		want                 time.Duration
	}{
		{0.002, 0.2, 1.03, 100 * time.Millisecond, 2, 20600 * time.Microsecond},
		{0.5, 1, 1.05, 100 * time.Millisecond, 500, 105000 * time.Microsecond},
		{0.57, 0.29, 1.03, 100 * time.Millisecond, 570, 29869 * time.Microsecond}, // rounded as in Python
		{0.0001, 0.29, 1.5, 50 * time.Millisecond, 2, 21749 * time.Microsecond},
		{0, 0, 1.03, 100 * time.Millisecond, 2, time.Millisecond},
	} {
		var got assignment
		p := testPolicy(t, func(f *config.File) {
			f.CPU.ZeroCPUsSharesFraction, f.CPU.ZeroCPUsQuotaFraction = tt.shares, tt.quota
			f.CPU.CfsQuotaFudgeFactor = tt.fudge
			f.CPU.CfsPeriod = config.Duration(tt.period)
		})
		must.NoError(t, p.decideShares(&got, fourCPUs(0), nil))
		l := got.limits
		if l.CPUShares != tt.wantShares || l.Quota != tt.want || l.Period != tt.period {
			t.Errorf("%+v: shares %d, quota %v of %v", tt, l.CPUShares, l.Quota, l.Period)
		}
	}
}

func TestDecideNotes(t *testing.T) {
	all := pbs.HostShare{Mem: size(gib), Vmem: size(2 * gib)}
	tests := []struct {
		name  string
		edit  func(*config.File)
		there func(*host)
		a     ask
		want  []string
	}{
		{"all in force", nil, func(h *host) { h.node.SwapTotal = gib },
			ask{HostShare: all, list: hostapi.Resources{"pids": "5"}}, nil},
		{"no swap", nil, nil, ask{HostShare: all},
			[]string{"vmem exceeds mem, and this host has no swap: mem is the limit that counts"}},
		{"the kernel cannot", nil, func(h *host) { h.has = func(name string) bool { return name == "memory" } },
			ask{HostShare: all, list: hostapi.Resources{"pids": "5"}},
			[]string{
				"vmem=2097152kb is not enforced: this kernel cannot",
				"pids=5 is not enforced: this kernel cannot",
			}},
		{"nothing enabled",
			func(f *config.File) { f.Memory.Enabled, f.Memsw.Enabled, f.Pids.Enabled = false, false, false }, nil,
			ask{HostShare: all, list: hostapi.Resources{"pids": "5"}},
			[]string{
				"mem=1048576kb is not enforced: [memory] is not enabled on this host",
				"vmem=2097152kb is not enforced: [memsw] is not enabled on this host",
				"pids=5 is not enforced: [pids] is not enabled on this host",
			}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			there := fourCPUs(0)
			if tt.there != nil {
				tt.there(&there)
			}
			_, got, err := testPolicy(t, tt.edit).decide(there, tt.a, nil)
			must.NoError(t, err)
			must.Equal(t, "", tt.want, got)
		})
	}
}

func TestAskOf(t *testing.T) {
	tests := []struct {
		name string
		job  hostapi.Job
		want ask
	}{
		{"the job's own list", hostapi.Job{ResourceList: hostapi.Resources{"ncpus": "2", "vmem": "1gb", "pids": "7"}},
			ask{
				HostShare: pbs.HostShare{NCPUs: 2, Vmem: size(gib), Other: map[string]string{"pids": "7"}},
				here:      []int{0},
			}},
		{"chunks of this host",
			hostapi.Job{
				ExecVnode:    "(node1:ncpus=1:mem=1048576kb)+(node1[1]:ncpus=2)+(node2:ncpus=9)",
				ResourceList: hostapi.Resources{"ncpus": "12"},
			},
			ask{HostShare: pbs.HostShare{NCPUs: 3, Mem: size(gib)}, here: []int{0, 1}, numa: map[int]int{1: 2}}},
		{"vmem of one host", hostapi.Job{ExecVnode: "(node1:ncpus=1)", ResourceList: hostapi.Resources{"vmem": "1gb"}},
			ask{HostShare: pbs.HostShare{NCPUs: 1, Vmem: size(gib)}, here: []int{0}}},
		{"vmem of several",
			hostapi.Job{ExecVnode: "(node1:ncpus=1)+(node2:ncpus=1)", ResourceList: hostapi.Resources{"vmem": "1gb"}},
			ask{
				HostShare: pbs.HostShare{NCPUs: 1},
				here:      []int{0},
				notes: []string{
					"vmem=1048576kb is not enforced: exec_vnode does not say how much of it each host has",
				},
			}},
		{"no vmem", hostapi.Job{ResourceList: hostapi.Resources{"ncpus": "1", "vmem": "0"}},
			ask{HostShare: pbs.HostShare{NCPUs: 1}, here: []int{0}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := askOf(&tt.job, testNode)
			must.NoError(t, err)
			must.Equal(t, "", tt.want, got, cmp.AllowUnexported(ask{}), cmpopts.IgnoreFields(ask{}, "chunks", "list"))
		})
	}
}
