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

// What an end finds out while the store does not work is in the report once it does.
func TestEndWithoutStore(t *testing.T) {
	for _, last := range []hostapi.Event{hostapi.EventEpilogue, hostapi.EventEnd} {
		t.Run(string(last), func(t *testing.T) {
			n := newNode(t)
			n.hook("a", "misbehave", fmt.Sprintf("mode = %q\nonce = %q\nevent = %q\nvalue = %q", "used", filepath.Join(n.dir, "once"), last, "mem=12kb"))
			h := n.open()
			must(t, h, hostapi.EventBegin, "1.srv")
			must(t, h, hostapi.EventLaunch, "1.srv")
			state := filepath.Join(n.dir, "state", "jobs.db")
			if err := os.Rename(state, state+".away"); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(state, 0o700); err != nil {
				t.Fatal(err)
			}
			req := event(last, "1.srv")
			req.Job.ExitStatus = new(3)
			if v, err := h.Judge(t.Context(), req); err != nil || !v.Reject || v.Kind != hostapi.KindNode {
				t.Fatalf("%+v, %v; want a node error", v, err)
			}
			if err := h.Reconcile(t.Context()); err == nil {
				t.Error("reconcile without a store succeeds")
			}
			if err := os.Remove(state); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(state+".away", state); err != nil {
				t.Fatal(err)
			}
			if err := h.Reconcile(t.Context()); err != nil {
				t.Fatal(err)
			}
			if last == hostapi.EventEpilogue {
				must(t, h, hostapi.EventEnd, "1.srv")
			}
			b, _, err := n.ledger.Last(t.Context(), "1.srv")
			if err != nil || !strings.Contains(string(b), `"mem":"12kb"`) || !strings.Contains(string(b), `"exit_status":3`) || n.record("1.srv") != nil {
				t.Errorf("report %s, %v", b, err)
			}
			if len(h.owed) != 0 {
				t.Errorf("%d jobs owed", len(h.owed))
			}
		})
	}
}
