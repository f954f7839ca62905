package kernfstest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/must"
)

func mustMkdir(t *testing.T, k *Kernel, dirs ...string) {
	t.Helper()
	for _, d := range dirs {
		must.NoError(t, k.Roots().Cgroup.Mkdir(d))
	}
}

func mustWrite(t *testing.T, k *Kernel, file, value string) {
	t.Helper()
	must.NoError(t, k.Roots().Cgroup.Write(file, value))
}

func mustRead(t *testing.T, f *kernfs.FS, file string) string {
	t.Helper()
	b, err := f.ReadFile(file)
	must.NoError(t, err)
	return string(b)
}

func TestMountsOfEachMode(t *testing.T) {
	for _, tt := range []struct {
		name   string
		kernel *Kernel
		dirs   []string
		cgroup string
	}{
		{"v1", NewV1(), []string{"blkio", "cpu,cpuacct", "cpuset", "devices", "freezer", "hugetlb", "memory",
			"net_cls,net_prio", "perf_event", "pids", "rdma", "systemd"},
			"12:rdma:/\n11:perf_event:/\n10:net_cls,net_prio:/\n9:pids:/\n8:hugetlb:/\n7:freezer:/\n6:devices:/\n" +
				"5:memory:/\n4:blkio:/\n3:cpu,cpuacct:/\n2:cpuset:/\n1:name=systemd:/\n"},
		{"hybrid", NewHybrid(Without("blkio", "devices")),
			[]string{"cpu", "cpuacct", "cpuset", "freezer", "memory", "pids", "systemd", "unified"},
			"7:name=systemd:/\n6:pids:/\n5:freezer:/\n4:memory:/\n3:cpuset:/\n2:cpuacct:/\n1:cpu:/\n0::/\n"},
		{"v2", NewV2(), nil, "0::/\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			roots := tt.kernel.Roots()
			dirs, err := roots.Cgroup.Dirs(".")
			must.NoError(t, err)
			must.Equal(t, "directories", tt.dirs, dirs)
			if got := mustRead(t, roots.Proc, "self/cgroup"); got != tt.cgroup {
				t.Errorf("self/cgroup: got %q, want %q", got, tt.cgroup)
			}
			for line := range strings.Lines(mustRead(t, roots.Proc, "self/mountinfo")) {
				at, ok := strings.CutPrefix(strings.Fields(line)[4], "/sys/fs/cgroup")
				if ok && !roots.Cgroup.Exists(strings.TrimPrefix(at, "/")) {
					t.Errorf("mount %s is not there", at)
				}
			}
			if len(tt.dirs) > 0 {
				if err := roots.Cgroup.Mkdir("other"); !errors.Is(err, unix.EROFS) {
					t.Errorf("mkdir beside the hierarchies: got %v, want EROFS", err)
				}
			}
		})
	}
}

func TestLinkedControllersAreOneHierarchy(t *testing.T) {
	k := NewV1()
	mustMkdir(t, k, "cpu/job")
	cgroup := k.Roots().Cgroup
	if got := mustRead(t, cgroup, "cpuacct/job/cpu.shares"); got != "1024\n" {
		t.Errorf("through the other link: %q", got)
	}
}

func TestWithoutRemovesFilesAndControllers(t *testing.T) {
	for _, tt := range []struct {
		name   string
		kernel *Kernel
		gone   []string
		there  []string
	}{
		{"file", NewV2(Without("cgroup.kill", "memory.peak")), []string{"job/cgroup.kill", "job/memory.peak"},
			[]string{"job/cgroup.freeze", "job/memory.max", "job/memory.swap.peak"}},
		{"swap", NewV2(Without("swap")), []string{"job/memory.swap.max", "job/memory.swap.current"},
			[]string{"job/memory.max"}},
		{"swap v1", NewV1(Without("swap")), []string{"memory/job/memory.memsw.limit_in_bytes"},
			[]string{"memory/job/memory.limit_in_bytes"}},
		{"controller", NewHybrid(Without("pids")), []string{"pids"}, []string{"memory/job/memory.stat"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cgroup := tt.kernel.Roots().Cgroup
			if tt.kernel.top == "cgroup2" {
				mustWrite(t, tt.kernel, "cgroup.subtree_control", "+memory")
				mustMkdir(t, tt.kernel, "job")
			} else {
				mustMkdir(t, tt.kernel, "memory/job")
			}
			for _, f := range tt.gone {
				if cgroup.Exists(f) {
					t.Errorf("%s is there", f)
				}
			}
			for _, f := range tt.there {
				if !cgroup.Exists(f) {
					t.Errorf("%s is not there", f)
				}
			}
		})
	}
}

func TestJournalAndFail(t *testing.T) {
	k := NewV1()
	cgroup := k.Roots().Cgroup
	mustMkdir(t, k, "memory/job")
	heal := k.Fail("write", "memory.limit_in_bytes", unix.EIO)
	if err := cgroup.Write("memory/job/memory.limit_in_bytes", "64M"); !errors.Is(err, unix.EIO) {
		t.Errorf("write: got %v, want EIO", err)
	}
	heal()
	mustWrite(t, k, "memory/job/memory.limit_in_bytes", "64M")
	healRead := k.Fail("read", "memory.stat", unix.EIO)
	if _, err := cgroup.ReadFile("memory/job/memory.stat"); !errors.Is(err, unix.EIO) {
		t.Errorf("read: got %v, want EIO", err)
	}
	healRead()
	if err := cgroup.Rmdir("memory/none"); !errors.Is(err, unix.ENOENT) {
		t.Errorf("rmdir: got %v, want ENOENT", err)
	}
	var got []string
	for _, op := range k.Journal() {
		got = append(got, op.String())
	}
	want := []string{
		"mkdir memory/job",
		`write memory/job/memory.limit_in_bytes "64M": input/output error`,
		`write memory/job/memory.limit_in_bytes "64M"`,
		"rmdir memory/none: no such file or directory",
	}
	must.Equal(t, "journal", want, got)
	if k.ResetJournal(); len(k.Journal()) != 0 {
		t.Error("journal after the reset")
	}
}

func TestProcShowsAProcess(t *testing.T) {
	k := NewHybrid()
	mustMkdir(t, k, "memory/job", "cpuset/job")
	mustWrite(t, k, "cpuset/job/cpuset.cpus", "1,5")
	mustWrite(t, k, "cpuset/job/cpuset.mems", "0")
	pid := k.Spawn("memory/job", "cpuset/job")
	k.SetProcess(pid, Attributes{Comm: "a) b (c", UID: 1000})
	k.Charge(pid, Memory{Anon: 1 << 20, Shmem: 4096})
	k.Burn(pid, 1500*time.Millisecond)

	proc := k.Roots().Proc
	dir := fmt.Sprint(pid)

	stat := mustRead(t, proc, dir+"/stat")
	if want := fmt.Sprintf("%[1]d (a) b (c) S 1 %[1]d %[1]d ", pid); !strings.HasPrefix(stat, want) {
		t.Errorf("stat: %q does not begin with %q", stat, want)
	}
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) != 50 || fields[11] != "150" || fields[19] == "0" || fields[21] != "257" {
		t.Errorf("stat: %d fields behind the name: %q", len(fields), fields)
	}
	status := mustRead(t, proc, dir+"/status")
	for _, want := range []string{"Uid:\t1000\t1000\t1000\t1000\n", "RssAnon:\t    1024 kB\n",
		"RssShmem:\t       4 kB\n", "Cpus_allowed_list:\t1,5\n", "Mems_allowed_list:\t0\n"} {
		if !strings.Contains(status, want) {
			t.Errorf("status: no %q in\n%s", want, status)
		}
	}
	if got := mustRead(t, proc, dir+"/cgroup"); !strings.Contains(got, ":memory:/job\n") {
		t.Errorf("cgroup: %q", got)
	}
	k.Zombie(pid)
	if stat := mustRead(t, proc, dir+"/stat"); !strings.Contains(stat, ") Z ") {
		t.Errorf("stat of a zombie: %q", stat)
	}
	k.Exit(pid)
	if proc.Exists(dir) {
		t.Error("a process that was reaped is there")
	}
}

func TestMachineHasItsTopology(t *testing.T) {
	k := NewV2()
	sys := k.Roots().Sys
	for file, want := range map[string]string{
		"devices/system/cpu/online":                             "0-7\n",
		"devices/system/cpu/cpu5/topology/thread_siblings_list": "1,5\n",
		"devices/system/cpu/cpu5/topology/physical_package_id":  "0\n",
		"devices/system/node/online":                            "0-1\n",
		"devices/system/node/node1/cpulist":                     "2-3,6-7\n",
		"devices/system/node/node1/distance":                    "20 10\n",
	} {
		if got := mustRead(t, sys, file); got != want {
			t.Errorf("%s: got %q, want %q", file, got, want)
		}
	}
}

// Nothing may be built on the absence of what could not be opened.
func TestAFileThatCannotBeOpenedIsThere(t *testing.T) {
	k := NewV2()
	cgroups := k.Roots().Cgroup
	defer k.Fail("open", "cgroup.procs", unix.EMFILE)()
	if !cgroups.Exists("cgroup.procs") {
		t.Error("a process without descriptors finds no file")
	}
	if cgroups.Exists("job/cgroup.procs") {
		t.Error("a file is in a directory that is not there")
	}
}
