package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/jobstate"
)

// What a job's cgroup says of its suspension is true after a crash, and nothing else of the record changes.
func TestFollow(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	now := jobstate.Moment{Wall: at, Boot: "b", Mono: 1000 * time.Second}
	const running, suspended = jobstate.PhaseRunning, jobstate.PhaseSuspended
	type told struct {
		Phase     jobstate.Phase
		Since     time.Duration // before now
		Suspended time.Duration
		State     string
	}
	for _, tt := range []struct {
		name      string
		have      told
		suspended bool
		ending    bool
		runCount  int
		state     string
		want      told
	}{
		{name: "in order", have: told{Phase: running, State: "{}"}, state: `{"x":1}`, want: told{Phase: running, State: "{}"}},
		{name: "in order, suspended", have: told{Phase: suspended, Since: time.Second, State: "{}"}, suspended: true, state: `{"x":1}`,
			want: told{Phase: suspended, Since: time.Second, State: "{}"}},
		{name: "killed in postsuspend", have: told{Phase: running, Suspended: time.Second, State: "{}"}, suspended: true,
			state: `{"suspended_at_us":997000000}`, want: told{suspended, 3 * time.Second, time.Second, `{"suspended_at_us":997000000}`}},
		{name: "killed in postsuspend, nobody knows when", have: told{Phase: running, State: "{}"}, suspended: true,
			want: told{Phase: suspended, State: "{}"}},
		{name: "killed in preresume", have: told{suspended, 10 * time.Second, time.Second, "{}"},
			state: `{"suspended_us":5000000}`, want: told{Phase: running, Suspended: 5 * time.Second, State: `{"suspended_us":5000000}`}},
		{name: "killed in preresume, nobody knows when", have: told{suspended, 10 * time.Second, time.Second, "{}"},
			want: told{Phase: running, Suspended: 11 * time.Second, State: "{}"}},
		{name: "ending", have: told{Phase: running, State: "{}"}, suspended: true, ending: true, want: told{Phase: running, State: "{}"}},
		{name: "another run's", have: told{Phase: running, State: "{}"}, suspended: true, runCount: 2, want: told{Phase: running, State: "{}"}},
		{name: "not started", have: told{Phase: jobstate.PhasePrerun, State: "{}"}, suspended: true, want: told{Phase: jobstate.PhasePrerun, State: "{}"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rec := &jobstate.Record{Job: &hostapi.Job{RunCount: 1}, Phase: tt.have.Phase, Suspended: tt.have.Suspended,
				HookState: map[string]json.RawMessage{"cgroup": json.RawMessage(tt.have.State)}}
			if tt.have.Phase == suspended {
				rec.SuspendedAt = now.Add(-tt.have.Since)
			}
			found := cgroup.Record{Begin: &hostapi.Request{Job: &hostapi.Job{RunCount: max(tt.runCount, 1)}}, Suspended: tt.suspended, Ending: tt.ending}
			if tt.state != "" {
				found.State = json.RawMessage(tt.state)
			}
			changed := follow(rec, found, now)
			got := told{Phase: rec.Phase, Suspended: rec.Suspended, State: string(rec.HookState["cgroup"])}
			if !rec.SuspendedAt.IsZero() {
				got.Since = now.Sub(rec.SuspendedAt)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			if want := tt.want.Phase != tt.have.Phase; changed != want {
				t.Errorf("changed %v, want %v", changed, want)
			}
		})
	}
}

// The hook's counters, where it has noted them, say what a job whose record was lost has used of its time.
func TestRecordFrom(t *testing.T) {
	now := jobstate.Moment{Wall: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Boot: "b", Mono: 1000 * time.Second}
	for _, tt := range []struct {
		name, state string
		suspended   bool
		elapsed     time.Duration
		then        time.Duration // a minute later; it goes on at once when it is suspended
	}{
		{"nothing noted", "", false, 0, time.Minute},
		{"not to be understood", `{"launched_us":"x"}`, false, 0, time.Minute},
		{"launched", `{"launched_us":900000000}`, false, 100 * time.Second, 160 * time.Second},
		{"launched and suspended before", `{"launched_us":900000000,"suspended_us":30000000}`, false, 70 * time.Second, 130 * time.Second},
		{"suspended", `{"launched_us":900000000,"suspended_us":30000000,"suspended_at_us":990000000}`, true, 60 * time.Second, 120 * time.Second},
		{"suspended, nobody knows since when it ran", `{"suspended_at_us":990000000}`, true, 0, time.Minute},
		{"in the future", `{"launched_us":1100000000}`, false, 0, time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			found := cgroup.Record{Begin: &hostapi.Request{Job: &hostapi.Job{ID: "1.srv"}, Head: "n1", Run: "r"}, Suspended: tt.suspended, State: json.RawMessage(tt.state)}
			rec := recordFrom(found, hostapi.ProcessID{PID: 1}, now)
			if got := rec.Elapsed(now); got != tt.elapsed {
				t.Errorf("elapsed %v, want %v", got, tt.elapsed)
			}
			if rec.Head != "n1" || rec.Run != "r" { // or its head could not end it any more
				t.Errorf("head %q, run %q", rec.Head, rec.Run)
			}
			if (rec.Phase == jobstate.PhaseSuspended) != tt.suspended {
				t.Errorf("phase %s", rec.Phase)
			}
			if tt.suspended {
				rec.Suspended, rec.SuspendedAt = rec.Suspended+now.Sub(rec.SuspendedAt), jobstate.Moment{}
			}
			if got := rec.Elapsed(now.Add(time.Minute)); got != tt.then {
				t.Errorf("a minute later %v, want %v", got, tt.then)
			}
		})
	}
}
