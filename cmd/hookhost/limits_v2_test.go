package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// These tests read what a job's limits are from the kernel's files, and try each on a program that
// does not respect it.

// needV2 skips where a controller is not on v2. Whether the root passes it down is for hookhost to
// see to, or for systemd.
func needV2(t *testing.T, controllers ...string) {
	t.Helper()
	kernfstest.NeedV2(t)
	there, err := os.ReadFile("/sys/fs/cgroup/cgroup.controllers")
	if err != nil {
		kernfstest.Elsewhere(t, "cgroup v2 is not mounted at /sys/fs/cgroup: %v", err)
	}
	for _, c := range controllers {
		if !slices.Contains(strings.Fields(string(there)), c) {
			kernfstest.Elsewhere(t, "the %s controller is not on v2", c)
		}
	}
}

// limit reads a file of the job's cgroup, without what ends its line.
func (n *node) limit(id, file string) string {
	n.t.Helper()
	b, err := os.ReadFile(filepath.Join(n.memoryDir(id), file))
	must.NoError(n.t, err)
	return strings.TrimSpace(string(b))
}

// hold runs a job that lives until the test ends it.
func (n *node) hold(id string, asks ...string) *background {
	n.t.Helper()
	args := []string{"run", "--job", id, "--report=json"}
	for _, a := range asks {
		args = append(args, "-l", a)
	}
	return n.start(append(args, "--", "sh", "-c", "echo started; read x; exit 0")...)
}

func (b *background) end(t *testing.T) usageReport {
	t.Helper()
	b.stdin.Close()
	return b.report(t)
}

// wantLimits compares files of the job's cgroup with what they are to say.
func (n *node) wantLimits(id string, want map[string]string) {
	n.t.Helper()
	got := map[string]string{}
	for file := range want {
		got[file] = n.limit(id, file)
	}
	must.Equal(n.t, fmt.Sprintf("limits of %s", id), want, got)
}

// disk is the numbers of the whole disk that a folder is on.
func disk(t *testing.T, dir string) string {
	t.Helper()
	var st unix.Stat_t
	must.NoError(t, unix.Stat(dir, &st))
	numbers := fmt.Sprintf("%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev))
	if exists("/sys/dev/block/" + numbers + "/partition") {
		b, err := os.ReadFile("/sys/dev/block/" + numbers + "/../dev")
		must.NoError(t, err)
		return strings.TrimSpace(string(b))
	}
	if !exists("/sys/dev/block/" + numbers) {
		kernfstest.Elsewhere(t, "%s is on no disk", dir)
	}
	return numbers
}

// pages reserves huge pages of the default size, which has to be 2 MiB, until the test ends.
func pages(t *testing.T, n int) {
	t.Helper()
	const file = "/proc/sys/vm/nr_hugepages"
	before, err := os.ReadFile(file)
	if err != nil || !exists("/sys/kernel/mm/hugepages/hugepages-2048kB") {
		kernfstest.Elsewhere(t, "no huge pages of 2 MiB: %v", err)
	}
	must.NoError(t, os.WriteFile(file, []byte(strconv.Itoa(n)), 0))
	t.Cleanup(func() { os.WriteFile(file, before, 0) })
	if b, _ := os.ReadFile(file); strings.TrimSpace(string(b)) != strconv.Itoa(n) {
		t.Fatalf("%s huge pages, want %d", b, n)
	}
}

// swap adds a file on the node's disk as swap until the test ends.
func swap(t *testing.T, n *node, mib int) {
	t.Helper()
	file := n.path("swap")
	for _, args := range [][]string{{"dd", "if=/dev/zero", "of=" + file, "bs=1M", "count=" + strconv.Itoa(mib)},
		{"chmod", "600", file},
		{"mkswap", file}, {"swapon", file}} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			if args[0] == "swapon" {
				kernfstest.Skip(t, "%s: %v", out, err)
			}
			t.Fatalf("%v: %v: %s", args, err, out)
		}
	}
	t.Cleanup(func() {
		if out, err := exec.Command("swapoff", file).CombinedOutput(); err != nil {
			t.Errorf("swapoff: %v: %s", err, out)
		}
	})
}

// A job with everything has each limit in the kernel's files, and the next job has its own.
func TestLimitsV2(t *testing.T) {
	needV2(t, "memory", "cpu", "pids", "io")
	pages(t, 8)
	device := disk(t, os.TempDir())
	n := newNode(t, `enable_controllers = ["hugetlb"]`, "[cpu]", "enforce_per_period_quota = true", "[memory]",
		"high_percent = 90", "[hugetlb]",
		"enabled = true", "[pids]", "max = 500", "[host]", `start_timeout = "1m"`, "[io]", "enabled = true",
		fmt.Sprintf("max = [%q]", device+" rbps=4mb wbps=2mb wiops=900"))
	n.serve()
	first := n.hold("1.all", "ncpus=1", "mem=64mb", "hpmem=4mb", "vmem=96mb", "pids=100")
	// pbs_cgroups gives 1000 shares to a cpu, of which 1024 are weight 100.
	n.wantLimits("1.all", map[string]string{
		"memory.max": "67108864", "memory.high": "60395520", "memory.oom.group": "1", "cpu.weight": "98",
		"cpu.max": "103000 100000", "pids.max": "100",
		"memory.swap.max": "33554432", "hugetlb.2MB.max": "4194304", "hugetlb.2MB.rsvd.max": "4194304",
		"io.max": device + " rbps=4194304 wbps=2097152 riops=max wiops=900",
	})
	one := n.limit("1.all", "cpuset.cpus")
	if _, err := strconv.Atoi(one); err != nil || n.limit("1.all", "cpuset.cpus.effective") != one {
		t.Errorf("cpuset %q, in force %q; want one cpu", one, n.limit("1.all", "cpuset.cpus.effective"))
	}
	second := n.hold("2.all", "select=1:ncpus=1:mem=32mb", "oom_group=false")
	n.wantLimits("2.all", map[string]string{"memory.max": "33554432", "memory.high": "30195712",
		"memory.oom.group": "0", "pids.max": "500", "memory.swap.max": "0"})
	if other := n.limit("2.all", "cpuset.cpus"); other == one {
		t.Errorf("both jobs have cpu %s", one)
	}
	second.end(t)
	first.end(t)
}

// Swap is bounded by what vmem is more than mem; a job that works at its limit says so in its
// report.
func TestSwapV2(t *testing.T) {
	needV2(t, "memory")
	n := newNode(t)
	swap(t, n, 160)
	const touch = `
import mmap, sys
size = int(sys.argv[1]) << 20
m = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
m.madvise(15) # MADV_NOHUGEPAGE
for round in range(int(sys.argv[2])):
    for at in range(0, size, 4096):
        m[at] = round + 1
max = open("/sys/fs/cgroup" + open("/proc/self/cgroup").read().split("::")[1].strip() + "/memory.swap.max").read()
print(max, end="")
`
	run := func(mib, rounds int) result {
		t.Helper()
		return n.hookhost("run", "-l", "ncpus=1", "-l", "mem=48mb", "-l", "vmem=112mb", "--report=json", "--",
			"python3", "-c", touch, strconv.Itoa(mib), strconv.Itoa(rounds))
	}
	// A page that is back in memory may keep its place in swap (vm_swap_full). All of them
	// together are less than 64 MiB.
	r := run(54, 4)
	if r.status != 0 || r.stdout != "67108864\n" {
		t.Errorf("within vmem: status %d, memory.swap.max %q, want 64 MiB", r.status, r.stdout)
	}
	for _, h := range r.report(t).Hosts {
		if h.MajorFaults == nil || *h.MajorFaults < 300 {
			t.Errorf("major faults %v of a job that swaps", h.MajorFaults)
		}
		if h.Pressure == nil || h.Pressure.MemorySome == nil || *h.Pressure.MemorySome <= 0 {
			t.Errorf("memory pressure %+v of a job that swaps", h.Pressure)
		} else {
			t.Logf("major faults %d, memory pressure %+v s", *h.MajorFaults, *h.Pressure.MemorySome)
		}
	}
	if r := run(200, 1); r.status != 137 {
		t.Errorf("beyond vmem: status %d, want 137", r.status)
	}
}

// A quota holds a job back although cpus are idle, and the report says for how long.
func TestQuotaV2(t *testing.T) {
	needV2(t, "cpu")
	n := newNode(t, "[cpu]", "enforce_per_period_quota = true", "zero_cpus_quota_fraction = 0.25")
	const burn = "import time\nend = time.monotonic() + 4\nwhile time.monotonic() < end: pass"
	r := n.hookhost("run", "-l", "select=1:ncpus=0:mem=64mb", "--report=json", "--", "python3", "-c", burn)
	for _, h := range r.report(t).Hosts {
		if h.ThrottledSeconds == nil || *h.ThrottledSeconds <= 1 {
			t.Errorf("throttled for %v s", h.ThrottledSeconds)
		}
		rep := r.report(t)
		ran := rep.End.Sub(rep.Start).Seconds()
		if h.CPUTSeconds == nil || *h.CPUTSeconds > ran/4+0.2 {
			t.Errorf("%v s of cpu time in %v s", *h.CPUTSeconds, ran)
		}
		t.Logf("throttled %v s, cput %v s in %v s", *h.ThrottledSeconds, *h.CPUTSeconds, ran)
	}
}

// pids.max ends a fork bomb's growth, and nothing else on the node does.
func TestPidsV2(t *testing.T) {
	needV2(t, "pids")
	n := newNode(t, "[pids]", "max = 100")
	const bomb = `
import os, signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
children = 0
try:
    while children < 1000:
        if os.fork() == 0: signal.pause()
        children += 1
except BlockingIOError as e:
    print(e.errno, children, flush=True)
`
	for asked, want := range map[string]int{"pids=20": 20, "pids=1000": 100} {
		r := n.hookhost("run", "-l", "ncpus=1", "-l", asked, "--report=json", "--", "python3", "-c", bomb)
		var errno, children int
		if _, err := fmt.Sscan(r.stdout, &errno, &children); err != nil || syscall.Errno(errno) != syscall.EAGAIN ||
			children < want-5 || children >= want {
			t.Errorf("%s: %q; want EAGAIN at %d tasks", asked, r.stdout, want)
		}
		for _, h := range r.report(t).Hosts {
			if h.PidsPeak != nil && (*h.PidsPeak > int64(want) || *h.PidsPeak <= int64(children)) {
				t.Errorf("%s: peak %d of %d", asked, *h.PidsPeak, want)
			}
		}
	}
}

// io.max is in force: what a job writes and reads takes as long as it has to.
func TestIOMaxV2(t *testing.T) {
	needV2(t, "io")
	device := disk(t, os.TempDir())
	dd := func(n *node) time.Duration {
		t.Helper()
		file := n.path("written")
		script := fmt.Sprintf("dd if=/dev/zero of=%[1]s bs=1M count=12 oflag=direct && dd if=%[1]s of=/dev/null "+
			"bs=1M iflag=direct", file)
		start := time.Now()
		if r := n.hookhost("run", "-l", "ncpus=1", "--report=none", "--", "sh", "-c", script); r.status != 0 {
			t.Fatal(r)
		}
		return time.Since(start)
	}
	without := newNode(t)
	limited := newNode(t, "[io]", "enabled = true", fmt.Sprintf("max = [%q]", device+" rbps=6mb wbps=4mb"))
	for try := 1; ; try++ { // others use the disk and the cpus
		free, held := dd(without), dd(limited)
		t.Logf("12 MiB written and read: %v; at 4 and 6 MiB/s: %v", free, held)
		// 3 s and 2 s; the kernel lets the first slice through at once.
		if held < 4*time.Second {
			t.Fatalf("it took %v, want some 5 s", held)
		}
		if held >= free+2*time.Second {
			return
		}
		if try == 5 {
			t.Fatalf("it took %v, without a limit %v; want some 5 s", held, free)
		}
	}
}

// A job has the huge pages that it asked for: mmap of more fails.
func TestHugetlbV2(t *testing.T) {
	needV2(t)
	pages(t, 8)
	n := newNode(t, `enable_controllers = ["hugetlb"]`, "[hugetlb]", "enabled = true")
	const take = `
import mmap, sys
for pages in 2, 3:
    try:
        m = mmap.mmap(-1, pages << 21, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40000) # MAP_HUGETLB
        for at in range(0, pages << 21, 4096): m[at] = 1
        m.close()
        print(pages)
    except OSError as e:
        print(e.errno)
`
	for asked, want := range map[string]string{"hpmem=4mb": "2\n12\n", "hpmem=0": "12\n12\n", "hpmem=16mb": "2\n3\n"} {
		if r := n.hookhost("run", "-l", "select=1:ncpus=1:mem=64mb:"+asked, "--report=none", "--", "python3", "-c",
			take); r.status != 0 || r.stdout != want {
			t.Errorf("%s: status %d, %q, want %q", asked, r.status, r.stdout, want)
		}
	}
	if r := n.hookhost("run", "-l", "select=1:ncpus=1:mem=64mb:hpmem=18mb", "--report=none", "--",
		"true"); r.status != 125 ||
		!strings.Contains(r.stderr, "hpmem limit (18432kb) exceeds available (16384kb)") {
		t.Errorf("more than there are: status %d, %q", r.status, r.stderr)
	}
}

// The kernel kills all of a job, or one process of it where the job or the node wants that.
func TestOOMGroupV2(t *testing.T) {
	needV2(t, "memory")
	const eat = "sleep 60 & s=$!; python3 -c 'bytearray(200<<20)'; echo $?; kill -0 $s && echo lives; kill $s"
	for _, tt := range []struct {
		name, config string
		asks         []string
		group        bool
	}{
		{"as it is", "", nil, true},
		{"the job's word", "", []string{"-l", "oom_group=false"}, false},
		{"the node's word", "[memory]\noom_group = false", nil, false},
		{"the job's against the node's", "[memory]\noom_group = false", []string{"-l", "oom_group=true"}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t, tt.config)
			args := append(append([]string{"run", "-l", "select=1:ncpus=1:mem=48mb", "--report=json"}, tt.asks...),
				"--", "sh", "-c", eat)
			r := n.hookhost(args...)
			if group := r.status == 137 && r.stdout == ""; group != tt.group || !group && r.stdout != "137\nlives\n" {
				t.Errorf("status %d, %q; all of it: want %v", r.status, r.stdout, tt.group)
			}
			for _, h := range r.report(t).Hosts {
				if h.OOMKills == nil || *h.OOMKills < 1 {
					t.Errorf("report: %v kills", h.OOMKills)
				}
			}
		})
	}
}

// Memory that a job uses is not taken from it while it grows either. A refused resize changes
// nothing, and the job never notices.
func TestResizeWhileGrowingV2(t *testing.T) {
	needV2(t, "memory", "pids")
	n := newNode(t, "[host]\nnode = \"n1\"")
	n.serve()
	const grow = `
import sys, time
held = [bytearray(40 << 20)]
print("started", flush=True)
for i in range(60):
    held.append(bytearray(1 << 20))
    time.sleep(0.05)
sys.stdin.read()
`
	job := n.start("run", "--job", "1.grows", "-l", "select=1:ncpus=1:mem=200mb", "--report=json", "--", "python3",
		"-c", grow)
	had := 200
	resize := func(mib int, more string) result {
		t.Helper()
		return n.send("execjob_resize",
			fmt.Sprintf(`{"job": {"id": "1.grows", "exec_vnode": "(n1:ncpus=1:mem=%dmb)", "resource_list": {"ncpus": "1", "mem": "%[1]dmb"%s}}}`, mib, more))
	}
	for _, to := range []int{38, 190, 30, 160, 39, 20, 140, 35, 180} {
		switch r := resize(to, ""); {
		case to < 40 && (r.status != 1 ||
			!strings.Contains(r.stdout+r.stderr,
				fmt.Sprintf("mem requested (%dkb) is below what the job uses (", to<<10))):
			t.Errorf("to %d MiB: %+v, want it refused", to, r)
		case to > 40 && r.status != 0:
			t.Errorf("to %d MiB: %+v", to, r)
		case to > 40:
			had = to
		}
		n.wantLimits("1.grows", map[string]string{"memory.max": strconv.Itoa(had << 20), "memory.high": "max",
			"cgroup.freeze": "0"})
	}
	if events := n.limit("1.grows", "memory.events"); !strings.Contains(events, "oom_kill 0") {
		t.Errorf("memory.events: %s", events)
	}
	for _, want := range []string{"50", "70", "20"} {
		if r := resize(190, `, "pids": "`+want+`"`); r.status != 0 {
			t.Error(r)
		}
		n.wantLimits("1.grows", map[string]string{"pids.max": want, "memory.max": strconv.Itoa(190 << 20)})
	}
	job.end(t)
}

// With mem_fences a job that gets other cpus gets their memory, and what it has moves there.
func TestResizeMovesMemoryV2(t *testing.T) {
	needV2(t, "cpuset")
	nodes, _ := filepath.Glob("/sys/devices/system/node/node[0-9]*/cpulist")
	without := func(cpulist string) bool {
		list, err := os.ReadFile(cpulist)
		return err != nil || strings.TrimSpace(string(list)) == ""
	}
	if len(nodes) < 2 || slices.ContainsFunc(nodes, without) {
		kernfstest.Elsewhere(t, "one NUMA node, or one without cpus")
	}
	n := newNode(t, "[host]\nnode = \"n1\"\nstart_timeout = \"1m\"\n[cpuset]\nmem_fences = true\nuse_hyperthreads = "+
		"true")
	n.serve()
	const use = "import sys; x = bytearray(20 << 20); print('started', flush=True); sys.stdin.read()"
	job := n.start("run", "--job", "1.moves", "--report=json", "-l", "select=1:ncpus=1:mem=64mb", "--", "python3", "-c",
		use)
	if mems := n.limit("1.moves", "cpuset.mems"); mems != "0" {
		t.Errorf("mems %q, want 0", mems)
	}
	all := online(t)
	resize := func(ncpus int) {
		t.Helper()
		r := n.send("execjob_resize",
			fmt.Sprintf(`{"job": {"id": "1.moves", "exec_vnode": "(n1:ncpus=%d:mem=64mb)", "resource_list": {"ncpus": "%[1]d", "mem": "64mb"}}}`, ncpus))
		if r.status != 0 {
			t.Errorf("to %d cpus: %+v", ncpus, r)
		}
	}
	resize(all)
	n.wantLimits("1.moves", map[string]string{"cpuset.mems": fmt.Sprintf("0-%d", len(nodes)-1),
		"cpuset.cpus": fmt.Sprintf("0-%d", all-1)})
	resize(1)
	mems := n.limit("1.moves", "cpuset.mems")
	if node, err := strconv.Atoi(mems); err != nil || node < 0 || node >= len(nodes) {
		t.Errorf("mems %q of one cpu", mems)
	}
	job.end(t)
}
