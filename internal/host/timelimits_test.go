package host

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
)

// qalter tells no hook: what pbs_mom's next event has of the limits of time counts, and nothing
// else of it.
func TestAlteredLimitsOfTimeCountAndNothingElse(t *testing.T) {
	had := hostapi.Resources{"mem": "1gb", "walltime": "01:00:00", "cput": "00:10:00"}
	for _, tt := range []struct {
		name   string
		mom    *hostapi.ProcessID
		sister bool
		told   hostapi.Resources
		want   hostapi.Resources
	}{
		{"more time, none of cput", nil, false, hostapi.Resources{"mem": "2gb", "walltime": "02:00:00"},
			hostapi.Resources{"mem": "1gb", "walltime": "02:00:00"}},
		{"the same", nil, false, hostapi.Resources{"walltime": "01:00:00", "cput": "00:10:00"}, had},
		{"not told", nil, false, nil, had},
		{"told nothing", nil, false, hostapi.Resources{}, had},
		{"a MoM of ours knows no qalter", &hostapi.ProcessID{PID: 7}, false, hostapi.Resources{"walltime": "02:00:00"},
			had},
		{"a sister is not told of it", nil, true, hostapi.Resources{"walltime": "02:00:00"}, had},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rec := &jobstate.Record{Runner: tt.mom,
				Job: &hostapi.Job{ID: "1.srv", ResourceList: had, MotherSuperior: !tt.sister}}
			changed := alter(rec, &hostapi.Job{ResourceList: tt.told})
			if d := cmp.Diff(tt.want, rec.Job.ResourceList); d != "" || changed == cmp.Equal(tt.want, had) {
				t.Errorf("changed %v (-want +got):\n%s", changed, d)
			}
			if had["walltime"] != "01:00:00" {
				t.Error("the old list was changed")
			}
		})
	}
}

// A resize that is refused alters nothing, nor does what a user asks for.
func TestAlteringEvents(t *testing.T) {
	n := newNode(t)
	n.hook("a", "misbehave", "mode = \"reject\"\nevent = \"execjob_resize\"")
	h := n.open()
	must(t, h, hostapi.EventBegin, "1.srv")
	must(t, h, hostapi.EventLaunch, "1.srv")
	tell := func(e hostapi.Event, walltime, want string) {
		t.Helper()
		req := requestOf(e, "1.srv")
		if req.Job == nil {
			req.JobList = map[string]*hostapi.Job{"1.srv": {ID: "1.srv",
				ResourceList: hostapi.Resources{"walltime": walltime}}}
		} else {
			req.Job.ResourceList = hostapi.Resources{"walltime": walltime}
		}
		if _, err := h.Handle(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		if got := n.record("1.srv").Job.ResourceList["walltime"]; got != want {
			t.Errorf("after %s: walltime %q, want %q", e, got, want)
		}
	}
	tell(hostapi.EventPeriodic, "100", "100")
	tell(hostapi.EventResize, "200", "100")
	tell(hostapi.EventAttach, "300", "100")
	tell(hostapi.EventPostsuspend, "400", "400")
}
