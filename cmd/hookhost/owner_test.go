package main_test

import (
	"strings"
	"syscall"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

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
