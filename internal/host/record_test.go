package host

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
)

// The report has what MoM measures itself. The same from a hook goes before it.
func TestMoMsOwnResources(t *testing.T) {
	n := newNode(t)
	n.hook("a", "misbehave", fmt.Sprintf("mode = %q\nevent = %q\nvalue = %q", "used", "execjob_epilogue", "mem=12kb"))
	h := n.open()
	must(t, h, hostapi.EventBegin, "1.srv")
	must(t, h, hostapi.EventLaunch, "1.srv")
	for _, e := range []hostapi.Event{hostapi.EventEpilogue, hostapi.EventEnd} {
		req := requestOf(e, "1.srv")
		req.Job.ResourcesUsed = hostapi.Resources{"walltime": "01:02:03", "mem": "1kb"}
		if v, err := h.Handle(t.Context(), req); err != nil || v.Reject {
			t.Fatal(v, err)
		}
	}
	text := n.reportOf("1.srv")
	if !strings.Contains(text, `"walltime":"01:02:03"`) ||
		!strings.Contains(text, `"mem":"12kb"`) {
		t.Errorf("report %s", text)
	}
}

// A walltime that pbs_mom has miscounted is not in the report, but in a note.
func TestReportHasTheHostsWalltimeAndANoteOfPBSMoMs(t *testing.T) {
	n := newNode(t)
	h := n.open()
	for _, e := range []hostapi.Event{hostapi.EventBegin, hostapi.EventLaunch, hostapi.EventEpilogue,
		hostapi.EventEnd} {
		req := requestOf(e, "1.srv")
		if e == hostapi.EventEpilogue || e == hostapi.EventEnd {
			req.Job.ResourcesUsed = hostapi.Resources{"walltime": "01:02:03"}
		}
		if out, err := h.HandlePBS(t.Context(), req, "", hostapi.ProcessID{}); err != nil || out.Reject {
			t.Fatal(e, out, err)
		}
	}
	text := n.reportOf("1.srv")
	if strings.Contains(text, `"walltime":"01:`) ||
		!strings.Contains(text, "pbs_mom counted a walltime of 01:02:03") {
		t.Errorf("report %s", text)
	}
}

// TestWalltimeOfASisterIsTheHostsOwn: pbs_mom counts it on the mother superior alone.
func TestWalltimeOfASisterIsTheHostsOwn(t *testing.T) {
	n := newNode(t)
	n.hook("a", "misbehave", fmt.Sprintf("mode = %q\nevent = %q\nvalue = %q", "used", "execjob_epilogue", "mem=12kb"))
	h := n.open()
	must(t, h, hostapi.EventBegin, "1.srv")
	must(t, h, hostapi.EventLaunch, "1.srv")
	for _, e := range []hostapi.Event{hostapi.EventEpilogue, hostapi.EventEnd} {
		req := requestOf(e, "1.srv")
		req.Job.MotherSuperior, req.Job.ResourcesUsed = false, hostapi.Resources{"walltime": "01:02:03"}
		if v, err := h.Handle(t.Context(), req); err != nil || v.Reject {
			t.Fatal(v, err)
		}
	}
	text := n.reportOf("1.srv")
	if text == "" || strings.Contains(text, "01:02:03") {
		t.Errorf("report %s", text)
	}
}

// A limit of 0 is none, whichever event tells it: what is left of such a job is not 0.
func TestNoWalltimeLimit(t *testing.T) {
	hour, none := time.Hour, time.Duration(0)
	for _, tt := range []struct {
		name      string
		had, told *time.Duration
		want      *time.Duration
	}{
		{"none, still", nil, &none, nil},
		{"no more", &hour, &none, nil},
		{"not told", &hour, nil, &hour},
		{"told", nil, &hour, &hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rec := &jobstate.Record{Job: &hostapi.Job{ID: "1.srv"}, Phase: hostapi.PhaseRunning, WalltimeLimit: tt.had}
			out := &hostapi.Outcome{Jobs: map[string]*hostapi.JobUpdate{"1.srv": {WalltimeLimit: tt.told}}}
			c := &chain{answers: []answer{{hook: "a", out: out}}}
			if err := c.merged.add("a", out); err != nil {
				t.Fatal(err)
			}
			recordUpdates(rec, "n1", c, jobstate.Moment{Wall: time.Now()})
			if (rec.WalltimeLimit == nil) != (tt.want == nil) || tt.want != nil && *rec.WalltimeLimit != *tt.want {
				t.Errorf("limit %v, want %v", rec.WalltimeLimit, tt.want)
			}
		})
	}
}
