package main_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/must"
)

// Two daemons with the same cgroups would be two owners of a node's jobs, wherever their sockets
// and records are.
func TestSecondDaemonIsRefusedWithThePidOfTheFirst(t *testing.T) {
	n := newNode(t)
	d := n.serve()
	for _, args := range [][]string{
		{"serve"},
		{"serve", "--socket", n.path("run2/s"), "--state", n.path("state2")},
	} {
		r := n.hookhost(args...)
		want := fmt.Sprintf("already running, pid %d", d.cmd.Process.Pid)
		if r.status != 1 || !strings.Contains(r.stderr, n.prefix+".lock") || !strings.Contains(r.stderr, want) {
			t.Errorf("%v: status %d, stderr %q, want %q", args, r.status, r.stderr, want)
		}
	}
	if r := n.hookhost("run", "--report=none", "--", "true"); r.status != 0 {
		t.Errorf("the first one does not serve: %+v", r)
	}
	d.kill()
	n.serve() // the kernel has dropped the lock
}

// The files of jobs and hooks lie beside the socket, and each daemon removes those that it has no
// job for.
func TestDaemonOfAnotherPrefixIsRefusedBesideTheSocketOfTheFirst(t *testing.T) {
	n, other := newNode(t), newNode(t)
	d := n.serve()
	r := other.hookhost("serve", "--socket", n.path("run/s2"))
	want := fmt.Sprintf("already running, pid %d", d.cmd.Process.Pid)
	if r.status != 1 || !strings.Contains(r.stderr, n.path("run")) || !strings.Contains(r.stderr, want) {
		t.Errorf("status %d, stderr %q, want %q", r.status, r.stderr, want)
	}
	r = other.hookhost("run", "--socket", n.path("run/s2"), "--", "true")
	if r.status != 125 || !strings.Contains(r.stderr, want) {
		t.Errorf("run: status %d, stderr %q, want %q", r.status, r.stderr, want)
	}
	other.serve() // in a directory of its own
}

// A daemon whose prefix was changed does not end what lives below the one before.
func TestJobsOfAnotherPrefixAreLeftToIt(t *testing.T) {
	n := newNode(t)
	d := n.serve()
	if r := n.event("execjob_begin", "5.x", ""); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	d.stop()
	other := newNode(t)
	cmd := other.command("serve", "--socket", n.path("run/s"))
	must.NoError(t, cmd.Start())
	must.Eventually(t, "the other daemon answers", func() bool { return n.command("jobs").Run() == nil })
	if r := n.hookhost("jobs"); strings.Contains(r.stdout, "5.x") {
		t.Errorf("it has the job: %s", r.stdout)
	}
	must.NoError(t, cmd.Process.Signal(syscall.SIGTERM), cmd.Wait())
	n.serve()
	if r := n.hookhost("jobs"); !strings.Contains(r.stdout, "5.x") {
		t.Errorf("the job is lost: %s", r.stdout)
	}
	n.event("execjob_end", "5.x", "")
}

func TestRunWithoutADaemonLeavesNothingBehindAfterSeconds(t *testing.T) {
	n := newNode(t)
	if r := n.hookhost("run", "--report=none", "--", "true"); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	pid := n.owner()
	if pid == 0 {
		t.Fatal("no daemon is there for the next command")
	}
	hooks := hookPIDs(pid)
	began := time.Now()
	must.Eventually(t, "the daemon has gone", func() bool { return n.owner() == 0 })
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the daemon has stayed for %v", took)
	}
	for _, hook := range append(hooks, pid) {
		must.Eventually(t, "its processes have ended", func() bool { return syscall.Kill(hook, 0) != nil })
	}
	if exists(n.path("run/s")) || len(n.jobDirs()) > 0 {
		t.Error("the socket or a cgroup is left")
	}
	if r := n.hookhost("jobs"); r.status != 1 || !strings.Contains(r.stderr, "no daemon runs") ||
		!strings.Contains(r.stderr, "systemctl start hookhost, or hookhost serve") {
		t.Errorf("jobs: %+v", r)
	}
	job := "1." + hostNameOf(t)
	if r := n.hookhost("report", job, "--format=json"); r.status != 0 || !strings.Contains(r.stdout, job) {
		t.Errorf("report of a finished job: %+v", r)
	}
	if r := n.hookhost("report", "2."+hostNameOf(t)); r.status != 1 || !strings.Contains(r.stderr, "no daemon runs") {
		t.Errorf("report of no job: %+v", r)
	}
}

func hostNameOf(t *testing.T) string {
	t.Helper()
	name, err := os.Hostname()
	must.NoError(t, err)
	name, _, _ = strings.Cut(name, ".")
	return name
}

func TestKilledRunEndsItsJobAtOnceAndLeavesNoFiles(t *testing.T) {
	both(t, func(t *testing.T, n *node) {
		files := []string{n.path("run/aux/4711.killed"), "/var/tmp/pbs.4711.killed"}
		cmd := n.command("run", "--job", "4711.killed", "-l", "ncpus=2", "--report=none", "--", "sleep", "1000.5")
		must.NoError(t, cmd.Start())
		must.Eventually(t, "the job runs", func() bool { return len(processesNamed("sleep", "1000.5")) > 0 })
		for _, f := range files {
			if !exists(f) {
				t.Errorf("%s is not there while the job runs", f)
			}
		}
		cmd.Process.Kill()
		cmd.Wait()
		must.Eventually(t, "the daemon ends the job", func() bool {
			return len(n.jobDirs()) == 0 && len(processesNamed("sleep", "1000.5")) == 0
		})
		if r := n.hookhost("run", "-l", "ncpus=2", "--report=none", "--", "true"); r.status != 0 {
			t.Errorf("next run: status %d, stderr %q", r.status, r.stderr)
		}
		for _, f := range files {
			must.Eventually(t, f+" is removed", func() bool { return !exists(f) })
		}
	})
}

func TestRunsAtOnceShareADaemon(t *testing.T) {
	n := newNode(t)
	gate := n.path("gate")
	must.NoError(t, syscall.Mkfifo(gate, 0o600))
	var jobs []*exec.Cmd
	for i := range 4 {
		cmd := n.command("run", "-l", "ncpus=0", "--report=none", "--", "sh", "-c",
			fmt.Sprintf("touch %s; read x < %s", n.path(fmt.Sprint("ready", i)), gate))
		cmd.Stderr = os.Stderr
		must.NoError(t, cmd.Start())
		jobs = append(jobs, cmd)
	}
	for i := range jobs {
		must.Eventually(t, "the job runs", func() bool { return exists(n.path(fmt.Sprint("ready", i))) })
	}
	if r := n.hookhost("jobs"); strings.Count(r.stdout, "running") != len(jobs) {
		t.Errorf("not all jobs are one daemon's: %+v", r)
	}
	f, err := os.OpenFile(gate, os.O_RDWR, 0)
	must.NoError(t, err)
	defer f.Close()
	fmt.Fprint(f, strings.Repeat("go\n", len(jobs)))
	for _, cmd := range jobs {
		must.NoError(t, cmd.Wait())
	}
	log, err := os.ReadFile(n.path("state/until-idle.log"))
	must.NoError(t, err)
	if got := strings.Count(string(log), "hookhost serves"); got != 1 {
		t.Errorf("%d daemons have served:\n%s", got, log)
	}
}

func TestStartFailureOfTheDaemonIsTheErrorOfRun(t *testing.T) {
	n := newNode(t)
	must.NoError(t, os.MkdirAll(n.path("run"), 0o755), os.WriteFile(n.path("run/s"), nil, 0o600))
	const want = "there is a file that is not a socket"
	if r := n.hookhost("run", "--", "touch", n.path("ran")); r.status != 125 || !strings.Contains(r.stderr, want) ||
		strings.Count(r.stderr, "\n") != 1 {
		t.Errorf("run: %+v", r)
	}
	if r := n.event("execjob_begin", "1.x", ""); r.status != 3 || !strings.Contains(r.stderr, want) {
		t.Errorf("event: %+v", r)
	}
	if exists(n.path("ran")) || n.owner() != 0 {
		t.Error("the job ran, or a daemon is left")
	}
}

// A job needs its daemon at its events and for its limits, not for its life.
func TestJobOutlivesTheDaemonThatRunHasStarted(t *testing.T) {
	n := newNode(t)
	job := n.start("run", "--job", "5.x", "--report=json", "--", "sh", "-c", "echo started; read x; exit 0")
	first := n.owner()
	must.NoError(t, syscall.Kill(first, syscall.SIGKILL))
	next := 0
	must.Eventually(t, "run has another daemon", func() bool { next = n.owner(); return next != 0 && next != first })
	must.Eventually(t, "the next daemon has the job",
		func() bool { return strings.Contains(n.hookhost("jobs").stdout, "running") })
	job.stdin.Close()
	if rep := job.report(t); rep.ExitStatus == nil || *rep.ExitStatus != 0 {
		t.Errorf("report %+v", rep)
	}
}

// The daemon of a `run` makes room for the node's, which takes its jobs over.
func TestDaemonThatStaysReplacesTheOneThatRunHasStarted(t *testing.T) {
	n := newNode(t)
	job := n.start("run", "--job", "6.x", "--report=json", "--", "sh", "-c", "echo started; read x; exit 0")
	d := n.serveBy((*exec.Cmd).Start)
	must.Eventually(t, "the daemon that stays is the owner", func() bool { return n.owner() == d.cmd.Process.Pid })
	must.Eventually(t, "it has the job", func() bool { return strings.Contains(n.hookhost("jobs").stdout, "running") })
	job.stdin.Close()
	if rep := job.report(t); rep.ExitStatus == nil || *rep.ExitStatus != 0 {
		t.Errorf("report %+v", rep)
	}
}

// Somebody who waits for the end of a file of the caller's does not wait for the daemon.
func TestDaemonOfRunHoldsNoFilesOfItsCaller(t *testing.T) {
	n := newNode(t)
	r, w, err := os.Pipe()
	must.NoError(t, err)
	defer r.Close()
	cmd := n.command("run", "--report=none", "--", "true")
	cmd.ExtraFiles = []*os.File{w}
	must.NoError(t, cmd.Run(), w.Close())
	if n.owner() == 0 {
		t.Fatal("the daemon has gone already")
	}
	must.NoError(t, r.SetReadDeadline(time.Now().Add(2*time.Second)))
	if _, err := io.ReadAll(r); err != nil {
		t.Errorf("the file is held open: %v", err)
	}
}
