package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// twin is a place for another hookhost with the same cgroups, and a state of its own.
func (n *node) twin() *node {
	n.t.Helper()
	dir, err := os.MkdirTemp("", "hh")
	must(n.t, err)
	n.t.Cleanup(func() { os.RemoveAll(dir) })
	other := &node{t: n.t, dir: dir, prefix: n.prefix}
	other.write("hookhost.toml", fmt.Sprintf("[cgroup]\nprefix = %q\n", n.prefix))
	return other
}

// Two daemons have the same cgroups and two state directories: neither ends a job of the other, also while that is being
// restarted. With the directory the job goes to who has that.
func TestTwoStateDirectories(t *testing.T) {
	n := newNode(t)
	n.open()
	d := n.serve()
	const job = "1.two"
	if r := n.event("execjob_begin", job, ""); r.status != 0 {
		t.Fatal("not begun")
	}
	pid := n.attachAll(t, 1, job, "sleep", "1000")[0]
	other := n.twin()
	od := other.serve()
	stays := func(when string) {
		t.Helper()
		if r := other.hookhost("run", "--job", job, "--report=none", "--", "true"); r.status != 125 {
			t.Errorf("%s: run: %+v", when, r)
		}
		if s := other.state(job); s != "" {
			t.Errorf("%s: the other has the job, %s", when, s)
		}
		if syscall.Kill(pid, 0) != nil || !inJob(t, pid, job) {
			t.Fatalf("%s: the job is not what it was", when)
		}
	}
	left := func(when string) {
		t.Helper()
		if r := other.tell("exechost_periodic", "{}"); r.status != 0 || strings.Contains(r.stdout, job) {
			t.Errorf("%s: periodic: %+v", when, r)
		}
		for _, e := range []string{"execjob_begin", "execjob_epilogue", "execjob_end", "execjob_abort"} {
			if r := other.event(e, job, ""); r.status != 1 || !strings.Contains(r.stdout, n.path("state")) || !strings.Contains(r.stdout, other.path("state")) {
				t.Errorf("%s: %s: %+v", when, e, r)
			}
		}
		stays(when)
	}
	left("its daemon runs")
	d.stop()
	left("its daemon is down")
	od.stop()
	stays("both are down") // the hooks are started for each command
	if r := other.hookhost("run", "--report=none", "--", "echo", "x"); r.status != 0 || r.stdout != "x\n" {
		t.Errorf("a job beside it: %+v", r)
	}
	od = other.serve()
	left("its daemon is down, the other was restarted")
	if r := other.hookhost("doctor", "--json"); !strings.Contains(r.stdout, job+": recorded in "+n.path("state")) {
		t.Errorf("doctor: %+v", r)
	}
	if log, err := os.ReadFile(other.path("log")); err != nil || strings.Count(string(log), "left alone, as all jobs that are recorded in "+n.path("state")) != 2 {
		t.Errorf("not told once by each daemon: %v", err)
	}
	d = n.serve()
	if s := n.state(job); s == "" {
		t.Error("its daemon has lost the job")
	}
	d.stop()
	od.stop()
	must(t, os.RemoveAll(other.path("state")), os.Rename(n.path("state"), other.path("state")))
	other.serve()
	if s := other.state(job); s == "" {
		t.Error("lost with the directory's old name")
	}
	if r := other.hookhost("doctor", "--json"); strings.Contains(r.stdout, "jobs of another host") {
		t.Errorf("doctor: %+v", r)
	}
	if r := other.event("execjob_end", job, ""); r.status != 0 {
		t.Errorf("end: %+v", r)
	}
	eventually(t, "the process is killed", func() bool { return syscall.Kill(pid, 0) != nil })
}

// program is the path of an imported hook's program.
func (n *node) program(hook string) string {
	n.t.Helper()
	text, err := os.ReadFile(n.path("hooks.d/" + hook + ".toml"))
	must(n.t, err)
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, "="); ok && strings.TrimSpace(key) == "program" {
			return strings.Trim(value, " \"'\n")
		}
	}
	n.t.Fatalf("no program in %s", text)
	return ""
}

// A state directory was copied, and the first one is still there: who starts with the copy has the jobs, and ends them. Who starts with
// the first one afterwards has records of jobs that are over, and harms no job that has begun since.
func TestCopiedStateDirectory(t *testing.T) {
	n := newNode(t)
	n.open()
	d := n.serve()
	const ended, again = "1.copied", "2.copied"
	pids := map[string]int{}
	begin := func(n *node, job string) {
		t.Helper()
		if r := n.event("execjob_begin", job, ""); r.status != 0 {
			t.Fatalf("%s: not begun", job)
		}
		pids[job] = n.attachAll(t, 1, job, "sleep", "1000")[0]
	}
	lives := func(job string) bool { return syscall.Kill(pids[job], 0) == nil && inJob(t, pids[job], job) }
	over := func(n *node, job string) {
		t.Helper()
		eventually(t, "the process of "+job+" is killed", func() bool { return syscall.Kill(pids[job], 0) != nil })
		if s := n.state(job); s != "" {
			t.Errorf("%s has ended and is %s", job, s)
		}
		if dirs := strings.Join(n.jobDirs(), " "); strings.Contains(dirs, job) {
			t.Errorf("%s has ended, and left %s", job, dirs)
		}
	}
	end := func(n *node, job string) {
		t.Helper()
		if r := n.event("execjob_end", job, ""); r.status != 0 {
			t.Errorf("end %s: %+v", job, r)
		}
		over(n, job)
	}
	begin(n, ended)
	begin(n, again)
	d.stop()
	other := n.twin()
	other.open()
	if out, err := exec.Command("cp", "-a", n.path("state"), other.path("state")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}

	// With a hook that fails, and the cgroup's not there, the host removes what the job has.
	other.commands("hook set cgroup enabled=false", "hook create deny", "hook set deny event=execjob_end",
		"hook import deny application/x-executable default "+filepath.Join(built, "samples/deny"))
	must(t, os.Remove(other.program("deny")))
	od := other.serve()
	if r := other.event("execjob_end", again, ""); r.status != 1 {
		t.Errorf("end with a hook that cannot be started: %+v", r)
	}
	over(other, again)
	od.stop()
	other.commands("hook delete deny", "hook set cgroup enabled=true")

	od = other.serve()
	if s := other.state(ended); s != "running" || !lives(ended) {
		t.Fatalf("the job is %q with the copy", s)
	}
	od.stop()
	od = other.serve()
	end(other, ended)
	begin(other, again)
	od.stop()

	d = n.serve()
	if r := n.tell("exechost_periodic", "{}"); r.status != 0 {
		t.Errorf("periodic: %+v", r)
	}
	if r := n.event("execjob_end", ended, ""); r.status != 0 {
		t.Errorf("end of what has ended: %+v", r)
	}
	if r := n.event("execjob_end", again, ""); r.status != 1 || !strings.Contains(r.stdout, "its cgroup says that its record is in "+other.path("state")) {
		t.Errorf("end of an older run: %+v", r)
	}
	if !lives(again) {
		t.Fatal("the record of an older run has ended the job")
	}
	d.stop()
	other.serve()
	if s := other.state(again); s == "" || !lives(again) {
		t.Errorf("the job is %q", s)
	}
	end(other, again)
}
