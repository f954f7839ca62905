package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
)

// A job whose record was lost goes on with what the kernel still has of it.
func TestRecover(t *testing.T) {
	n := newNode(t)
	asked := 0
	n.options = func(o *Options) {
		o.Recover = func(_ context.Context, id string) (*jobstate.Record, error) {
			asked++
			if id != "1.srv" {
				return nil, nil
			}
			return &jobstate.Record{Job: event(hostapi.EventBegin, id).Job, Phase: jobstate.PhasePrerun}, nil
		}
	}
	h := n.open()
	must(t, h, hostapi.EventLaunch, "1.srv")
	if rec := n.record("1.srv"); rec == nil || rec.Phase != jobstate.PhaseRunning || rec.Host != self {
		t.Fatalf("record %+v", rec)
	}
	must(t, h, hostapi.EventEnd, "1.srv")
	if asked != 1 || len(n.reports()) != 1 {
		t.Errorf("asked %d times, %d reports", asked, len(n.reports()))
	}
	if v := judge(t, h, hostapi.EventLaunch, "2.srv"); !v.Reject || v.OnReject != hostapi.JobActionRerun {
		t.Errorf("a job that is nowhere: %+v", v.Outcome)
	}
}

// stuckRemover fails until it is freed.
type stuckRemover struct {
	remover
	stuck bool
}

func (r *stuckRemover) RemoveJob(ctx context.Context, id string) error {
	if r.stuck {
		return errors.New("a process in state D")
	}
	return r.remover.RemoveJob(ctx, id)
}

// A job of which something is left is not forgotten: its end is tried again until nothing is.
func TestEndIsTriedAgain(t *testing.T) {
	n := newNode(t)
	n.hook("a", "misbehave", fmt.Sprintf("mode = %q\nevent = %q\nvalue = %q", "error", "execjob_end", "node"))
	stuck := &stuckRemover{stuck: true}
	n.options = func(o *Options) { o.Fallback = stuck }
	h := n.open()
	must(t, h, hostapi.EventBegin, "1.srv")
	must(t, h, hostapi.EventLaunch, "1.srv")
	if v := judge(t, h, hostapi.EventEnd, "1.srv"); !v.Reject || !strings.Contains(v.Message, "state D") {
		t.Fatalf("end: %+v", v.Outcome)
	}
	for range 2 {
		if rec := n.record("1.srv"); rec == nil || rec.Timers[endTimer].At.IsZero() || len(n.reports()) != 0 {
			t.Fatalf("record %+v, %d reports; want it kept", rec, len(n.reports()))
		}
		if err := h.Reconcile(t.Context()); err == nil || strings.Count(err.Error(), "1.srv") != 1 {
			t.Errorf("reconcile: %v, want the job named once", err)
		}
	}
	stuck.stuck = false
	h.Reconcile(t.Context()) // the hook still fails
	if n.record("1.srv") != nil || len(n.reports()) != 1 {
		t.Errorf("record %+v, %d reports; want it settled", n.record("1.srv"), len(n.reports()))
	}
	if b, _, err := n.ledger.Last(t.Context(), "1.srv"); err != nil || !strings.Contains(string(b), endOnce) {
		t.Errorf("report %s, %v", b, err)
	}
}

// Nor is one that was never begun but of which something is left; the next begin ends that first.
func TestUndoIsTriedAgain(t *testing.T) {
	n := newNode(t)
	n.hook("a", "misbehave", fmt.Sprintf("mode = %q\nonce = %q\nevent = %q\nvalue = %q", "error", filepath.Join(n.dir, "once"), "execjob_abort", "node"), "order=1")
	n.hook("b", "deny", "most = 1", "order=2")
	stuck := &stuckRemover{stuck: true}
	n.options = func(o *Options) { o.Fallback = stuck }
	h := n.open()
	req := event(hostapi.EventBegin, "1.srv")
	req.Job.ResourceList = hostapi.Resources{"ncpus": "2"}
	if v, err := h.Judge(t.Context(), req); err != nil || !v.Reject || !strings.Contains(v.Message, "state D") {
		t.Fatal(v, err)
	}
	if rec := n.record("1.srv"); rec == nil || rec.Timers[endTimer].At.IsZero() {
		t.Fatalf("record %+v, want it kept", rec)
	}
	must(t, h, hostapi.EventBegin, "1.srv")
	if rec := n.record("1.srv"); rec == nil || rec.Begun.IsZero() || rec.Phase != jobstate.PhasePrerun || len(n.reports()) != 0 {
		t.Errorf("record %+v, %d reports; want it begun anew", rec, len(n.reports()))
	}
}

// A job whose record cannot be written goes its way, and its report is whole.
func TestJobEndsWhileItsRecordCannotBeWritten(t *testing.T) {
	n := newNode(t)
	failures := make(chan error, 100)
	var err error
	if n.store, err = jobstate.Open(filepath.Join(n.dir, "jobs"), func(err error) { failures <- err }); err != nil {
		t.Fatal(err)
	}
	n.hook("a", "misbehave", "mode = \"used\"\nevent = \"execjob_epilogue\"\nvalue = \"mem=12kb\"")
	if err := os.Mkdir(filepath.Join(n.dir, "jobs", "1.srv.json.new"), 0o700); err != nil {
		t.Fatal(err)
	}
	h := n.open()
	must(t, h, hostapi.EventBegin, "1.srv")
	must(t, h, hostapi.EventLaunch, "1.srv")
	must(t, h, hostapi.EventEpilogue, "1.srv")
	req := event(hostapi.EventEnd, "1.srv")
	req.Job.ExitStatus = new(3)
	if v, err := h.Judge(t.Context(), req); err != nil || v.Reject {
		t.Fatal(v, err)
	}
	b, _, err := n.ledger.Last(t.Context(), "1.srv")
	if err != nil || !strings.Contains(string(b), `"mem":"12kb"`) || !strings.Contains(string(b), `"exit_status":3`) {
		t.Errorf("report %s, %v", b, err)
	}
	if n.record("1.srv") != nil || len(failures) != 1 {
		t.Errorf("record %+v, %d failures; want none and one", n.record("1.srv"), len(failures))
	}
}
