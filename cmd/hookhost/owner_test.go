package main_test

import (
	"fmt"
	"os"
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

// No command starts a daemon: each says how.
func TestCommandsWithoutADaemonSayHowToStartIt(t *testing.T) {
	n := newNode(t)
	const remedy = "no daemon runs: systemctl start hookhost, or hookhost serve &\n"
	for _, tt := range []struct {
		status int
		args   []string
	}{
		{125, []string{"run", "--", "touch", n.path("ran")}},
		{3, []string{"event", "exechost_periodic", "--input", n.path("event")}},
		{1, []string{"jobs"}},
		{1, []string{"top", "--once"}},
		{1, []string{"attach", "-p", fmt.Sprint(os.Getpid())}},
	} {
		must.NoError(t, os.WriteFile(n.path("event"), []byte("{}"), 0o600))
		began := time.Now()
		r := n.finish(n.alone(tt.args...))
		if r.status != tt.status || !strings.HasSuffix(r.stderr, remedy) || strings.Count(r.stderr, "\n") != 1 {
			t.Errorf("%v: %+v", tt.args, r)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%v: after %v", tt.args, took)
		}
	}
	if exists(n.path("ran")) || n.owner() != 0 {
		t.Error("the job ran, or a daemon is there")
	}
}

// Root has the reports of finished jobs without a daemon.
func TestReportOfAFinishedJobNeedsNoDaemon(t *testing.T) {
	n := newNode(t)
	if r := n.hookhost("run", "--report=none", "--", "true"); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	n.endDaemon()
	if exists(n.path("run/s")) || len(n.jobDirs()) > 0 {
		t.Error("the socket or a cgroup is left")
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
	n := newNode(t)
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
}

// A job needs its daemon at its events and for its limits, not for its life.
func TestJobOutlivesItsDaemon(t *testing.T) {
	n := newNode(t)
	d := n.serve()
	job := n.start("run", "--job", "5.x", "--report=json", "--", "sh", "-c", "echo started; read x; exit 0")
	d.kill()
	job.stdin.Close() // the job ends while no daemon is there
	time.Sleep(200 * time.Millisecond)
	n.serve()
	if rep := job.report(t); rep.ExitStatus == nil || *rep.ExitStatus != 0 {
		t.Errorf("report %+v", rep)
	}
}
