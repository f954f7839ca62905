package doctor

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/cgroups/v3"
	"github.com/prometheus/procfs"

	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// openFake opens a fake kernel, of whose /proc the library reads a copy. As on a node where systemd
// gives the controllers away, nothing is enabled on request.
func openFake(t *testing.T, roots kernfs.Roots, cfg *config.File) *kernel {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"cgroups", "sys/kernel/osrelease"} {
		text, err := roots.Proc.ReadFile(name)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o644)
		}
		must.NoError(t, err)
	}
	proc, err := procfs.NewFS(dir)
	must.NoError(t, err)
	cfg.Cgroup.Systemd = "off"
	k, err := openKernel(roots, proc, cfg, true)
	must.NoError(t, err)
	return k
}

// findingsOf returns what doctor finds on a kernel, by name.
func findingsOf(t *testing.T, roots kernfs.Roots, edit func(*config.File)) map[string]Finding {
	t.Helper()
	cfg := config.Default()
	if edit != nil {
		edit(cfg)
	}
	k := openFake(t, roots, cfg)
	all := map[string]Finding{}
	for _, f := range slices.Concat(k.examineCgroups(initialCgroupNamespace), k.examineFeatures(), k.examineMemory(),
		k.examineSettings(), k.examineWalltime(), examineTopology(cfg, roots)) {
		if _, twice := all[f.What]; twice || f.Found == "" || f.Status != OK && f.Advice == "" {
			t.Errorf("%+v: twice, or without its reason or advice", f)
		}
		all[f.What] = f
	}
	return all
}

// passDown enables controllers in the root of a v2 tree and makes a cgroup, as an init system does.
func passDown(t *testing.T, roots kernfs.Roots, controllers ...string) {
	t.Helper()
	for _, c := range controllers {
		must.NoError(t, roots.Cgroup.Write("cgroup.subtree_control", "+"+c))
	}
	must.NoError(t, roots.Cgroup.Mkdir("system.slice"))
}

func TestFindingsOnFakeKernels(t *testing.T) {
	type want struct {
		what          string
		status        Status
		found, advice string
	}
	all := []string{"cpuset", "cpu", "memory", "pids", "io", "hugetlb"}
	for _, tt := range []struct {
		name   string
		kernel *kernfstest.Kernel
		pass   []string // controllers that the root of a v2 tree passes down
		edit   func(*config.File)
		want   []want
		blocks []string
	}{
		{name: "v2", kernel: kernfstest.NewV2(), pass: all, want: []want{
			{"cgroups", "ok", "v2; the first process in a while", "mount -o remount,favordynmods"},
			{"memory controller", "ok", "mem is enforced", ""},
			{"cpus", "ok", "0-7 (NUMA nodes: 2, threads of a core: 2); for jobs: 0-7; kept for the node: none", ""},
			{"memory", "ok", "16 GiB (for jobs: 15.7 GiB, kept for the node: 328 MiB), no swap", ""},
			{"io controller", "ok", "[io] is not enabled: jobs are not throttled on block devices, only counted", ""},
			{"blkio controller", "", "", ""},
			{"cgroup.kill", "ok", "one step", ""},
			{"freezer", "ok", "one step", ""},
			{"kill of whole jobs", "ok", "as a whole", ""},
			{"peak of memory", "ok", "counted", ""},
			{"swap accounting", "ok", "no swap", ""}, {"huge pages", "ok", "none", ""}}},
		{name: "v2 that favours moves", pass: all,
			kernel: kernfstest.NewV2(kernfstest.Mounted("nsdelegate", "favordynmods")),
			want:   []want{{"cgroups", "ok", "v2; processes are moved without a wait", ""}}},
		{name: "v2 of Linux 5.10", pass: all,
			kernel: kernfstest.NewV2(kernfstest.Without("cgroup.kill", "memory.peak")),
			want: []want{
				{"cgroup.kill", "degraded", "process by process", "Linux 5.14"},
				{"peak of memory", "degraded", "sampled", "Linux 5.19"}}},
		{name: "v2 without swap accounting", pass: all,
			kernel: kernfstest.NewV2(kernfstest.Without("swap"),
				kernfstest.On(kernfstest.Machine{CPUs: 2, Threads: 1, NUMA: 1, Mem: 1 << 30, Swap: 1 << 30})),
			want: []want{{"swap accounting", "degraded", "may swap as much", "swapaccount=0"}}},
		{name: "v2, root passes little", kernel: kernfstest.NewV2(), pass: []string{"cpuset", "cpu"},
			edit: func(f *config.File) { f.IO.Enabled, f.IO.Max = true, []string{"8:0 rbps=1mb"} },
			want: []want{
				{"memory controller", "impossible", "does not pass it down", `enable_controllers = ["memory"]`},
				{"io controller", "impossible", "does not pass it down", "or set enabled = false in [io]"},
				{"pids controller", "degraded", "no configured limit needs it", ""},
				{"swap accounting", "impossible", "no memory controller", `enable_controllers = ["memory"]`}},
			blocks: []string{"memory controller", "io controller"}},
		{name: "v2 without pids", kernel: kernfstest.NewV2(kernfstest.Without("pids")),
			pass: []string{"cpuset", "cpu", "memory"},
			edit: func(f *config.File) { f.Pids.Max = 10 },
			want: []want{
				{"io controller", "degraded", "; no configured limit needs it", `enable_controllers = ["io"]`},
				{"pids controller", "impossible", "the kernel does not have it", "CONFIG_CGROUP_PIDS"}},
			blocks: []string{"pids controller"}},
		{name: "v1", kernel: kernfstest.NewV1(),
			want: []want{
				{"cgroups", "degraded", "v1 only", "cgroup2"},
				{"cgroup.kill", "degraded", "process by process", "5.14"},
				{"freezer", "ok", "", ""},
				{"pressure (PSI)", "degraded", "only a cgroup v2 tree", "cgroup2"},
				{"kill of whole jobs", "degraded", "one process", "boot with"},
				{"io controller", "ok", "[io] is not enabled: jobs are not throttled", ""},
				{"blkio controller", "ok", "bytes that each job reads from and writes to disks are counted", ""}}},
		{name: "v1 without blkio", kernel: kernfstest.NewV1(kernfstest.Without("blkio")),
			want: []want{{"blkio controller", "degraded", "no configured limit needs it", "CONFIG_BLK_CGROUP"}}},
		{name: "v1 without swap accounting", kernel: kernfstest.NewV1(kernfstest.Without("swap")),
			want: []want{{"swap accounting", "degraded", "off: vmem is not enforced", "swapaccount=1"}}},
		{name: "v1, memory off at boot", kernel: kernfstest.NewV1(kernfstest.Without("memory")),
			want: []want{
				{"memory controller", "impossible", "", "or set enabled = false in [memory]"}},
			blocks: []string{"memory controller"}},
		{name: "rss enforcement needs no controller", kernel: kernfstest.NewV1(kernfstest.Without("memory")),
			edit: func(f *config.File) { f.Memory.Enforce = "rss" },
			want: []want{{"memory controller", "degraded", "no configured limit needs it", ""}}},
		{name: "hybrid", kernel: kernfstest.NewHybrid(),
			want: []want{
				{"cgroups", "ok",
					"hybrid: jobs get memory, cpuset, cpu, cpuacct, pids, freezer, devices, blkio on v1 and no " +
						"controller on v2", "favordynmods"},
				{"hugetlb controller", "ok", "[hugetlb] is not enabled: hpmem is not enforced", ""},
				{"io controller", "ok", "only counted", ""},
				{"swap accounting", "ok", "enforced", ""}}},
		{name: "hugetlb without pages", kernel: kernfstest.NewV2(), pass: all,
			edit: func(f *config.File) { f.Hugetlb.Enabled = true },
			want: []want{
				{"hugetlb controller", "ok", "hpmem", ""},
				{"huge pages", "degraded", "none are reserved", "nr_hugepages"}}},
		{name: "nothing is enabled", kernel: kernfstest.NewV2(), pass: all, edit: func(f *config.File) {
			f.Memory.Enabled, f.Memsw.Enabled, f.Cpuset.Enabled = false, false, false
			f.CPU.Enabled, f.Pids.Enabled = false, false
			f.Memory.HighPercent = 80
		},
			want: []want{
				{"memory controller", "ok", "[memory] is not enabled: mem is not enforced", ""},
				{"cpuset controller", "ok", "not enabled", ""},
				{"cpu controller", "ok", "not enabled", ""},
				{"pids controller", "ok", "not enabled", ""},
				{"hugetlb controller", "ok", "hpmem is not enforced", ""},
				{"swap accounting", "ok", "vmem is not enforced", ""},
				{"kill of whole jobs", "ok", "[memory] is not enabled", ""},
				{"high_percent", "degraded", "[memory] is not enabled", "enabled = true"}}},
		{name: "rss", kernel: kernfstest.NewV2(), pass: all,
			edit: func(f *config.File) {
				f.Memory.Enforce, f.Memory.HighPercent, f.Memory.OOMGroup = "rss", 80, false
			},
			want: []want{
				{"memory controller", "ok", "rss is sampled, page cache is not counted; the kernel limits both", ""},
				{"high_percent", "degraded", "rss", "both"},
				{"kill of whole jobs", "ok", "oom_group = false", ""},
				{"swap accounting", "ok", "if a job requests it", ""}}},
		{name: "both", kernel: kernfstest.NewV2(), pass: all, edit: func(f *config.File) { f.Memory.Enforce = "both" },
			want: []want{
				{"memory controller", "ok", "enforced by the kernel, page cache included; rss is sampled as well",
					""}}},
		{name: "delegate", kernel: kernfstest.NewV2(kernfstest.Mounted("nsdelegate")), pass: all,
			edit: func(f *config.File) { f.Cgroup.Delegate = true },
			want: []want{{"delegate", "ok", "the owner of a job may divide", ""}}},
		{name: "delegate without nsdelegate", kernel: kernfstest.NewV2(), pass: all,
			edit: func(f *config.File) { f.Cgroup.Delegate = true },
			want: []want{{"delegate", "ok", "not out of the job", "mount -o remount,nsdelegate /sys/fs/cgroup"}}},
		{name: "delegate on v2 of Linux 5.10", kernel: kernfstest.NewV2(kernfstest.Without("cgroup.kill")), pass: all,
			edit: func(f *config.File) { f.Cgroup.Delegate = true },
			want: []want{{"delegate", "impossible", "it needs cgroup.kill, which is in Linux 5.14", "newer"}}},
		{name: "delegate on a hybrid node", kernel: kernfstest.NewHybrid(),
			edit: func(f *config.File) { f.Cgroup.Delegate = true },
			want: []want{{"delegate", "impossible", "it needs cgroup v2 without v1 controllers", "boot with"}}},
		{name: "settings of v2 on v1", kernel: kernfstest.NewV1(), edit: func(f *config.File) {
			f.Cgroup.EnableControllers = []string{"io"}
			f.Memory.HighPercent = 80
		},
			want: []want{
				{"high_percent", "impossible", "memory.high needs cgroup v2", "boot with"},
				{"enable_controllers", "impossible", "no effect", "remove it from"}}},
		{name: "controllers without limits on v1", kernel: kernfstest.NewV1(kernfstest.Without("rdma")),
			edit: func(f *config.File) {
				f.Blkio.Enabled, f.NetCls.Enabled, f.PerfEvent.Enabled, f.RDMA.Enabled = true, true, true, true
			},
			want: []want{
				{"blkio controller", "ok", "bytes that each job reads from and writes to disks are counted", ""},
				{"net_cls controller", "ok", "each job", ""},
				{"perf_event controller", "ok", "each job", ""},
				{"rdma controller", "impossible", "the kernel does not have it", "CONFIG_CGROUP_RDMA"},
				{"net_prio controller", "", "", ""}},
			blocks: []string{"rdma controller"}},
		{name: "controllers without limits on v2", kernel: kernfstest.NewV2(), pass: all, edit: func(f *config.File) {
			f.Blkio.Enabled, f.NetCls.Enabled, f.PerfEvent.Enabled, f.RDMA.Enabled = true, true, true, true
		},
			want: []want{
				{"blkio controller", "ok", "it is io on cgroup v2", ""},
				{"perf_event controller", "ok", "each cgroup of the v2 tree is in it", ""},
				{"net_cls controller", "impossible",
					"cgroup v2 has no such controller, and that of v1 is not mounted", "by the path of a job's cgroup"},
				{"rdma controller", "impossible", "does not pass it down", `enable_controllers = ["rdma"]`}},
			blocks: []string{"net_cls controller", "rdma controller"}},
		{name: "settings of v1 on v1", kernel: kernfstest.NewV1(), edit: func(f *config.File) {
			f.Cpuset.MemHardwall, f.Cpuset.MemorySpreadPage, f.Memory.SoftLimit = true, true, true
			f.Memsw.Enabled, f.Memsw.ManageCgswap = false, true
		},
			want: []want{
				{"mem_hardwall", "", "", ""},
				{"memory_spread_page", "", "", ""},
				{"soft_limit", "ok", "without [memsw], its limit", ""},
				{"manage_cgswap", "degraded", "[memsw] is not enabled", "enabled = true"}}},
		{name: "settings of v1 on v2", kernel: kernfstest.NewV2(), pass: all, edit: func(f *config.File) {
			f.Cpuset.MemHardwall, f.Cpuset.MemorySpreadPage, f.Memory.SoftLimit = true, true, true
		},
			want: []want{
				{"mem_hardwall", "impossible", "cgroup v2 has no such flag", "v1"},
				{"memory_spread_page", "impossible", "cgroup v2 has no such flag", "numactl"},
				{"soft_limit", "ok", "vmem its limit", ""}}},
		{name: "no soft limit", kernel: kernfstest.NewV1(kernfstest.Without("memory.soft_limit_in_bytes")),
			edit: func(f *config.File) { f.Memory.SoftLimit = true },
			want: []want{
				{"soft_limit", "impossible", "this kernel has no soft limit", "soft_limit = false"}},
			blocks: []string{"soft_limit"}},
		{name: "a controller that is none", kernel: kernfstest.NewV2(), pass: all,
			edit: func(f *config.File) { f.Cgroup.EnableControllers = []string{"io", "hugtelb"} },
			want: []want{
				{"enable_controllers", "impossible", "hugtelb: the v2 tree has no such controller", "remove it from"}},
			blocks: []string{"enable_controllers"}},
		{name: "no such device", kernel: kernfstest.NewV2(), pass: all, edit: func(f *config.File) {
			f.IO.Enabled = true
			f.IO.Max = []string{"/dev/nope rbps=1mb", "/dev/null rbps=1mb", "8:0 rbps=1mb", "8:0 wbps=1mb"}
		},
			want: []want{
				{"io.max", "impossible", "/dev/nope: no such file or directory", "lsblk"},
				{"io.max", "impossible", "/dev/null is no block device", ""},
				{"io.max", "impossible", "8:0 has a limit already", ""}}, blocks: []string{"io.max"}},
		{name: "nothing has run", kernel: kernfstest.NewV2(),
			want: []want{
				{"cgroup.kill", "unknown", "until the daemon", "start"}},
			// nobody passes them down here
			blocks: []string{"cpu controller", "cpuset controller", "memory controller"}},
		{name: "time limits", kernel: kernfstest.NewV2(), pass: all, want: []want{
			{"walltime", "ok",
				"requests, or no limit; warnings @300; SIGTERM at the end and SIGKILL 30s later; under " +
					"pbs_mom 5m after", ""},
			{"cput", "ok", "enforced", ""}}},
		{name: "a node's own time limits", kernel: kernfstest.NewV1(), edit: func(f *config.File) {
			w := &f.Walltime
			w.Maximum, w.Overtime = config.Duration(48*time.Hour), config.Duration(90*time.Second)
			w.Grace, w.Signals = config.Duration(time.Minute), nil
		},
			want: []want{
				{"walltime", "ok", "that it requests, at most 48h; 1m30s of overtime; " +
					"no warning unless it requests one; SIGTERM at the end and SIGKILL 1m later", ""}}},
		{name: "nobody counts cpu time", kernel: kernfstest.NewV1(kernfstest.Without("cpuacct")),
			want: []want{{"cput", "impossible", "no cpuacct controller", "mount"}}},
		{name: "no time limits", kernel: kernfstest.NewV1(kernfstest.Without("cpuacct")),
			edit: func(f *config.File) { f.Walltime.Enabled = false },
			want: []want{{"walltime", "ok", "not enabled", ""}, {"cput", "", "", ""}}},
		{name: "cores and memory kept for the node", pass: all,
			kernel: kernfstest.NewV2(kernfstest.On(kernfstest.Machine{CPUs: 8, Threads: 2, NUMA: 2, Mem: 16 << 30,
				Swap: 4 << 30})),
			edit: func(f *config.File) {
				f.Cpuset.ExcludeCPUs, f.Memory.ReservePercent, f.Memory.ReserveAmount = "0,4,4000", 0, 1<<30
				f.Memsw.ReserveAmount = 1 << 30
			},
			want: []want{
				{"cpus", "ok", "for jobs: 1-3,5-7; kept for the node: 0,4", ""},
				{"memory", "ok", "16 GiB (for jobs: 15 GiB, kept for the node: 1 GiB), " +
					"swap 4 GiB (for jobs: 3 GiB, kept for the node: 1 GiB)", ""}}},
		{name: "a thread kept for the node", kernel: kernfstest.NewV2(), pass: all,
			edit: func(f *config.File) { f.Cpuset.ExcludeCPUs = "0" },
			want: []want{
				{"cpus", "ok", "kept for the node: 0; other threads of these cores are for jobs: 4", "add 4"}}},
		{name: "a NUMA node kept for the node", kernel: kernfstest.NewV2(), pass: all,
			edit: func(f *config.File) { f.Cpuset.ExcludeCPUs = "0-1,4-5" },
			want: []want{{"cpus", "degraded", "all cpus of NUMA node 0", "leave cpus of each NUMA node"}}},
		{name: "cpus kept that the node does not have", kernel: kernfstest.NewV2(), pass: all,
			edit: func(f *config.File) { f.Cpuset.ExcludeCPUs = "64-65" },
			want: []want{{"cpus", "degraded", "none of exclude_cpus (64-65)", "name cpus of this node"}}},
		{name: "cpus kept without cpusets", kernel: kernfstest.NewV2(), pass: all,
			edit: func(f *config.File) { f.Cpuset.ExcludeCPUs, f.Cpuset.Enabled = "0,4", false },
			want: []want{{"cpus", "degraded", "PBS is not told about 0,4, but jobs run there too", "[cpuset]"}}},
		{name: "nothing left for jobs", kernel: kernfstest.NewV2(), pass: all,
			edit: func(f *config.File) { f.Cpuset.ExcludeCPUs, f.Memory.ReserveAmount = "0-7", 1<<40 },
			want: []want{
				{"cpus", "impossible", "all of them", "exclude_cpus"},
				{"memory", "impossible", "all of it is reserved", "[memory]"}},
			blocks: []string{"cpus", "memory"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			roots := tt.kernel.Roots()
			if tt.pass != nil {
				passDown(t, roots, tt.pass...)
			}
			found := findingsOf(t, roots, tt.edit)
			for _, w := range tt.want {
				f := found[w.what]
				if f.Status != w.status || !strings.Contains(f.Found, w.found) ||
					!strings.Contains(f.Advice, w.advice) {
					t.Errorf("%+v, want %+v", f, w)
				}
			}
			var blocks []string
			for _, f := range found {
				if f.Blocks {
					blocks = append(blocks, f.What)
				}
			}
			slices.Sort(blocks)
			slices.Sort(tt.blocks)
			if !slices.Equal(blocks, tt.blocks) {
				t.Errorf("hooks are kept from working by %v, want %v", blocks, tt.blocks)
			}
		})
	}
}

func TestMissingControllerIsExplained(t *testing.T) {
	k := openFake(t, kernfstest.NewV1(kernfstest.Without("memory")).Roots(), config.Default())
	for _, tt := range []struct {
		summary       *procfs.CgroupSummary // its line of /proc/cgroups
		found, advice string
	}{
		{&procfs.CgroupSummary{}, "disabled at boot", "cgroup_enable=memory"},
		{&procfs.CgroupSummary{Enabled: 1}, "not mounted", "mount -t cgroup -o memory none /sys/fs/cgroup/memory"},
		{&procfs.CgroupSummary{Enabled: 1, Hierarchy: 7},
			"bound to a v1 hierarchy that is not mounted below", "cgroup_no_v1=memory"},
		{nil, "the kernel does not have it", "CONFIG_MEMCG"},
	} {
		delete(k.controllers, "memory")
		if tt.summary != nil {
			k.controllers["memory"] = *tt.summary
		}
		found, advice := k.whyNot("memory")
		if !strings.Contains(found, tt.found) || !strings.Contains(advice, tt.advice) {
			t.Errorf("%+v: %q, %q", tt, found, advice)
		}
	}
}

// On a node with a v2 tree, the mount in the configuration is what is wrong.
func TestNodeWithoutCgroupsIsToldWhatToMount(t *testing.T) {
	for mode, advice := range map[cgroups.CGMode]string{
		cgroups.Unavailable: "mount -t cgroup2",
		cgroups.Legacy:      "mount -t cgroup2",
		cgroups.Hybrid:      "correct mount in [cgroup]",
		cgroups.Unified:     "correct mount in [cgroup]",
	} {
		if f := withoutCgroups(errors.New("neither"), mode); !f.Blocks || !strings.Contains(f.Advice, advice) {
			t.Errorf("mode %d: %+v", mode, f)
		}
	}
}

func TestEnergyIsExaminedWhereItIsAskedFor(t *testing.T) {
	root := t.TempDir()
	sys, err := kernfs.Open(root)
	must.NoError(t, err)
	k := &kernel{cfg: config.Default(), roots: kernfs.Roots{Sys: sys}}
	if found := k.examineEnergy(); len(found) > 0 {
		t.Errorf("by default: %+v", found)
	}
	k.cfg.Billing.Energy = true
	if found := k.examineEnergy(); len(found) != 1 || found[0].Status != Impossible || found[0].Blocks {
		t.Errorf("without counters: %+v", found)
	}
	zone := filepath.Join(root, "devices/virtual/powercap/intel-rapl/intel-rapl:0")
	must.NoError(t, os.MkdirAll(zone, 0o755))
	for file, text := range map[string]string{"name": "package-0", "energy_uj": "1", "max_energy_range_uj": "9"} {
		must.NoError(t, os.WriteFile(filepath.Join(zone, file), []byte(text), 0o644))
	}
	if found := k.examineEnergy(); len(found) != 1 || found[0].Status != OK {
		t.Errorf("with counters: %+v", found)
	}
}
