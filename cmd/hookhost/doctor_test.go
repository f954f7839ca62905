package main

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/inventory"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/topology"
)

// look returns what doctor finds on a kernel, by name.
func look(t *testing.T, roots kernfs.Roots, edit func(*config.File)) map[string]finding {
	t.Helper()
	cfg := config.Default()
	cfg.Cgroup.Systemd = "off"
	if edit != nil {
		edit(cfg)
	}
	k, err := lookAt(roots, cfg)
	if err != nil {
		t.Fatal(err)
	}
	// As a node has it where systemd gives the controllers away: nothing is enabled on request.
	if k.tree, err = cgroup.Detect(roots, cgroup.Options{Prefix: cfg.Cgroup.Prefix, Controllers: cfg.Placing()}); err != nil {
		t.Fatal(err)
	}
	all := map[string]finding{}
	for _, f := range slices.Concat(k.examineCgroups(initialCgroupNamespace), k.examineFeatures(), k.examineMemory(), k.examineSettings(false), k.examineWalltime(), examineTopology(cfg, roots)) {
		if _, twice := all[f.What]; twice || f.Found == "" || f.Status != statusOK && f.Advice == "" {
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
		if err := roots.Cgroup.Write("cgroup.subtree_control", "+"+c); err != nil {
			t.Fatal(err)
		}
	}
	if err := roots.Cgroup.Mkdir("system.slice"); err != nil {
		t.Fatal(err)
	}
}

func TestDoctorOnFakeKernels(t *testing.T) {
	type want struct{ what, status, found, advice string }
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
			{"cgroups", "ok", "v2; the first process in a while", "favordynmods = true"}, {"memory controller", "ok", "mem is enforced", ""}, {"io controller", "ok", "[io] is not enabled: jobs are not throttled", ""},
			{"cgroup.kill", "ok", "one step", ""}, {"freezer", "ok", "one step", ""}, {"kill of whole jobs", "ok", "as a whole", ""}, {"peak of memory", "ok", "counted", ""},
			{"swap accounting", "ok", "no swap", ""}, {"huge pages", "ok", "none", ""}}},
		{name: "v2 that favours moves", kernel: kernfstest.NewV2(kernfstest.Mounted("nsdelegate", "favordynmods")), pass: all, edit: func(f *config.File) { f.Cgroup.FavorDynmods = true },
			want: []want{{"cgroups", "ok", "v2; processes are moved without a wait", ""}}},
		{name: "v2 that is to favour moves", kernel: kernfstest.NewV2(), pass: all, edit: func(f *config.File) { f.Cgroup.FavorDynmods = true },
			want: []want{{"cgroups", "degraded", "favordynmods = true in [cgroup] is not in force", "restart"}}},
		{name: "systemd required", kernel: kernfstest.NewV2(), pass: all, edit: func(f *config.File) { f.Cgroup.Systemd = "require" }, want: []want{
			{"cgroups", "ok", "v2", "favordynmods"}}},
		{name: "v2 of Linux 5.10", kernel: kernfstest.NewV2(kernfstest.Without("cgroup.kill", "memory.peak", "cpuset.cpus.exclusive")), pass: all,
			edit: func(f *config.File) { f.Cpuset.Isolated = true },
			want: []want{{"cgroup.kill", "degraded", "process by process", "Linux 5.14"}, {"peak of memory", "degraded", "sampled", "Linux 5.19"},
				{"isolated cpus", "impossible", "isolated = true in [cpuset] has every job refused", "Linux 6.7"}}, blocks: []string{"isolated cpus"}},
		{name: "v2 without swap accounting", kernel: kernfstest.NewV2(kernfstest.Without("swap"), kernfstest.On(kernfstest.Machine{CPUs: 2, Threads: 1, NUMA: 1, Mem: 1 << 30, Swap: 1 << 30})), pass: all,
			want: []want{{"swap accounting", "degraded", "may swap as much", "swapaccount=0"}}},
		{name: "v2, root passes little", kernel: kernfstest.NewV2(), pass: []string{"cpuset", "cpu"}, edit: func(f *config.File) { f.IO.Enabled, f.IO.Max = true, []string{"8:0 rbps=1mb"} },
			want: []want{{"memory controller", "impossible", "does not pass it down", `enable_controllers = ["memory"]`},
				{"io controller", "impossible", "does not pass it down", "or set enabled = false in [io]"},
				{"pids controller", "impossible", "nothing configured needs it", ""}, {"swap accounting", "impossible", "no memory controller", ""}},
			blocks: []string{"memory controller", "io controller"}},
		{name: "v2 without pids", kernel: kernfstest.NewV2(kernfstest.Without("pids")), pass: []string{"cpuset", "cpu", "memory"}, edit: func(f *config.File) { f.Pids.Max = 10 },
			want: []want{{"pids controller", "impossible", "the kernel has none", "CONFIG_CGROUP_PIDS"}}, blocks: []string{"pids controller"}},
		{name: "v1", kernel: kernfstest.NewV1(), want: []want{{"cgroups", "degraded", "v1 only", "cgroup2"}, {"cgroup.kill", "degraded", "process by process", "5.14"},
			{"freezer", "ok", "", ""}, {"isolated cpus", "impossible", "need cgroup v2", "boot with"}, {"pressure (PSI)", "degraded", "v2 tree only", "cgroup2"},
			{"kill of whole jobs", "degraded", "one process", "boot with"}, {"io controller", "impossible", "cgroup v2's", "boot with"}}},
		{name: "v1 without swap accounting", kernel: kernfstest.NewV1(kernfstest.Without("swap")), want: []want{{"swap accounting", "degraded", "off: vmem is not enforced", "swapaccount=1"}}},
		{name: "v1, memory off at boot", kernel: kernfstest.NewV1(kernfstest.Without("memory")),
			want: []want{{"memory controller", "impossible", "", "or set enabled = false in [memory]"}}, blocks: []string{"memory controller"}},
		{name: "rss enforcement needs no controller", kernel: kernfstest.NewV1(kernfstest.Without("memory")), edit: func(f *config.File) { f.Memory.Enforce = "rss" },
			want: []want{{"memory controller", "impossible", "nothing configured needs it", ""}}},
		{name: "hybrid", kernel: kernfstest.NewHybrid(), want: []want{{"cgroups", "ok", "hybrid: jobs get memory, cpuset, cpu, cpuacct, pids, freezer, devices on v1 and no controller on v2", "favordynmods"},
			{"hugetlb controller", "impossible", "does not pass it down", `enable_controllers = ["hugetlb"]`}, {"swap accounting", "ok", "enforced", ""}}},
		{name: "hugetlb without pages", kernel: kernfstest.NewV2(), pass: all, edit: func(f *config.File) { f.Hugetlb.Enabled = true },
			want: []want{{"hugetlb controller", "ok", "hpmem", ""}, {"huge pages", "degraded", "none is reserved", "nr_hugepages"}}},
		{name: "nothing is enabled", kernel: kernfstest.NewV2(), pass: all, edit: func(f *config.File) {
			f.Memory.Enabled, f.Memsw.Enabled, f.Cpuset.Enabled, f.CPU.Enabled, f.Pids.Enabled = false, false, false, false, false
			f.Cpuset.Isolated, f.Memory.HighPercent = true, 80
		}, want: []want{{"memory controller", "ok", "[memory] is not enabled: mem is not enforced", ""}, {"cpuset controller", "ok", "not enabled", ""},
			{"cpu controller", "ok", "not enabled", ""}, {"pids controller", "ok", "not enabled", ""}, {"hugetlb controller", "ok", "hpmem is not enforced", ""},
			{"swap accounting", "ok", "vmem is not enforced", ""}, {"kill of whole jobs", "ok", "[memory] is not enabled", ""},
			{"high_percent", "degraded", "[memory] is not enabled", "enabled = true"}}},
		{name: "rss", kernel: kernfstest.NewV2(), pass: all, edit: func(f *config.File) { f.Memory.Enforce, f.Memory.HighPercent, f.Memory.OOMGroup = "rss", 80, false },
			want: []want{{"memory controller", "ok", "rss is sampled, page cache is not counted", ""}, {"high_percent", "degraded", "rss", "both"},
				{"kill of whole jobs", "ok", "oom_group = false", ""}, {"swap accounting", "ok", "where a job asks for it", ""}}},
		{name: "both", kernel: kernfstest.NewV2(), pass: all, edit: func(f *config.File) { f.Memory.Enforce = "both" },
			want: []want{{"memory controller", "ok", "enforced by the kernel, page cache included; rss is sampled as well", ""}}},
		{name: "settings of v2 on v1", kernel: kernfstest.NewV1(), edit: func(f *config.File) {
			f.Cpuset.Isolated, f.Memory.HighPercent, f.Memory.ServicesLow, f.Cgroup.EnableControllers = true, 80, 1<<30, []string{"io"}
		}, want: []want{{"isolated cpus", "impossible", "has no effect", "boot with"}, {"high_percent", "impossible", "memory.high needs cgroup v2", "boot with"},
			{"services_low", "impossible", "memory.low needs cgroup v2", "boot with"}, {"enable_controllers", "impossible", "no effect", "take it out"}}},
		{name: "controllers without limits on v1", kernel: kernfstest.NewV1(kernfstest.Without("rdma")), edit: func(f *config.File) {
			f.Blkio.Enabled, f.NetCls.Enabled, f.PerfEvent.Enabled, f.RDMA.Enabled = true, true, true, true
		}, want: []want{{"blkio controller", "ok", "each job has a cgroup in it", ""}, {"net_cls controller", "ok", "each job", ""}, {"perf_event controller", "ok", "each job", ""},
			{"rdma controller", "impossible", "the kernel has none", "CONFIG_CGROUP_RDMA"}, {"net_prio controller", "", "", ""}}, blocks: []string{"rdma controller"}},
		{name: "controllers without limits on v2", kernel: kernfstest.NewV2(), pass: all, edit: func(f *config.File) {
			f.Blkio.Enabled, f.NetCls.Enabled, f.PerfEvent.Enabled, f.RDMA.Enabled = true, true, true, true
		}, want: []want{{"blkio controller", "ok", "it is io on cgroup v2", ""}, {"perf_event controller", "ok", "each cgroup of the v2 tree is in it", ""},
			{"net_cls controller", "impossible", "cgroup v2 has no such controller, and that of v1 is not mounted", "by the path of a job's cgroup"},
			{"rdma controller", "impossible", "does not pass it down", `enable_controllers = ["rdma"]`}}, blocks: []string{"net_cls controller", "rdma controller"}},
		{name: "settings of v1 on v1", kernel: kernfstest.NewV1(), edit: func(f *config.File) {
			f.Cpuset.MemHardwall, f.Cpuset.MemorySpreadPage, f.Memory.SoftLimit, f.Memsw.Enabled, f.Memsw.ManageCgswap = true, true, true, false, true
		}, want: []want{{"mem_hardwall", "", "", ""}, {"memory_spread_page", "", "", ""}, {"soft_limit", "ok", "without [memsw], its limit", ""},
			{"manage_cgswap", "degraded", "[memsw] is not enabled", "enabled = true"}}},
		{name: "settings of v1 on v2", kernel: kernfstest.NewV2(), pass: all, edit: func(f *config.File) {
			f.Cpuset.MemHardwall, f.Cpuset.MemorySpreadPage, f.Memory.SoftLimit = true, true, true
		}, want: []want{{"mem_hardwall", "impossible", "cgroup v2 has no such flag", "v1"}, {"memory_spread_page", "impossible", "cgroup v2 has no such flag", "numactl"},
			{"soft_limit", "ok", "vmem its limit", ""}}},
		{name: "no soft limit", kernel: kernfstest.NewV1(kernfstest.Without("memory.soft_limit_in_bytes")), edit: func(f *config.File) { f.Memory.SoftLimit = true },
			want: []want{{"soft_limit", "impossible", "this kernel has no soft limit", "soft_limit = false"}}, blocks: []string{"soft_limit"}},
		{name: "a controller that is none", kernel: kernfstest.NewV2(), pass: all, edit: func(f *config.File) { f.Cgroup.EnableControllers = []string{"io", "hugtelb"} },
			want: []want{{"enable_controllers", "impossible", "hugtelb: the v2 tree has no such controller", "take it out"}}, blocks: []string{"enable_controllers"}},
		{name: "no such device", kernel: kernfstest.NewV2(), pass: all, edit: func(f *config.File) {
			f.IO.Enabled, f.IO.Max = true, []string{"/dev/nope rbps=1mb", "/dev/null rbps=1mb", "8:0 rbps=1mb", "8:0 wbps=1mb"}
		}, want: []want{{"io.max", "impossible", "/dev/nope: no such file or directory", "lsblk"}, {"io.max", "impossible", "/dev/null is no block device", ""},
			{"io.max", "impossible", "8:0 has a limit already", ""}}, blocks: []string{"io.max"}},
		{name: "nothing has run", kernel: kernfstest.NewV2(), want: []want{{"cgroup.kill", "unknown", "once the daemon", "start"}, {"isolated cpus", "unknown", "once the daemon", ""}},
			blocks: []string{"cpu controller", "cpuset controller", "memory controller"}}, // nobody passes them down here
		{name: "time limits", kernel: kernfstest.NewV2(), pass: all, want: []want{
			{"walltime", "ok", "no limit if it asks for none; warnings @300; SIGTERM at the end and SIGKILL 30s later; under pbs_mom 5m after", ""}, {"cput", "ok", "enforced", ""}}},
		{name: "a node's own time limits", kernel: kernfstest.NewV1(), edit: func(f *config.File) {
			w := &f.Walltime
			w.Maximum, w.Overtime, w.Grace, w.Signals = config.Duration(48*time.Hour), config.Duration(90*time.Second), config.Duration(time.Minute), nil
		}, want: []want{{"walltime", "ok", "what it asks for, 48h at most; 1m30s of overtime; no warning unless it asks for one; SIGTERM at the end and SIGKILL 1m later", ""}}},
		{name: "nobody counts cpu time", kernel: kernfstest.NewV1(kernfstest.Without("cpuacct")), want: []want{{"cput", "impossible", "no cpuacct controller", "mount"}}},
		{name: "no time limits", kernel: kernfstest.NewV1(kernfstest.Without("cpuacct")), edit: func(f *config.File) { f.Walltime.Enabled = false },
			want: []want{{"walltime", "ok", "not enabled", ""}, {"cput", "", "", ""}}},
		{name: "nothing left for jobs", kernel: kernfstest.NewV2(), pass: all, edit: func(f *config.File) { f.Cpuset.ExcludeCPUs, f.Memory.ReserveAmount = "0-7", 1<<40 },
			want: []want{{"cpus", "impossible", "all of them", "exclude_cpus"}, {"memory", "impossible", "all of it is reserved", "[memory]"}}, blocks: []string{"cpus", "memory"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			roots := tt.kernel.Roots()
			if tt.pass != nil {
				passDown(t, roots, tt.pass...)
			}
			found := look(t, roots, tt.edit)
			for _, w := range tt.want {
				f := found[w.what]
				if f.Status != w.status || !strings.Contains(f.Found, w.found) || !strings.Contains(f.Advice, w.advice) {
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

func TestDoctorWhyNot(t *testing.T) {
	k := func(name string, edit func(*kernel)) (found, advice string) {
		roots := kernfstest.NewV1(kernfstest.Without("memory")).Roots()
		cfg := config.Default()
		cfg.Cgroup.Systemd = "off"
		k, err := lookAt(roots, cfg)
		if err != nil {
			t.Fatal(err)
		}
		edit(k)
		return k.whyNot(name)
	}
	for _, tt := range []struct {
		known, bound  string
		found, advice string
	}{
		{"0", "0", "disabled at boot", "cgroup_enable=memory"},
		{"1", "0", "not mounted", "mount -t cgroup -o memory none /sys/fs/cgroup/memory"},
		{"1", "7", "bound to a v1 hierarchy that is not mounted below", "cgroup_no_v1=memory"},
		{"", "", "the kernel has none", "CONFIG_MEMCG"},
	} {
		found, advice := k("memory", func(k *kernel) {
			delete(k.known, "memory")
			if tt.known != "" {
				k.known["memory"], k.bound["memory"] = tt.known, tt.bound
			}
		})
		if !strings.Contains(found, tt.found) || !strings.Contains(advice, tt.advice) {
			t.Errorf("%+v: %q, %q", tt, found, advice)
		}
	}
}

func TestDoctorNamespace(t *testing.T) {
	k := &kernel{mounts: []cgroupMount{{point: "/sys/fs/cgroup", root: "/", v2: true}}}
	if f, odd := k.examineNamespace(initialCgroupNamespace); odd {
		t.Errorf("a plain node: %+v", f)
	}
	if f, odd := k.examineNamespace("cgroup:[4026532999]"); !odd || f.Status != statusDegraded || !strings.Contains(f.Advice, "--cgroupns=host") {
		t.Errorf("a cgroup namespace: %+v, %t", f, odd)
	}
	k.mounts[0].root = "/docker/abc"
	if f, odd := k.examineNamespace(""); !odd || !strings.Contains(f.Found, "/docker/abc") {
		t.Errorf("a bind mount: %+v, %t", f, odd)
	}
}

func TestDoctorNesting(t *testing.T) {
	fake := kernfstest.NewV2()
	roots := fake.Roots()
	passDown(t, roots, "memory")
	below, err := roots.Cgroup.Sub("system.slice")
	if err != nil {
		t.Fatal(err)
	}
	k := &kernel{v2: roots.Cgroup, mounts: []cgroupMount{{point: "/sys/fs/cgroup", root: "/", v2: true}}}
	if f, odd := k.examineNesting(); odd {
		t.Errorf("a plain node: %+v", f)
	}
	k.v2 = below
	if f, odd := k.examineNesting(); !odd || f.Blocks || !strings.Contains(f.Found, "lies below something else") {
		t.Errorf("a part of a tree: %+v, %t", f, odd)
	}
	fake.Spawn("system.slice")
	if f, odd := k.examineNesting(); !odd || !strings.Contains(f.Advice, "Delegate=yes") || !strings.Contains(f.Found, "processes in it") {
		t.Errorf("with processes in its root: %+v, %t", f, odd)
	}
	k.mounts[0].readOnly = true
	if f, odd := k.examineNesting(); !odd || !f.Blocks {
		t.Errorf("read-only: %+v, %t", f, odd)
	}
}

func TestDoctorSystemd(t *testing.T) {
	base := manager{mode: "auto", unit: "pbs_jobs.service", running: true, version: 252, active: true, made: true, delegated: true}
	for _, tt := range []struct {
		name   string
		edit   func(*manager)
		status []string
		text   string
		blocks bool
	}{
		{"as it should be", func(*manager) {}, []string{"ok", "ok"}, "active and delegated", false},
		{"not there", func(m *manager) { m.running = false }, []string{"ok"}, "plain directories", false},
		{"required", func(m *manager) { m.running, m.mode = false, "require" }, []string{"impossible"}, `systemd = "require"`, true},
		{"off", func(m *manager) { m.mode = "off" }, []string{"degraded"}, "daemon-reload", false},
		{"silent", func(m *manager) { m.err = errors.New("no answer within 10s") }, []string{"impossible"}, "no answer", true},
		{"old", func(m *manager) { m.version = 219 }, []string{"degraded", "ok"}, "219", false},
		{"no unit yet", func(m *manager) { m.active, m.made, m.delegated = false, false, false }, []string{"ok", "ok"}, "is made when", false},
		{"made by hand", func(m *manager) { m.active = false }, []string{"ok", "degraded"}, "not active", false},
		{"without Delegate", func(m *manager) { m.delegated = false }, []string{"ok", "impossible"}, "Delegate=yes", true},
	} {
		m := base
		tt.edit(&m)
		var status []string
		text, blocks := "", false
		for _, f := range m.examine() {
			status, text, blocks = append(status, f.Status), text+f.Found+" ", blocks || f.Blocks
		}
		if !slices.Equal(status, tt.status) || !strings.Contains(text, tt.text) || blocks != tt.blocks {
			t.Errorf("%s: %v, %q, blocks %t", tt.name, status, text, blocks)
		}
	}
}

func TestDoctorRights(t *testing.T) {
	all := ^uint64(0)
	for _, tt := range []struct {
		rights rights
		want   []string
		blocks bool
	}{
		{rights{uid: 0, capabilities: all, known: true}, []string{"user", "capabilities"}, false},
		{rights{uid: 1000, capabilities: 0, known: true}, []string{"user"}, false},
		{rights{uid: 1000, daemon: 7, capabilities: all &^ (1 << unix.CAP_SYSLOG), known: true}, []string{"user", "CAP_SYSLOG"}, false}, // the daemon's are told to anybody
		{rights{uid: 0, capabilities: 0, known: false}, []string{"user"}, false},
		{rights{uid: 0, capabilities: all &^ (1 << unix.CAP_SYS_RESOURCE), known: true}, []string{"user", "CAP_SYS_RESOURCE"}, false},
		{rights{uid: 0, capabilities: all &^ (1 << unix.CAP_BPF), known: true}, []string{"user", "capabilities"}, false},
		{rights{uid: 0, capabilities: all &^ (1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_KILL), known: true}, []string{"user", "CAP_SYS_ADMIN", "CAP_KILL"}, true},
	} {
		var names []string
		blocks := false
		for _, f := range examineRights(tt.rights) {
			names, blocks = append(names, f.What), blocks || f.Blocks
		}
		if !slices.Equal(names, tt.want) || blocks != tt.blocks {
			t.Errorf("%+v: %v, blocks %t, want %v, %t", tt.rights, names, blocks, tt.want, tt.blocks)
		}
	}
}

// Without CAP_SYS_RESOURCE limits of what pbs_mom starts can be lowered, so no finding blocks.
func TestDoctorRlimits(t *testing.T) {
	without := rights{uid: 0, known: true}
	for _, tt := range []struct {
		name   string
		rights rights
		edit   func(*config.File)
		memsw  bool
		status string // "" for no finding
		blocks bool
	}{
		{"with it", rights{uid: 0, known: true, capabilities: 1 << unix.CAP_SYS_RESOURCE}, func(f *config.File) { f.Rlimits.Nofile = "100" }, true, "", false},
		{"another user looks", rights{uid: 1000, known: true}, func(f *config.File) { f.Rlimits.Nofile = "100" }, true, "", false},
		{"nothing configured", without, nil, true, "", false},
		{"rlimits", without, func(f *config.File) { f.Rlimits.Nofile = "100" }, false, "degraded", false},
		{"RLIMIT_AS is limited", rights{uid: 0, known: true, limitedAS: true}, nil, true, "degraded", false},
		{"RLIMIT_AS is limited, vmem is not", rights{uid: 0, known: true, limitedAS: true}, nil, false, "", false},
		{"RLIMIT_AS is left alone", rights{uid: 0, known: true, limitedAS: true}, func(f *config.File) { f.Memory.ManageRlimitAS = false }, true, "", false},
	} {
		cfg := config.Default()
		if tt.edit != nil {
			tt.edit(cfg)
		}
		f, odd := examineRlimits(tt.rights, cfg, tt.memsw)
		if odd != (tt.status != "") || f.Status != tt.status || f.Blocks != tt.blocks || odd && !strings.Contains(f.Advice, "CapabilityBoundingSet") {
			t.Errorf("%s: %+v, %t, want %q, blocks %t", tt.name, f, odd, tt.status, tt.blocks)
		}
	}
}

func TestDoctorCalls(t *testing.T) {
	for _, tt := range []struct {
		calls calls
		want  [2]string
	}{
		{calls{}, [2]string{"ok", "ok"}},
		{calls{pidfd: unix.ENOSYS, clone3: unix.ENOSYS}, [2]string{"degraded", "degraded"}},
		{calls{clone3: unix.EPERM}, [2]string{"ok", "degraded"}},
	} {
		for i, f := range examineCalls(tt.calls) {
			if f.Status != tt.want[i] {
				t.Errorf("%+v: %+v, want %s", tt.calls, f, tt.want[i])
			}
		}
	}
	if c := probeCalls(); c.pidfd != nil && !errors.Is(c.pidfd, unix.ENOSYS) {
		t.Errorf("%+v", c)
	}
}

// Each device has a row of its own, which says what and where it is.
func TestDoctorInventory(t *testing.T) {
	gpu := func(pci, uuid, model string, memory int64, numa int) topology.Device {
		return topology.Device{ID: cmp.Or(uuid, pci), Resource: "ngpus", Model: model, Memory: memory, UUID: uuid, PCI: pci, NUMA: numa}
	}
	inv := &inventory.Inventory{Devices: []topology.Device{
		gpu("0000:07:00.0", "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", "NVIDIA A100-SXM4-40GB", 40<<30, 1),
		gpu("0000:0f:00.0", "MIG-1c9f5d3a-11b2-5d0e-8f5e-2f5d0a5b7c11", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", 5<<30, 11),
		gpu("0000:0f:00.0", "MIG-GPU-8932f937/3/0", "", 0, -1),
		gpu("0000:43:00.0", "", "AMD Instinct MI210", 0, 0),
		{ID: "/dev/fpga0", Resource: "fpga", NUMA: -1},
		{ID: "/dev/board-of-the-lab/fpga1", Resource: "fpga", Model: "U280", NUMA: -1},
	}, Sources: []inventory.Source{{Name: "nvml", Error: "it is broken"}, {Name: "amd"}}}
	c := &cli{state: t.TempDir()}
	if err := inv.Store(c.state); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := writeFindings(&b, c.examineInventory(config.Default())); err != nil {
		t.Fatal(err)
	}
	const want = `ok         devices                4 ngpus, 2 fpga
ok         ngpus 0000:07:00.0     NVIDIA A100-SXM4-40GB 40 GiB NUMA node 1 GPU-8932f937
ok         ngpus 0000:0f:00.0     NVIDIA A100-SXM4-40GB MIG 1g.5gb 5 GiB NUMA node 11 MIG-1c9f5d3a
ok         ngpus 0000:0f:00.0     MIG-GPU-8932f937/3/0
ok         ngpus 0000:43:00.0     AMD Instinct MI210 NUMA node 0
ok         fpga /dev/fpga0        a device that is configured
ok         fpga /dev/board-of-the-lab/fpga1
                                  U280
degraded   devices: nvml          it is broken
                                  → jobs are given what was found: mend it and reload the daemon
`
	if b.String() != want {
		t.Errorf("doctor says\n%swant\n%s", b.String(), want)
	}
}

// What is wrong with the device filter says what would mend it.
func TestDoctorDeviceFilter(t *testing.T) {
	refused := func() error { return errors.New("operation not permitted: it takes CAP_SYS_ADMIN") }
	taken := func() error { return nil }
	for _, tt := range []struct {
		name    string
		boot    func(...kernfstest.Option) *kernfstest.Kernel
		enabled bool
		probe   func() error
		status  string
	}{
		{"v2", kernfstest.NewV2, true, taken, statusOK},
		{"v2, refused", kernfstest.NewV2, true, refused, statusImpossible},
		{"hybrid, refused", kernfstest.NewHybrid, true, refused, statusImpossible},
		{"v1, which asks for no program", kernfstest.NewV1, true, refused, statusOK},
		{"refused, and not wanted", kernfstest.NewV2, false, refused, statusOK},
	} {
		cfg := config.Default()
		cfg.Cgroup.Systemd, cfg.Devices.Enabled = "off", tt.enabled
		k, err := lookAt(tt.boot().Roots(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		f := k.examineDeviceFilter(tt.probe)
		if wrong := tt.status != statusOK; f.Status != tt.status || f.Blocks != wrong || wrong && !strings.Contains(f.Found+f.Advice, "CAP_SYS_ADMIN") {
			t.Errorf("%s: %+v, want %s", tt.name, f, tt.status)
		}
	}
}

func TestDoctorState(t *testing.T) {
	for _, tt := range []struct {
		name   string
		edit   func(*volume)
		status string
		blocks bool
	}{
		{"a disk", func(*volume) {}, "ok", false},
		{"read-only", func(v *volume) { v.readOnly = true }, "impossible", true},
		{"full", func(v *volume) { v.free = 0 }, "impossible", true},
		{"no inodes", func(v *volume) { v.noInodes = true }, "impossible", true},
		{"nearly full", func(v *volume) { v.free = 2 << 20 }, "degraded", false},
		{"no locks", func(v *volume) { v.lock = unix.ENOLCK }, "impossible", true},
		{"NFS", func(v *volume) { v.kind = 0x6969 }, "degraded", false},
		{"tmpfs", func(v *volume) { v.kind = 0x01021994 }, "degraded", false},
		{"anybody's", func(v *volume) { v.foreign = errors.New("mode 0777 lets others write to it") }, "impossible", true},
		{"not made yet", func(v *volume) { v.made = false }, "ok", false},
	} {
		v := volume{dir: "/var/lib/hookhost", path: "/var/lib/hookhost", made: true, kind: 0xef53, free: 1 << 40}
		tt.edit(&v)
		if f := v.examine(); f.Status != tt.status || f.Blocks != tt.blocks || f.Status != "ok" && f.Advice == "" {
			t.Errorf("%s: %+v", tt.name, f)
		}
	}
	if f := examineState(t.TempDir() + "/a/b"); f.Status == statusImpossible && !strings.Contains(f.Found, "full") {
		t.Errorf("%+v", f)
	}
	if v, err := lookAtVolume("/proc/version"); err == nil {
		t.Errorf("a file: %+v", v)
	}
}

func TestDoctorDeviceDirs(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct {
		cdi, dcgm string
		want      []string
	}{
		{"", "", nil},
		{dir + "/made/later", dir, nil},
		{"/etc/passwd/cdi", "", []string{"cdi_dir"}},
		{"/etc/passwd", dir + "/none", []string{"cdi_dir", "dcgm_job_mapping_dir"}},
	} {
		cfg := config.Default()
		cfg.Devices.CDIDir, cfg.Devices.DCGMDir = tt.cdi, tt.dcgm
		var got []string
		for _, f := range examineDeviceDirs(cfg) {
			got = append(got, f.What)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%q, %q: %v, want %v", tt.cdi, tt.dcgm, got, tt.want)
		}
	}
}

func TestDoctorClock(t *testing.T) {
	now := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		uptime string
		now    time.Time
		want   string
	}{{"100.25 180.00\n", now, "ok"}, {"90.00 1.00\n", now, "degraded"}, {"", now, "degraded"}, {"100.0", time.Unix(0, 0), "degraded"}} {
		if f := judgeClock(100*time.Second, tt.uptime, tt.now); f.Status != tt.want {
			t.Errorf("%+v: %+v", tt, f)
		}
	}
}

// The text fits a terminal of 100 columns, whatever was found.
func TestDoctorText(t *testing.T) {
	var b bytes.Buffer
	long := strings.Repeat("some words and /a/path/of/some/length, ", 12)
	err := writeFindings(&b, []finding{ok("cgroups", "v2"), impossible("memory controller", long, long), degraded("hook "+strings.Repeat("x", 30), "not enabled", "do")})
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 100 || strings.HasSuffix(line, " \n") {
			t.Errorf("%d columns: %q", n, line)
		}
	}
	if text := b.String(); !strings.HasPrefix(text, "ok         cgroups                v2\n") || strings.Count(text, "→") != 2 {
		t.Errorf("%s", text)
	}
}
