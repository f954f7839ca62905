package main_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// These tests are about a node whose first process is systemd: nothing that may happen to units
// and to systemd itself changes a job. They install units and have systemd reload and execute
// itself anew, so they are for guests of the laboratory alone.

// needSystemd skips a test unless systemd is the first process: sd_booted(3), and the word of
// process 1. The test is skipped on somebody's own machine, too: lab/vm/run mounts its orders in a
// guest only.
func needSystemd(t *testing.T) {
	t.Helper()
	comm, err := os.ReadFile("/proc/1/comm")
	must.NoError(t, err)
	if strings.TrimSpace(string(comm)) != "systemd" || !exists("/run/systemd/system") {
		kernfstest.Elsewhere(t, "process 1 is %s, not systemd", comm)
	}
	if !inGuest() {
		kernfstest.Elsewhere(t, "no guest of the laboratory: this machine's systemd is not the test's to change")
	}
}

// systemNode is a node with units of its own names.
type systemNode struct {
	*node
	daemon string // the unit of `hookhost serve`
}

func newSystemNode(t *testing.T, config ...string) *systemNode {
	t.Helper()
	needSystemd(t)
	n := &systemNode{node: newNode(t, config...)}
	n.daemon = n.prefix + "-hookhost.service"
	t.Cleanup(func() { // before newNode's, which removes cgroups
		n.systemctl("stop", n.daemon)
		if t.Failed() {
			out, _ := exec.Command("journalctl", "--no-pager", "-n", "60").CombinedOutput()
			log, _ := os.ReadFile(n.path("log"))
			t.Logf("journal:\n%s\ndaemon:\n%s", out, log)
		}
		for _, pid := range n.keeper() {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		os.Remove(n.unitFile(n.daemon))
		os.Remove(n.unitFile(n.unit()))
		n.systemctl("daemon-reload")
	})
	return n
}

func (n *systemNode) unit() string                { return n.prefix + ".service" }
func (n *systemNode) unitFile(unit string) string { return filepath.Join("/run/systemd/system", unit) }

// systemctl returns the command's status and what it said.
func (n *systemNode) systemctl(args ...string) (status int, text string) {
	n.t.Helper()
	cmd := exec.Command("systemctl", args...)
	out, err := cmd.CombinedOutput()
	n.t.Logf("systemctl %s: %v %s", strings.Join(args, " "), err, out)
	return cmd.ProcessState.ExitCode(), string(out)
}

func (n *systemNode) do(args ...string) {
	n.t.Helper()
	if status, text := n.systemctl(args...); status != 0 {
		n.t.Fatalf("systemctl %s: status %d: %s", strings.Join(args, " "), status, text)
	}
}

func (n *systemNode) property(unit, name string) string {
	n.t.Helper()
	out, err := exec.Command("systemctl", "show", "--property="+name, unit).Output()
	must.NoError(n.t, err)
	_, value, _ := strings.Cut(strings.TrimSpace(string(out)), "=")
	return value
}

// install puts a unit file of packaging/ where systemd finds it, under this node's names.
func (n *systemNode) install(file, unit string, edits ...string) {
	n.t.Helper()
	b, err := os.ReadFile("../../packaging/" + file)
	must.NoError(n.t, err)
	edits = append([]string{"pbs_jobs.service", n.unit(), "hookhost.service", n.daemon}, edits...)
	must.NoError(n.t, os.WriteFile(n.unitFile(unit), []byte(strings.NewReplacer(edits...).Replace(string(b))), 0o644))
}

// startDaemon starts the packaged daemon with this node's files.
func (n *systemNode) startDaemon() {
	n.t.Helper()
	env := ""
	for _, name := range []string{"CONFIG", "STATE", "SOCKET"} {
		for _, e := range n.env() {
			if strings.HasPrefix(e, "HOOKHOST_"+name+"=") {
				env += "\nEnvironment=" + e
			}
		}
	}
	n.install("hookhost.service", n.daemon, "ExecStart=/usr/bin/hookhost serve", "ExecStart="+
		filepath.Join(built, "hookhost")+" serve"+env,
		"RuntimeDirectory=hookhost", "RuntimeDirectory="+n.prefix, "StateDirectory=hookhost", "StateDirectory="+
			n.prefix)
	n.t.Cleanup(func() { os.RemoveAll("/var/lib/" + n.prefix) })
	n.do("daemon-reload")
	n.do("start", n.daemon)
}

// keeper returns the pids of the unit's own processes.
func (n *systemNode) keeper() []int {
	var pids []int
	for _, pattern := range []string{"", "/keeper"} {
		for _, top := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/systemd/", "/sys/fs/cgroup/unified/"} {
			b, _ := os.ReadFile(top + n.unit() + pattern + "/cgroup.procs")
			for _, f := range strings.Fields(string(b)) {
				// On hybrid it is in two.
				if pid, err := strconv.Atoi(f); err == nil && pid > 1 && !slices.Contains(pids, pid) {
					pids = append(pids, pid)
				}
			}
		}
	}
	return pids
}

// confinement is everything that a job's cgroup and that of all jobs say of limits and members, by
// file.
func (n *systemNode) confinement(id string) map[string]string {
	n.t.Helper()
	files := map[string]string{}
	for _, top := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/*/"} {
		for _, file := range []string{"cgroup.procs", "cgroup.controllers", "memory.max", "memory.swap.max",
			"memory.oom.group", "memory.limit_in_bytes",
			"memory.memsw.limit_in_bytes", "cpuset.cpus", "cpuset.cpus.effective", "cpuset.mems",
			"cpuset.mems.effective", "cpu.weight", "cpu.shares",
			"cpu.max", "pids.max", "devices.list"} {
			found, _ := filepath.Glob(top + n.unit() + "/job*/" + id + "/" + file)
			all, _ := filepath.Glob(top + n.unit() + "/job*/" + file)
			for _, f := range append(found, all...) {
				b, err := os.ReadFile(f)
				must.NoError(n.t, err)
				files[f] = string(b)
			}
		}
	}
	return files
}

// start runs a job in the background and waits until its processes are there.
func (n *systemNode) start(id string, command ...string) *exec.Cmd {
	n.t.Helper()
	// Not n.command, which ends a command after a minute.
	cmd := exec.Command(filepath.Join(built, "hookhost"),
		append([]string{"run", "--job", id, "--report=none", "-l", "select=1:ncpus=1:mem=64mb", "--"}, command...)...)
	cmd.Env = n.env()
	must.NoError(n.t, cmd.Start())
	n.t.Cleanup(func() { cmd.Process.Signal(syscall.SIGTERM); cmd.Wait() })
	must.Eventually(n.t, "job "+id+" has a process", func() bool {
		for file, text := range n.confinement(id) {
			if strings.HasSuffix(file, "/cgroup.procs") && text != "" {
				return true
			}
		}
		return false
	})
	return cmd
}

// startOpener starts a job that tries to open paths each time it is asked to. No event comes of
// that: what it tells is what the kernel does by itself.
func (n *systemNode) startOpener(id string, paths ...string) (ask func() string) {
	n.t.Helper()
	asked, told := n.path("asked"), n.path("told")
	must.NoError(n.t, syscall.Mkfifo(asked, 0o600))
	n.start(id, append([]string{"sh", "-c", "try() { " + tryOpen + "; }; exec <>" + asked +
		"; while read x; do { try \"$@\"; echo done; } >" + told + "; done", "sh"}, paths...)...)
	return func() string {
		n.t.Helper()
		must.NoError(n.t, os.WriteFile(told, nil, 0o600))
		must.NoError(n.t, os.WriteFile(asked, []byte("\n"), 0o600))
		var text string
		must.Eventually(n.t, "the job has tried", func() bool {
			b, err := os.ReadFile(told)
			found := false
			text, found = strings.CutSuffix(string(b), "done\n")
			return err == nil && found
		})
		return text
	}
}

// bothForms runs a test with the packaged unit file and with the unit that hookhost makes by
// itself.
func bothForms(t *testing.T, test func(t *testing.T, n *systemNode)) {
	t.Run("unit file", func(t *testing.T) {
		n := newSystemNode(t)
		n.install("pbs_jobs.service", n.unit())
		n.do("daemon-reload")
		test(t, n)
	})
	t.Run("transient unit", func(t *testing.T) { test(t, newSystemNode(t)) })
}

func TestSystemdLeavesJobsAlone(t *testing.T) {
	bothForms(t, func(t *testing.T, n *systemNode) {
		n.startDaemon()
		opens := n.startOpener("1.srv", "/dev/null", "/dev/kmsg")
		want := n.confinement("1.srv")
		t.Logf("confinement: %v", want)
		if len(want) < 4 {
			t.Fatalf("the job is hardly confined: %v", want)
		}
		same := func(after string) {
			t.Helper()
			must.Equal(t, fmt.Sprintf("after %s", after), want, n.confinement("1.srv"))
			if state := n.property(n.unit(), "ActiveState"); state != "active" {
				t.Errorf("after %s the unit is %s", after, state)
			}
			if got, want := opens(), "/dev/null granted\n/dev/kmsg denied\n"; got != want {
				t.Errorf("after %s the job opens %q, want %q", after, got, want)
			}
		}
		answers := func() {
			t.Helper()
			must.Eventually(t, "the daemon answers", func() bool { return n.command("jobs").Run() == nil })
		}
		same("the start")
		for _, args := range [][]string{{"daemon-reload"}, {"daemon-reexec"}, {"reset-failed"}, {"restart", n.daemon},
			{"reload", n.daemon}} {
			n.do(args...)
			answers()
			same("systemctl " + strings.Join(args, " "))
		}
		for _, verb := range []string{"restart", "try-restart", "stop", "reload-or-restart"} {
			if status, text := n.systemctl(verb, n.unit()); status == 0 || !strings.Contains(text, "refused") {
				t.Errorf("systemctl %s: status %d, %q: want it refused", verb, status, text)
			}
			same("systemctl " + verb + " of the unit")
		}
		pid, err := strconv.Atoi(n.property(n.daemon, "MainPID"))
		if err != nil || pid < 2 {
			t.Fatalf("the daemon's pid: %d, %v", pid, err)
		}
		syscall.Kill(pid, syscall.SIGKILL)
		must.Eventually(t, "systemd starts the daemon again",
			func() bool { p := n.property(n.daemon, "MainPID"); return p != "0" && p != strconv.Itoa(pid) })
		answers()
		same("SIGKILL of the daemon")

		keeper := n.keeper()
		if len(keeper) != 1 {
			t.Fatalf("the unit's own processes are %v, want one", keeper)
		}
		syscall.Kill(keeper[0], syscall.SIGKILL)
		must.Eventually(t, "systemd knows that the keeper has gone",
			func() bool { return n.property(n.unit(), "SubState") == "exited" })
		same("SIGKILL of the keeper")
		for _, args := range [][]string{{"daemon-reload"}, {"daemon-reexec"}, {"reset-failed"}, {"restart", n.daemon},
			{"start", n.unit()}} {
			n.do(args...)
			answers()
			same("systemctl " + strings.Join(args, " ") + " without a keeper")
		}
		if r := n.hookhost("run", "--report=none", "-l", "select=1:ncpus=1:mem=32mb", "--", "true"); r.status != 0 {
			t.Errorf("a job without a keeper: status %d", r.status)
		}
		same("another job")
		if r := n.hookhost("run", "--report=none", "-l", "select=1:ncpus=1:mem=32mb", "--", "python3", "-c",
			"x=bytearray(200<<20)"); r.status != 137 {
			t.Errorf("a job beyond its memory: status %d, want 137", r.status)
		}
		time.Sleep(200 * time.Millisecond) // systemd is told of the OOM kill, and is to do nothing about it
		same("the OOM kill of another job")
		n.do("stop", n.daemon)
		same("the daemon's stop")
		n.do("start", n.daemon)
		answers()
	})
}

// A package upgrade replaces the unit file while jobs run.
func TestSystemdUnitFileReplaced(t *testing.T) {
	n := newSystemNode(t)
	n.startDaemon() // makes a transient unit
	n.start("1.srv", "sleep", "600")
	want := n.confinement("1.srv")
	for _, change := range [][]string{nil,
		{"/bin/sleep infinity", "/bin/sleep 1000000", "TasksMax=infinity", "TasksMax=infinity\nMemoryLow=1M"}} {
		n.install("pbs_jobs.service", n.unit(), change...)
		n.do("daemon-reload")
		n.do("restart", n.daemon)
		must.Equal(t, "after another unit file", want, n.confinement("1.srv"))
		if state := n.property(n.unit(), "ActiveState"); state != "active" {
			t.Errorf("the unit is %s", state)
		}
	}
}

// atShutdown is a process of a job that says when it is told to end.
const atShutdown = `
import os, signal, sys, time
def end(*_):
    signal.signal(signal.SIGTERM, signal.SIG_IGN) # systemd may say it again
    with open(sys.argv[1], "a") as order:
        order.write("job\n")
    os._exit(0)
signal.signal(signal.SIGTERM, end)
open(sys.argv[2], "w").close()
while True:
    time.sleep(60)
`

// TestSystemdStopOrder: at shutdown pbs_mom stops first, then hookhost, which pbs_mom tells how
// jobs ended, then the jobs. Their file systems are unmounted last. A poweroff would be the end of
// this test, so a target stands in for shutdown.target. The target conflicts with all of them as
// well, and systemd stops them in one transaction, by the units' own order. pbs_mom and hookhost
// take their time to stop: without an order the job would be told at once.
func TestSystemdStopOrder(t *testing.T) {
	bothForms(t, func(t *testing.T, n *systemNode) {
		order, ready, down := n.path("order"), n.path("ready"), n.prefix+"-down.target"
		write := func(unit, text string) {
			t.Helper()
			file := n.unitFile(unit)
			must.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
			must.NoError(t, os.WriteFile(file, []byte(text), 0o644))
			t.Cleanup(func() { os.Remove(file) })
		}
		slowly := func(name string) string { return "/bin/sh -c 'sleep 2; echo " + name + " >>" + order + "'" }
		const mom = "pbs.service" // what the units call it; there is none in a guest
		write(mom, "[Unit]\nDescription=stands in for pbs_mom\n[Service]\nExecStart=/bin/sleep infinity\nExecStop="+
			slowly("pbs_mom")+"\n")
		t.Cleanup(func() { os.Remove(n.unitFile(n.daemon + ".d")) }) // empty by then
		write(n.daemon+".d/order.conf", "[Service]\nExecStopPost="+slowly("hookhost")+"\n")
		write(down, fmt.Sprintf("[Unit]\nDescription=stands in for shutdown.target\nConflicts=%[1]s %[2]s "+
			"%[3]s\nAfter=%[1]s %[2]s %[3]s\n", mom, n.daemon, n.unit()))
		n.startDaemon()
		n.do("start", mom)
		must.Eventually(t, "the daemon answers", func() bool { return n.command("jobs").Run() == nil })

		// A job of pbs_mom's: nothing but the kernel holds it when hookhost has stopped.
		if r := n.send("execjob_begin",
			`{"job": {"id": "1.srv", "owner": {"user": "root"}, "resource_list": {"ncpus": "1", "mem": "64mb"}}}`); r.status != 0 {
			t.Fatalf("begin: status %d", r.status)
		}
		job := exec.Command("python3", "-c", atShutdown, order, ready)
		job.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		must.NoError(t, job.Start())
		ended := make(chan error, 1)
		go func() { ended <- job.Wait() }()
		t.Cleanup(func() { job.Process.Kill() })
		if r := n.send("execjob_launch",
			fmt.Sprintf(`{"pid": %d, "progname": "python3", "job": {"id": "1.srv"}}`, job.Process.Pid)); r.status != 0 {
			t.Fatalf("launch: status %d", r.status)
		}
		must.Eventually(t, "the job is ready to be told", func() bool { return exists(ready) })

		// Stopped before file systems are unmounted: it conflicts with shutdown, comes before it,
		// and is up only after they are mounted.
		has := func(unit, property, want string) {
			t.Helper()
			if got := strings.Fields(n.property(unit, property)); !slices.Contains(got, want) {
				t.Errorf("%s: %s=%s, want %s among them", unit, property, got, want)
			}
		}
		has(n.unit(), "Conflicts", "shutdown.target")
		has(n.unit(), "Before", "shutdown.target")
		has(n.unit(), "After", "sysinit.target")
		has("sysinit.target", "After", "local-fs.target")
		has(n.unit(), "Before", mom)

		n.do("start", down)
		must.Eventually(t, "the units have stopped", func() bool {
			return n.property(mom, "ActiveState") == "inactive" && n.property(n.daemon, "ActiveState") == "inactive" &&
				n.property(n.unit(), "ActiveState") != "active"
		})
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("the job was not told to end, or did not in time: %v", err)
			}
		case <-time.After(time.Minute):
			t.Error("the job runs on")
		}
		b, err := os.ReadFile(order)
		if want := "pbs_mom\nhookhost\njob\n"; err != nil || string(b) != want {
			t.Errorf("they ended in the order %q, %v; want %q", b, err, want)
		}

		// The node comes up again: what is left of the job is found and ended.
		n.do("stop", down)
		n.do("start", n.daemon)
		must.Eventually(t, "the daemon answers", func() bool { return n.command("jobs").Run() == nil })
		if r := n.event("execjob_end", "1.srv", ""); r.status != 0 {
			t.Errorf("end: status %d", r.status)
		}
	})
}

// The daemon's protection is not the jobs'.
func TestSystemdOOMScore(t *testing.T) {
	n := newSystemNode(t)
	n.startDaemon()
	own, err := os.ReadFile("/proc/self/oom_score_adj")
	must.NoError(t, err)
	if r := n.hookhost("run", "--report=none", "--", "cat", "/proc/self/oom_score_adj"); r.stdout != string(own) {
		t.Errorf("a job has oom_score_adj %q, its starter %q", r.stdout, own)
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%s/oom_score_adj", n.property(n.daemon, "MainPID")))
	if err != nil || strings.TrimSpace(string(b)) != "-900" {
		t.Errorf("the daemon's oom_score_adj is %q, %v; want -900", b, err)
	}
}

// TestSystemdFromATerminal: jobs are confined as ever, and the log says what to do instead.
func TestSystemdFromATerminal(t *testing.T) {
	n := newSystemNode(t)
	log, err := os.Create(n.path("log"))
	must.NoError(t, err)
	cmd := exec.Command("systemd-run", "--scope", "--quiet", "--slice=user-0.slice", "--unit="+n.prefix+
		"-session.scope", filepath.Join(built, "hookhost"), "serve")
	cmd.Stdout, cmd.Stderr = log, log
	for _, e := range n.env() {
		if !strings.HasPrefix(e, "INVOCATION_ID=") {
			cmd.Env = append(cmd.Env, e)
		}
	}
	must.NoError(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Signal(syscall.SIGTERM); cmd.Wait() })
	must.Eventually(t, "the daemon answers", func() bool { return n.command("jobs").Run() == nil })
	n.start("1.srv", "sleep", "600")
	if files := n.confinement("1.srv"); len(files) < 4 {
		t.Errorf("the job is hardly confined: %v", files)
	}
	b, _ := os.ReadFile(n.path("log"))
	if got := strings.Count(string(b), "started by hand"); got != 1 ||
		!strings.Contains(string(b), "systemctl start hookhost") {
		t.Errorf("%d warnings in the log, want one: %s", got, b)
	}
}

func TestSystemdModes(t *testing.T) {
	run := []string{"run", "--report=none", "-l", "select=1:ncpus=1:mem=32mb", "--", "true"}
	t.Run("require", func(t *testing.T) {
		n := newSystemNode(t, `systemd = "require"`)
		if r := n.hookhost(run...); r.status != 0 || n.property(n.unit(), "ActiveState") != "active" {
			t.Errorf("status %d, the unit is %s", r.status, n.property(n.unit(), "ActiveState"))
		}
	})
	t.Run("off", func(t *testing.T) {
		// Not everything reaches a plain directory.
		n := newSystemNode(t, `systemd = "off"`, `[cpuset]`, `enabled = false`)
		if r := n.hookhost(run...); r.status != 0 || n.property(n.unit(), "LoadState") != "not-found" {
			t.Errorf("status %d, the unit is %s", r.status, n.property(n.unit(), "LoadState"))
		}
	})
	t.Run("masked", func(t *testing.T) {
		n := newSystemNode(t)
		must.NoError(t, os.Symlink("/dev/null", n.unitFile(n.unit())))
		n.do("daemon-reload")
		if r := n.hookhost(run...); r.status != 125 || !strings.Contains(r.stderr, "systemctl unmask "+n.unit()) {
			t.Errorf("status %d, %q", r.status, r.stderr)
		}
	})
	t.Run("not delegated", func(t *testing.T) {
		n := newSystemNode(t)
		n.install("pbs_jobs.service", n.unit(), "Delegate=yes\n", "")
		n.do("daemon-reload")
		if r := n.hookhost(run...); r.status != 125 || !strings.Contains(r.stderr, "without Delegate=yes") {
			t.Errorf("status %d, %q", r.status, r.stderr)
		}
	})
}

// Several processes that find no unit make one.
func TestSystemdUnitMadeOnce(t *testing.T) {
	n := newSystemNode(t)
	jobs := map[string]*exec.Cmd{}
	for i := range 6 {
		id := fmt.Sprintf("%d.srv", i+1)
		cmd := n.command("run", "--job", id, "--report=none", "-l", "select=1:ncpus=0:mem=16mb", "--", "true")
		cmd.Stderr = os.Stderr
		must.NoError(t, cmd.Start())
		jobs[id] = cmd
	}
	for id, cmd := range maps.All(jobs) {
		if err := cmd.Wait(); err != nil {
			t.Errorf("job %s: %v", id, err)
		}
	}
	if keeper := n.keeper(); len(keeper) != 1 {
		t.Errorf("the unit's own processes are %v, want one", keeper)
	}
}
