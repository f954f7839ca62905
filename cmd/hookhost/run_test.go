package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

const mib = 1 << 20

// loggedKill tries again while the kernel has logged nothing of a kill. It logs ten in five
// seconds, over all cgroups, and other tests may use these up.
func loggedKill(try func() result) (r result) {
	for range 6 {
		if r = try(); !strings.Contains(r.stderr, ": the kernel killed 1 of ") {
			return r
		}
		time.Sleep(5 * time.Second)
	}
	return r
}

// memOf is the greatest sample of a running job's memory so far.
func (n *node) memOf(id string) int64 {
	n.t.Helper()
	for _, h := range decodeReport(n.t, n.hookhost("report", id, "--format=json").stdout).Hosts {
		if h.MemBytes != nil {
			return *h.MemBytes
		}
	}
	return 0
}

func TestRunMemoryLimit(t *testing.T) {
	n := newNode(t)
	r := loggedKill(func() result {
		return n.hookhost("run", "-l", "select=1:ncpus=1:mem=64mb", "--report=json", "--", "python3", "-c",
			"x=bytearray(300<<20)")
	})
	if r.status != 137 {
		t.Errorf("status %d, want 137", r.status)
	}
	if !strings.Contains(r.stderr, "Cgroup mem limit exceeded: Killed process ") ||
		!strings.Contains(r.stderr, "(python3)") {
		t.Errorf("stderr does not name the limit and the killed process: %q", r.stderr)
	}
	rep := r.report(t)
	for host, h := range rep.Hosts {
		if h.OOMKills == nil || *h.OOMKills < 1 {
			t.Errorf("oom_kills = %v, want at least 1", h.OOMKills)
		}
		if h.MemLimitBytes == nil || *h.MemLimitBytes != 64*mib {
			t.Errorf("mem_limit_bytes = %v, want 64 MiB", h.MemLimitBytes)
		}
		if !strings.HasPrefix(rep.DiagMessages[host], "Cgroup mem limit exceeded") {
			t.Errorf("diag_messages = %v", rep.DiagMessages)
		}
	}
}

// The kernel reclaims page cache at the limit all the time; that is no kill, and nobody is to be
// told of one.
func TestRunReclaimIsNoOOM(t *testing.T) {
	n := newNode(t)
	big := n.path("big")
	if out, err := exec.Command("sh", "-c", "head -c 100000000 /dev/zero > "+big).CombinedOutput(); err != nil {
		t.Fatal(string(out), err)
	}
	r := n.hookhost("run", "-l", "select=1:ncpus=1:mem=32mb", "--report=json", "--", "sh", "-c", "cat "+big+" "+big+
		" > "+n.path("copy"))
	if r.status != 0 || strings.Contains(r.stderr, "exceeded") {
		t.Errorf("status %d, stderr %q", r.status, r.stderr)
	}
	for _, h := range r.report(t).Hosts {
		if h.OOMKills == nil || *h.OOMKills != 0 {
			t.Errorf("oom_kills = %v, want 0", h.OOMKills)
		}
	}
}

func TestRunKillsDaemons(t *testing.T) {
	n := newNode(t)
	long := fmt.Sprintf("1000.%d", os.Getpid()) // no other run of the tests has it
	r := n.hookhost("run", "--report=json", "--", "sh", "-c",
		fmt.Sprintf("setsid sleep %[1]s & setsid setsid sleep %[1]s & sleep 0.1; exit 3", long))
	if r.status != 3 {
		t.Errorf("status %d, want 3", r.status)
	}
	if pids := processesNamed("sleep", long); len(pids) > 0 {
		t.Errorf("left running: %v", pids)
	}
	if dirs := n.jobDirs(); len(dirs) > 0 {
		t.Errorf("left: %v", dirs)
	}
	for _, h := range r.report(t).Hosts {
		if h.Kill == nil || h.Kill.Signal != "SIGKILL" || h.Kill.Stragglers < 2 {
			t.Errorf("kill = %+v, want SIGKILL of 2 stragglers", h.Kill)
		}
	}
}

func TestRunAccountsCPUTime(t *testing.T) {
	n := newNode(t)
	// Two processes burn five seconds each and say what getrusage gives them.
	script := `import os, resource, time
def burn():
    while time.process_time() < 5.0: pass
pid = os.fork()
burn()
if pid == 0: os._exit(0)
os.wait()
u = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print(sum(r.ru_utime + r.ru_stime for r in u), flush=True)
os._exit(0)`
	r := n.hookhost("run", "-l", "ncpus=2", "--report=json", "--", "python3", "-c", script)
	var want float64
	if _, err := fmt.Sscan(r.stdout, &want); err != nil {
		t.Fatal(err)
	}
	for _, h := range r.report(t).Hosts {
		if h.CPUTSeconds == nil || *h.CPUTSeconds < want*0.95 || *h.CPUTSeconds > want*1.05 {
			t.Errorf("cput_seconds = %v, getrusage says %v", *h.CPUTSeconds, want)
		}
	}
}

func TestRunCountsMemoryWithoutPageCache(t *testing.T) {
	n := newNode(t)
	big := n.path("big")
	if out, err := exec.Command("sh", "-c", "head -c 209715200 /dev/zero > "+big).CombinedOutput(); err != nil {
		t.Fatal(string(out), err)
	}
	script := `import sys
f = open("` + big + `", "rb", buffering=0)
b = bytearray(1 << 16)
while f.readinto(b): pass
x = bytearray(50 << 20)
print("held", flush=True)
sys.stdin.read()`
	job := n.start("run", "--job", "1.cache", "-l", "select=1:ncpus=1:mem=1gb", "--report=json", "--", "python3", "-c",
		script)
	must.Eventually(t, "its memory is sampled", func() bool { return n.memOf("1.cache") >= 50*mib })
	for _, h := range job.end(t).Hosts {
		if h.MemBytes == nil || *h.MemBytes < 50*mib || *h.MemBytes > 60*mib {
			t.Errorf("mem_bytes = %v, want 50 to 60 MiB (%s)", *h.MemBytes, h.MemSource)
		}
		if h.CgroupPeakBytes == nil || *h.CgroupPeakBytes < 50*mib {
			t.Errorf("cgroup_peak_bytes = %v", h.CgroupPeakBytes)
		}
		if h.MemSource == "" {
			t.Error("mem_source does not say what mem is")
		}
	}
}

// Jobs at once hold different cpus, and one too many is refused with the reason.
func TestRunJobsShareTheNode(t *testing.T) {
	n := newNode(t)
	const cpus = 2
	if out, _ := exec.Command("nproc").Output(); strings.TrimSpace(string(out)) != fmt.Sprint(cpus) {
		t.Fatalf("this test is written for hosts with %d cpus", cpus)
	}
	release := n.path("release")
	must.NoError(t, syscall.Mkfifo(release, 0o600))
	var jobs []*exec.Cmd
	for i := range cpus {
		cmd := n.command("run", "-l", "select=1:ncpus=1:mem=64mb", "--report=none", "--", "sh", "-c",
			fmt.Sprintf("grep Cpus_allowed_list /proc/self/status > %s; read x < %s", n.path(fmt.Sprint("cpus", i)),
				release))
		cmd.Stderr = os.Stderr
		must.NoError(t, cmd.Start())
		jobs = append(jobs, cmd)
	}
	lists := map[string]bool{}
	for i := range cpus {
		file := n.path(fmt.Sprint("cpus", i))
		must.Eventually(t, "job writes its cpus",
			func() bool { b, _ := os.ReadFile(file); return strings.HasSuffix(string(b), "\n") })
		b, _ := os.ReadFile(file)
		lists[string(b)] = true
	}
	if len(lists) != cpus {
		t.Errorf("jobs share cpus: %v", lists)
	}
	r := n.hookhost("run", "-l", "select=1:ncpus=1", "--", "touch", n.path("ran"))
	if r.status != 125 || !strings.Contains(r.stderr, "ncpus requested (1) exceeds ncpus available (0)") {
		t.Errorf("third job: status %d, stderr %q", r.status, r.stderr)
	}
	if exists(n.path("ran")) {
		t.Error("third job ran")
	}
	f, err := os.OpenFile(release, os.O_RDWR, 0)
	must.NoError(t, err)
	fmt.Fprint(f, strings.Repeat("go\n", 64))
	for _, cmd := range jobs {
		if err := cmd.Wait(); err != nil {
			t.Errorf("job: %v", err)
		}
	}
	f.Close()
}

// The first thing that the job's program sees is its own cgroup, in every hierarchy.
func TestRunProgramStartsConfined(t *testing.T) {
	n := newNode(t)
	r := n.hookhost("run", "--report=none", "--", "cat", "/proc/self/cgroup")
	leaf := "jobid"
	if exists("/sys/fs/cgroup/cgroup.controllers") {
		leaf = "jobs"
	}
	for _, controller := range []string{"memory", "cpuset", "cpu", "pids"} {
		if got, want := path.Dir(cgroupOf(r.stdout, controller)), "/"+n.prefix+".service/"+leaf; got != want {
			t.Errorf("the %s cgroup is in %s, want %s: %s", controller, got, want, r.stdout)
		}
	}
	if exists("/sys/fs/cgroup/unified/cgroup.procs") && !strings.Contains(r.stdout, "0::/"+n.prefix+".service/jobs/") {
		t.Errorf("not in a v2 cgroup: %s", r.stdout)
	}
}

// A job's vmem is memory plus swap together.
func TestRunVmemLimit(t *testing.T) {
	n := newNode(t)
	show, want := "cd /sys/fs/cgroup/memory/$(sed -n 's/.*:memory://p' /proc/self/cgroup); cat "+
		"memory.limit_in_bytes memory.memsw.limit_in_bytes",
		fmt.Sprintf("%d\n%d\n", 64*mib, 96*mib)
	if exists("/sys/fs/cgroup/cgroup.controllers") { // swap by itself
		show, want = "cd /sys/fs/cgroup/$(sed -n 's/^0:://p' /proc/self/cgroup); cat memory.max memory.swap.max",
			fmt.Sprintf("%d\n%d\n", 64*mib, 32*mib)
	} else if !exists("/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes") {
		kernfstest.Elsewhere(t, "this kernel does not account swap")
	}
	r := n.hookhost("run", "-l", "select=1:ncpus=1:mem=64mb:vmem=96mb", "--report=none", "--", "sh", "-c", show)
	if r.stdout != want {
		t.Errorf("limits %q", r.stdout)
	}
}

func TestRunCrashOfPluginAndDaemon(t *testing.T) {
	t.Run("hooks/cgroup", func(t *testing.T) { crash(t, newNode(t), nil) })
	t.Run("serve", func(t *testing.T) {
		n := newNode(t)
		crash(t, n, n.serve())
	})
}

// crash kills the cgroup hook, or the daemon with it, in mid-job and looks at the rest of the
// job's life. The job has its peak until that is sampled.
func crash(t *testing.T, n *node, d *daemon) {
	release := n.path("release")
	must.NoError(t, syscall.Mkfifo(release, 0o600))
	job := n.start("run", "--job", "1.crash", "-l", "select=1:ncpus=1:mem=128mb", "--report=json", "--", "python3",
		"-c", `import sys; x = bytearray(40 << 20); print("held", flush=True); sys.stdin.read(); x = None; `+
			`print("freed", flush=True); open("`+release+`").read()`)
	must.Eventually(t, "the peak is sampled", func() bool { return n.memOf("1.crash") >= 40*mib })
	must.NoError(t, job.stdin.Close())
	job.await("freed")
	if d != nil {
		d.kill()
	}
	killed := 0
	for _, pid := range processesNamed(filepath.Join(built, "hooks/cgroup")) {
		syscall.Kill(pid, syscall.SIGKILL)
		killed++
	}
	if killed == 0 && d == nil {
		t.Fatal("no hook to kill: is its command line its path?")
	}
	if len(n.jobDirs()) == 0 {
		t.Error("the job is not confined any more")
	}
	if d != nil {
		n.serve()
	}
	time.Sleep(100 * time.Millisecond)
	must.NoError(t, os.WriteFile(release, []byte("go"), 0))
	for _, h := range job.report(t).Hosts {
		if h.MemBytes == nil || *h.MemBytes < 40*mib {
			t.Errorf("mem_bytes = %v: the peak from before the crash is lost", h.MemBytes)
		}
		if h.CPUTSeconds == nil || *h.CPUTSeconds == 0 {
			t.Errorf("cput_seconds = %v", h.CPUTSeconds)
		}
	}
	if dirs := n.jobDirs(); len(dirs) > 0 {
		t.Errorf("left: %v", dirs)
	}
}

// The output of `make demo` is what it says.
func TestDemoShowsWhatItSays(t *testing.T) {
	n := newNode(t)
	var demo string // its cgroup
	out := loggedKill(func() result {
		cmd := exec.Command("../../scripts/demo", filepath.Join(built, "hookhost"))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		demo = fmt.Sprintf("hookhost_demo_%d.service", cmd.Process.Pid)
		return result{stderr: string(out)}
	}).stderr
	for _, want := range []string{"the answer is 42", "Cgroup mem limit exceeded: Killed process", "ended by SIGKILL"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	for _, top := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/*/"} {
		if left, _ := filepath.Glob(top + demo); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	}
	_ = n
}

// A signal that ends the job while a hook still decides about it counts like one that ends its
// program. There is no report then, and that is no error.
func TestRunSignalBeforeTheStart(t *testing.T) {
	must.BesideOthers(t)
	n := newNode(t)
	n.serve()
	config := n.write("play.toml", fmt.Sprintf("event = \"execjob_begin\"\narrived = %q\nuntil = %q\n",
		n.path("arrived"), n.path("until")))
	n.commands("hook create plays", "hook set plays event=execjob_begin alarm=200",
		"hook import plays application/x-executable default "+sample(t, "play"),
		"hook import plays application/x-config default "+config)
	cmd := n.command("run", "-l", "ncpus=1", "-l", "mem=32mb", "--", "touch", n.path("ran"))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	must.NoError(t, cmd.Start())
	must.Eventually(t, "the hook is called", func() bool { return exists(n.path("arrived")) })
	must.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	n.write("until", "")
	cmd.Wait()
	if status := cmd.ProcessState.ExitCode(); status != 128+int(syscall.SIGTERM) || exists(n.path("ran")) ||
		!strings.Contains(stderr.String(), "terminated before it was started") ||
		strings.Contains(stderr.String(), "report of job") {
		t.Errorf("status %d, the program ran: %v, standard error: %s", status, exists(n.path("ran")), stderr.String())
	}
}

// A caller who hangs up in the middle harms nobody but itself.
func TestAbortedRequestsHarmNobody(t *testing.T) {
	n := newNode(t)
	n.open()
	n.serve()
	if r := n.event("execjob_begin", "7.node", ""); r.status != 0 {
		t.Fatal("begin was rejected")
	}
	for range 60 {
		cmd := n.command("report", "7.node")
		cmd.Dir, cmd.Env = "/", []string{"HOOKHOST_SOCKET=" + n.path("run/s"), "HOOKHOST_CONFIG=/nonexistent"}
		cmd.SysProcAttr = userOf(ownerUID)
		must.NoError(t, cmd.Start())
		time.Sleep(6 * time.Millisecond) // about when it has asked
		cmd.Process.Kill()
		cmd.Wait()
	}
	if r := n.hookhost("run", "--report=none", "--", "true"); r.status != 0 {
		t.Errorf("a job afterwards: status %d", r.status)
	}
	if r := n.event("execjob_end", "7.node", ""); r.status != 0 {
		t.Errorf("end: status %d", r.status)
	}
	b, err := os.ReadFile(n.path("log"))
	if err != nil || strings.Contains(string(b), "crashed") {
		t.Errorf("a hook was killed: %v", err)
	}
}
