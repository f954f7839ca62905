package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path"
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

// Attach takes the session of the process that it names, of that the owner's processes alone, and
// minds nobody who has gone meanwhile.
func TestChecklist04AttachTakesTheSession(t *testing.T) {
	m := newMoM(t)
	m.serve()
	j := pbsJob{id: "401.pbshost", list: "ncpus=1,mem=64mb"}
	m.begin(j)
	attach := func(j pbsJob, pid int) answer { return m.job("execjob_attach", j, fmt.Sprintf("pid=%d", pid)) }

	// A shell of the owner's and one of root's share a session with what starts and ends all the
	// time.
	said := m.path("pids")
	session := exec.Command("/bin/sh", "-c", `
		setpriv --reuid 65534 --regid 65534 --clear-groups sh -c 'while sleep 0.01; do :; done' & mine=$!
		sleep 1000 & echo $mine $! >"$0.new"; mv "$0.new" "$0"
		wait`, said)
	session.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	must.NoError(t, session.Start())
	t.Cleanup(func() { syscall.Kill(-session.Process.Pid, syscall.SIGKILL); session.Wait() })
	must.Eventually(t, "the session is there", func() bool { return exists(said) })
	var mine, roots int
	text, err := os.ReadFile(said)
	must.NoError(t, err)
	_, err = fmt.Sscan(string(text), &mine, &roots)
	must.NoError(t, err)
	must.Eventually(t, "the owner's shell is the owner's", func() bool { return ownerOf(mine) == ownerUID })
	if a := attach(j, mine); !a.accepted {
		t.Errorf("attach: %+v", a)
	}
	if !inJob(t, mine, j.id) || inJob(t, roots, j.id) || inJob(t, session.Process.Pid, j.id) {
		t.Errorf("in the job: the owner's %v, root's %v, the leader, root's, %v", inJob(t, mine, j.id),
			inJob(t, roots, j.id), inJob(t, session.Process.Pid, j.id))
	}
	if a := attach(j, roots); a.accepted || inJob(t, roots, j.id) {
		t.Errorf("attach of a process of root's: %+v", a)
	}

	gone := exec.Command("true")
	must.NoError(t, gone.Run())
	if a := attach(j, gone.Process.Pid); !a.accepted {
		t.Errorf("attach of a process that has ended: %+v", a)
	}
	m.end(j)

	// A job without cpus of its own runs on those that all jobs may run on, and is a job
	// otherwise.
	zero := pbsJob{id: "402.pbshost", list: "ncpus=0,mem=64mb"}
	m.begin(zero)
	p := sleeper(t, ownerUID)
	if a := attach(zero, p.Process.Pid); !a.accepted || !memberOf(t, p.Process.Pid, "memory", zero.id) {
		t.Errorf("attach to a job without cpus: %+v", a)
	}
	if got, want := allowed(t, p.Process.Pid), online(t); got != want {
		t.Errorf("it may run on %d cpus, want %d", got, want)
	}
	m.end(zero)
	m.configure("[cpuset]\nallow_zero_cpus = false\n")
	m.reload()
	zero.id = "403.pbshost"
	if a := m.job("execjob_begin", zero); a.accepted || a.set["job._delete"] != "True" ||
		!strings.Contains(a.message, "does not request ncpus") {
		t.Errorf("a job without cpus where it must have some: %+v", a)
	}
}

func ownerOf(pid int) int {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "Uid:" {
			uid, _ := strconv.Atoi(f[1])
			return uid
		}
	}
	return -1
}

// allowed is on how many cpus a process may run.
func allowed(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must.NoError(t, err)
	for line := range strings.Lines(string(b)) {
		if list, found := strings.CutPrefix(line, "Cpus_allowed_list:"); found {
			return len(listOf(strings.TrimSpace(list)))
		}
	}
	t.Fatalf("no cpus in %s", b)
	return 0
}

func memberOf(t *testing.T, pid int, controller, job string) bool {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	must.NoError(t, err)
	return path.Base(cgroupOf(string(b), controller)) == job
}

// reload has the daemon take its configuration over.
func (m *mom) reload() {
	m.t.Helper()
	before := m.logged("reloaded")
	must.NoError(m.t, m.daemon.cmd.Process.Signal(syscall.SIGHUP))
	must.Eventually(m.t, "the configuration is read again", func() bool { return m.logged("reloaded") > before })
}

// A program's name cannot mislead a reader of /proc/PID/stat: session and state are found behind
// the last parenthesis.
func TestChecklist05NamesWithParentheses(t *testing.T) {
	m := newMoM(t)
	m.serve()
	b, err := os.ReadFile("/bin/sleep")
	must.NoError(t, err)
	j := pbsJob{id: "501.pbshost", list: "ncpus=1,mem=64mb"}
	m.begin(j)
	for _, name := range []string{"a) Z 1 1 1", "((", "x) S (y", ") ", "new\nline) Z"} {
		program := m.path(name)
		must.NoError(t, os.WriteFile(program, b, 0o755))
		leader := exec.Command(program, "1000")
		leader.SysProcAttr = sessionOf(ownerUID)
		must.NoError(t, leader.Start())
		t.Cleanup(func() { leader.Process.Kill(); leader.Wait() })
		pid := leader.Process.Pid
		if a := m.job("execjob_attach", j, fmt.Sprintf("pid=%d", pid)); !a.accepted || !inJob(t, pid, j.id) {
			t.Errorf("%q: %+v, in the job: %v", name, a, inJob(t, pid, j.id))
		}
	}
	m.end(j)
}

// Processes that a job leaves are killed in bounded time, with a grace first where that is
// configured. A process that cannot be killed puts the host's vnodes offline, with the
// administrator's comment kept. They come back when it is gone, also with the daemon after this
// one.
func TestChecklist09KillAndOffline(t *testing.T) {
	t.Run("kill", func(t *testing.T) {
		m := newMoM(t, "kill_grace = \"1s\"")
		m.serve()
		said := filepath.Join(m.at("spool"), "said")
		j := pbsJob{id: "901.pbshost", list: "ncpus=1,mem=64mb"}
		k := m.running(j, "python3", "-c", `import os, signal, sys, time
def term(*_): os.write(os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY | os.O_APPEND), b"TERM\n")
signal.signal(signal.SIGTERM, term)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY | os.O_APPEND), b"ready\n")
while True: time.sleep(1000)`, said)
		must.Eventually(t, "the program has its daemon",
			func() bool { b, _ := os.ReadFile(said); return string(b) == "ready\n" })
		m.end(j)
		k.over()
		if b, _ := os.ReadFile(said); strings.Count(string(b), "TERM") < 2 {
			t.Errorf("the processes tell %q, want a SIGTERM for the program and for its daemon", b)
		}
		for _, h := range decodeReport(t, m.hookhost("report", j.id, "--format=json").stdout).Hosts {
			if h.Kill == nil || h.Kill.Signal != "SIGKILL" || h.Kill.Stragglers < 2 {
				t.Errorf("report: %+v", h.Kill)
			}
		}
	})
	t.Run("offline", func(t *testing.T) {
		m := newMoM(t, "kill_timeout = \"200ms\"\n[vnodes]\nonline_nodes_min_delay = \"0s\"")
		if !exists("/sys/fs/cgroup/freezer") {
			kernfstest.Elsewhere(t, "the v1 freezer, by which a process cannot be killed for a while")
		}
		m.serve()
		j := pbsJob{id: "902.pbshost", list: "ncpus=1,mem=64mb"}
		k := m.running(j, "sleep", "1000")
		freezer := "/sys/fs/cgroup/freezer/" + m.prefix + ".service/freezer.state"
		must.NoError(t, os.WriteFile(freezer, []byte("FROZEN"), 0))
		t.Cleanup(func() { os.WriteFile(freezer, []byte("THAWED"), 0) })

		const text = "Hook cgroup: Unable to clean up one or more cgroups"
		state, comment := `vnode_list["pbshost"].state`, `vnode_list["pbshost"].comment`
		m.serverHas("0", "rack 7")
		began := time.Now()
		a := m.job("execjob_epilogue", j)
		if took := time.Since(began); took > 20*time.Second { // of an alarm of 60
			t.Errorf("epilogue has taken %v", took)
		}
		if !strings.HasPrefix(a.set[comment], "rack 7") || !strings.Contains(a.set[comment], text) ||
			!isOffline(a.set[state]) {
			t.Fatalf("epilogue sets %v: %+v", a.names(), a.set)
		}
		m.serverHas("1", a.set[comment])
		m.daemon.stop()
		m.serve()
		if a := m.hook(m.hostInput("exechost_periodic", m.listed(j)...)); slices.Contains(a.names(), comment) ||
			slices.Contains(a.names(), state) {
			t.Errorf("periodic while the process is there sets %+v", a.set)
		}
		must.NoError(t, os.WriteFile(freezer, []byte("THAWED"), 0))
		k.over()
		a = m.hook(m.hostInput("exechost_periodic", m.listed(j)...))
		if a.set[comment] != "rack 7" || a.set[`vnode_list["pbshost"].offline_vnodes`] != "0" {
			t.Errorf("periodic when the process is gone sets %+v", a.set)
		}
		if a := m.job("execjob_end", j); !a.accepted || len(m.dirsOf(j.id)) > 0 {
			t.Errorf("end: %+v", a)
		}
	})
}

// isOffline reads a vnode's state as MoM's files have it: a number with the bit ND_OFFLINE
// (openpbs pbs_nodes.h), or its name.
func isOffline(state string) bool {
	n, err := strconv.Atoi(state)
	return err == nil && n&1 != 0 || strings.Contains(state, "offline")
}
