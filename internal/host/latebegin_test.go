package host

import (
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
)

// A job that was dropped too early, or whose begin was never seen, begins at its prologue or
// launch.
func TestLateBegin(t *testing.T) {
	for _, e := range []hostapi.Event{hostapi.EventPrologue, hostapi.EventLaunch} {
		t.Run(string(e), func(t *testing.T) {
			n := newPBSNode(t, &momFiles{jobs: map[string]bool{"1.srv": true, "4.srv": true, "5.srv": true}})
			n.builtIn("b", "mode = 'used'\nevent = 'execjob_begin'\nvalue = 'mem=0kb'")
			h := n.open()
			h.opt.Populated = func(id string) (bool, error) { return id == "5.srv", nil }
			out := fromPBS(t, h, requestOf(e, "1.srv"))
			want := "begin " + strings.TrimPrefix(string(e), "execjob_")
			rec := n.record("1.srv")
			if out.Reject || out.ResourcesUsed["mem"] != "0kb" || n.events("1.srv") != want || rec == nil || !rec.PBS ||
				rec.Launched.IsZero() == (e == hostapi.EventLaunch) {
				t.Errorf("%+v, events %q, record %+v", out, n.events("1.srv"), rec)
			}
			// nothing to begin a job for
			for _, other := range []hostapi.Event{hostapi.EventPreterm, hostapi.EventPostsuspend} {
				if out := fromPBS(t, h, requestOf(other, "2.srv")); out.Reject || n.record("2.srv") != nil {
					t.Errorf("%s: %+v", other, out)
				}
			}
			if v := judge(t, h, e, "3.srv"); !v.Reject || v.OnReject != hostapi.JobActionRerun ||
				n.events("3.srv") != "" {
				t.Errorf("another MoM's: %+v", v.Outcome)
			}
			counted := requestOf(e, "4.srv")
			counted.Job.ResourcesUsed = hostapi.Resources{"mem": "7kb"}
			if out := fromPBS(t, h, counted); out.Reject || len(out.ResourcesUsed) != 0 || n.record("4.srv") == nil {
				t.Errorf("of a job that MoM has counted for: %+v", out)
			}
			if out := fromPBS(t, h, requestOf(e, "5.srv")); !out.Reject || n.events("5.srv") != "" ||
				n.record("5.srv") != nil {
				t.Errorf("of a job that runs already: %+v, events %q", out, n.events("5.srv"))
			}
			if out := fromPBS(t, h, requestOf(e, "6.srv")); !out.Reject || n.events("6.srv") != "" ||
				n.record("6.srv") != nil {
				t.Errorf("of a job that MoM does not have: %+v, events %q", out, n.events("6.srv"))
			}
		})
	}
	t.Run("refused", func(t *testing.T) {
		n := newPBSNode(t, &momFiles{jobs: map[string]bool{"1.srv": true}})
		n.hook("b", "misbehave", "mode = 'error'\nevent = 'execjob_begin'\nvalue = 'internal'", "order=2")
		h := n.open()
		out := fromPBS(t, h, requestOf(hostapi.EventPrologue, "1.srv"))
		if !out.Reject || out.OnReject != hostapi.JobActionHold || !strings.HasSuffix(out.Message, heldText) ||
			n.events("1.srv") != "begin abort" || n.record("1.srv") != nil {
			t.Errorf("%+v, events %q", out, n.events("1.srv"))
		}
	})
}

// Where none of hookhost's own hooks is on, a job that began before PBS had hookhost goes on. For
// example, pbs_cgroups confines it, in a cgroup with processes.
func TestJobWithoutABeginGoesOnWhereHookhostConfinesNone(t *testing.T) {
	n := newPBSNode(t, &momFiles{jobs: map[string]bool{"1.srv": true}})
	h := n.open()
	h.opt.Populated = func(string) (bool, error) { return true, nil }
	for _, e := range []hostapi.Event{hostapi.EventLaunch, hostapi.EventAttach, hostapi.EventResize} {
		if out := fromPBS(t, h, requestOf(e, "1.srv")); out.Reject {
			t.Errorf("%s: %s", e, out.Message)
		}
	}
	if n.events("1.srv") != "" || n.record("1.srv") != nil {
		t.Errorf("events %q, record %+v", n.events("1.srv"), n.record("1.srv"))
	}
}

// A run that has ended does not begin once more where MoM's child starts it beside its end. The
// next run does.
func TestLateBeginOfARunThatHasEnded(t *testing.T) {
	for _, e := range []hostapi.Event{hostapi.EventPrologue, hostapi.EventLaunch} {
		t.Run(string(e), func(t *testing.T) {
			n := newPBSNode(t, &momFiles{jobs: map[string]bool{"1.srv": true}})
			h := n.open()
			of := func(e hostapi.Event, version int) *hostapi.Request {
				req := requestOf(e, "1.srv")
				req.Job.RunVersion = version
				return req
			}
			fromPBS(t, h, of(hostapi.EventBegin, 2))
			fromPBS(t, h, of(hostapi.EventEnd, 2))
			for version := 1; version <= 2; version++ {
				out := fromPBS(t, h, of(e, version))
				if !out.Reject || out.OnReject != hostapi.JobActionRerun || n.record("1.srv") != nil ||
					!strings.HasSuffix(out.Message, "has ended here") {
					t.Errorf("of run %d after the end of run 2: %+v, record %+v", version, out, n.record("1.srv"))
				}
			}
			if events := n.events("1.srv"); events != "begin end" || len(n.reports()) != 1 {
				t.Errorf("events %q, reports %v", events, n.reports())
			}
			if out := fromPBS(t, h, of(e, 3)); out.Reject || n.record("1.srv") == nil {
				t.Errorf("of the next run: %+v", out)
			}
		})
	}
}

// A start of another run than the record's does not join that run: the earlier run is refused, and
// the later one begins. Processes left of the record's run do not prevent that.
func TestStartOfAnotherRun(t *testing.T) {
	for _, e := range []hostapi.Event{hostapi.EventPrologue, hostapi.EventLaunch} {
		t.Run(string(e), func(t *testing.T) {
			n := newPBSNode(t, &momFiles{jobs: map[string]bool{"1.srv": true}})
			h := n.open()
			h.opt.Populated = func(string) (bool, error) { return true, nil }
			of := func(e hostapi.Event, version int) *hostapi.Request {
				req := requestOf(e, "1.srv")
				req.Job.RunVersion = version
				return req
			}
			fromPBS(t, h, of(hostapi.EventBegin, 2))
			if out := fromPBS(t, h, of(e, 1)); !out.Reject || out.OnReject != hostapi.JobActionRerun ||
				n.record("1.srv").Phase != hostapi.PhasePrerun || n.events("1.srv") != "begin" {
				t.Errorf("of the run before: %+v, record %+v", out, n.record("1.srv"))
			}
			fromPBS(t, h, of(hostapi.EventLaunch, 2))
			out, rec := fromPBS(t, h, of(e, 4)), n.record("1.srv")
			want := "begin launch epilogue end begin " + strings.TrimPrefix(string(e), "execjob_")
			if out.Reject || rec == nil || rec.Job.RunVersion != 4 || n.events("1.srv") != want ||
				len(n.reports()) != 1 {
				t.Errorf("of the run after: %+v, record %+v, events %q", out, rec, n.events("1.srv"))
			}
		})
	}
}

// A job that MoM started although its begin was interrupted begins again. The next daemon does not
// end it.
func TestStartOfAJobWhoseBeginWasInterrupted(t *testing.T) {
	n := newPBSNode(t, &momFiles{jobs: map[string]bool{"1.srv": true}})
	n.put("1.srv", hostapi.PhasePrerun, 0, func(rec *jobstate.Record) {
		rec.Host, rec.Begun = hostapi.ProcessID{PID: 4_000_004, StartTime: 3}, time.Time{}
	})
	h := n.open()
	if out := fromPBS(t, h, requestOf(hostapi.EventLaunch, "1.srv")); out.Reject {
		t.Fatal(out.Message)
	}
	if err := h.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	if rec := n.record("1.srv"); rec == nil || rec.Begun.IsZero() || n.events("1.srv") != "abort begin launch" {
		t.Errorf("record %+v, events %q", rec, n.events("1.srv"))
	}
}
