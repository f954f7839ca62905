package host

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
)

const (
	thisRun  = "0123456789abcdef0123456789abcdef"
	otherRun = "fedcba9876543210fedcba9876543210"
)

// from makes an event that another host sent.
func from(head, run string, e hostapi.Event, id string) *hostapi.Request {
	r := event(e, id)
	r.Head, r.Run = head, run
	r.Job.MotherSuperior = false
	return r
}

// A host's events touch the job and the run that this host has from there, and nothing else. The
// end of anything else is accepted, so that it may be repeated.
func TestEventsOfAHost(t *testing.T) {
	for _, tt := range []struct{ name, head, run string }{
		{"pbs_mom's job", "", ""},
		{"another head's job", "n3", thisRun},
		{"another run", "n1", otherRun},
		{"a run of this host's own", "", thisRun},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t)
			n.hook("a", "misbehave", fmt.Sprintf("log = %q", filepath.Join(n.dir, "log")))
			h := n.open()
			if v, err := h.Judge(t.Context(), from(tt.head, tt.run, hostapi.EventBegin, "1.srv")); err != nil ||
				v.Reject {
				t.Fatal(v, err)
			}
			if tt.head == "" { // begin of this host gives a run to jobs that it spreads alone
				own := func(rec *jobstate.Record) { rec.Run = tt.run }
				h.change(own, "1.srv")
			}
			before, calls := n.record("1.srv"), len(n.calls("log"))
			if before.Head != tt.head || before.Run != tt.run {
				t.Fatalf("record: head %q, run %q", before.Head, before.Run)
			}
			for e, accepted := range map[hostapi.Event]bool{
				hostapi.EventPrologue: false, hostapi.EventResize: false, hostapi.EventPostsuspend: false,
				hostapi.EventPreresume: false,
				hostapi.EventPreterm:   true, hostapi.EventAbort: true, hostapi.EventEpilogue: true,
				hostapi.EventEnd: true,
			} {
				for _, id := range []string{"1.srv", "9.srv"} {
					v, err := h.Judge(t.Context(), from("n1", thisRun, e, id))
					if (err == nil) != accepted || err == nil && v.Reject || err != nil &&
						(hostapi.KindOf(err) != hostapi.KindJob ||
							!strings.HasSuffix(err.Error(), "job "+id+": not found")) {
						t.Errorf("%s of job %s: %+v, %v; want accepted %t", e, id, v, err, accepted)
					}
				}
			}
			if got := n.calls("log"); len(got) != calls {
				t.Errorf("hooks were called: %q", got[calls:])
			}
			if rec := n.record("1.srv"); rec == nil || rec.Phase != before.Phase {
				t.Errorf("the job was touched: %+v", rec)
			}
			if n.record("9.srv") != nil || len(n.reports()) != 0 {
				t.Error("there is a job that never was")
			}
		})
	}
}

// A job of another host from its begin to its end, each event of which may come twice.
func TestJobOfAHead(t *testing.T) {
	n := newNode(t)
	n.hook("a", "misbehave", fmt.Sprintf("log = %q", filepath.Join(n.dir, "log")))
	h := n.open()
	for _, e := range []hostapi.Event{hostapi.EventBegin, hostapi.EventBegin, hostapi.EventPrologue,
		hostapi.EventEpilogue, hostapi.EventEpilogue, hostapi.EventEnd,
		hostapi.EventEpilogue, hostapi.EventEnd} {
		if v, err := h.Judge(t.Context(), from("n1", thisRun, e, "1.srv")); err != nil || v.Reject {
			t.Fatalf("%s: %+v, %v", e, v, err)
		}
	}
	if n.record("1.srv") != nil || len(n.reports()) != 1 {
		t.Errorf("record %+v, reports %v; want one report", n.record("1.srv"), n.reports())
	}
	var calls []string
	for _, call := range n.calls("log") {
		if e, ok := strings.CutPrefix(strings.Fields(call)[0], "execjob_"); ok {
			calls = append(calls, e)
		}
	}
	if got := strings.Join(calls, " "); got != "begin begin prologue epilogue epilogue end" {
		t.Errorf("hooks saw %s", got)
	}
}

// A begin finds a record under the same id: the job begins, is over or is busy.
func TestStandingOfHeads(t *testing.T) {
	begun := time.Now()
	n := newNode(t)
	h := n.open()
	for _, tt := range []struct {
		name      string
		there     jobstate.Record
		head, run string
		want      string // begin, over or busy
	}{
		{"same run that began and got no answer",
			jobstate.Record{Head: "n1", Run: thisRun, Phase: jobstate.PhasePrerun}, "n1", thisRun, "begin"},
		{"same run that runs", jobstate.Record{Head: "n1", Run: thisRun, Phase: jobstate.PhaseRunning}, "n1", thisRun,
			"busy"},
		{"another run of the same head", jobstate.Record{Head: "n1", Run: otherRun, Phase: jobstate.PhaseRunning}, "n1",
			thisRun, "over"},
		{"another run that is ending", jobstate.Record{Head: "n1", Run: otherRun, Phase: jobstate.PhaseExiting}, "n1",
			thisRun, "over"},
		{"another head's", jobstate.Record{Head: "n3", Run: thisRun, Phase: jobstate.PhasePrerun}, "n1", thisRun,
			"busy"},
		{"another head's that is ending", jobstate.Record{Head: "n3", Run: otherRun, Phase: jobstate.PhaseExiting},
			"n1", thisRun, "busy"},
		{"pbs_mom's", jobstate.Record{Phase: jobstate.PhaseRunning}, "n1", thisRun, "busy"},
		{"pbs_mom's that is ending", jobstate.Record{Phase: jobstate.PhaseExiting}, "n1", thisRun, "busy"},
		{"a head's, begun by pbs_mom", jobstate.Record{Head: "n1", Run: thisRun, Phase: jobstate.PhaseRunning}, "", "",
			"busy"},
		{"a head's that is ending, begun by pbs_mom",
			jobstate.Record{Head: "n1", Run: thisRun, Phase: jobstate.PhaseExiting}, "", "", "busy"},
		{"pbs_mom's own", jobstate.Record{Phase: jobstate.PhasePrerun}, "", "", "begin"},
	} {
		tt.there.Job, tt.there.Host, tt.there.Begun = event(hostapi.EventBegin, "1.srv").Job, self, begun
		over, err := h.standing(&tt.there, from(tt.head, tt.run, hostapi.EventBegin, "1.srv"))
		got := "begin"
		switch {
		case hostapi.KindOf(err) == hostapi.KindBusy && err != nil:
			got = "busy"
		case err != nil:
			t.Errorf("%s: %v", tt.name, err)
		case over:
			got = "over"
		}
		if got != tt.want {
			t.Errorf("%s: %s, %v; want %s", tt.name, got, err, tt.want)
		}
	}
}

// A job of a head lives on when this host's daemon dies, and when its record is lost it is still
// that head's.
func TestHeadOutlivesTheDaemon(t *testing.T) {
	n := newNode(t)
	dead := hostapi.ProcessID{PID: 4_000_004, StartTime: 3}
	rec := &jobstate.Record{Job: event(hostapi.EventBegin, "1.srv").Job, Head: "n1", Run: thisRun, Host: dead,
		Begun: time.Now(), Phase: jobstate.PhaseRunning}
	if err := n.store.Update("1.srv",
		func(*jobstate.Record) (*jobstate.Record, error) { return rec, nil }); err != nil {
		t.Fatal(err)
	}
	h := n.open()
	if err := h.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := n.record("1.srv")
	if got == nil || got.Host != self || got.Head != "n1" || got.Run != thisRun {
		t.Fatalf("record %+v", got)
	}
	if _, err := h.Judge(t.Context(), from("n1", otherRun, hostapi.EventEnd, "1.srv")); err != nil ||
		n.record("1.srv") == nil {
		t.Errorf("a late end of another run: %v, record %v", err, n.record("1.srv"))
	}
	if v, err := h.Judge(t.Context(), from("n1", thisRun, hostapi.EventEnd, "1.srv")); err != nil || v.Reject ||
		n.record("1.srv") != nil {
		t.Errorf("its own: %v, %v, record %v", v, err, n.record("1.srv"))
	}
}
