package main_test

import (
	"fmt"
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
