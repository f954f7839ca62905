package host

import (
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
)

// A suspension is left out of walltime once, whoever asked for it: what a MoM of ours tells leaves
// out only its own.
func TestWalltimeWithoutSuspensions(t *testing.T) {
	launched := jobstate.Moment{Wall: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	ours := &hostapi.ProcessID{PID: 7}
	for _, tt := range []struct {
		name      string
		mom       *hostapi.ProcessID
		ran       time.Duration // from launch to end
		suspended time.Duration
		since     time.Duration // of the suspension that it ends in, before the end
		told      string
		want      string
	}{
		{"not suspended", ours, 8 * time.Second, 0, 0, "00:00:08", "00:00:08"},
		{"by events from elsewhere", ours, 8 * time.Second, 4 * time.Second, 0, "00:00:08", "00:00:04"},
		{"by its MoM", ours, 8 * time.Second, 4 * time.Second, 0, "00:00:04", "00:00:04"},
		{"by both", ours, 20 * time.Second, 9 * time.Second, 0, "00:00:16", "00:00:11"},
		{"ended in it", ours, 10 * time.Second, 0, 6 * time.Second, "00:00:10", "00:00:04"},
		{"ended in it, not for the first time", ours, 10 * time.Second, time.Second, 6 * time.Second, "00:00:10",
			"00:00:03"},
		{"its MoM counts more than the host saw", ours, 8 * time.Second, time.Second, 0, "00:00:04", "00:00:04"},
		{"the host saw only the end of the job", ours, 3 * time.Second, 2 * time.Second, 0, "01:00:00", "00:59:58"},
		{"pbs_mom leaves it out itself", nil, 8 * time.Second, 6 * time.Second, 0, "00:00:04", "00:00:04"},
		{"not to be understood", ours, 8 * time.Second, 4 * time.Second, 0, "soon", "soon"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			end := launched.Add(tt.ran)
			rec := &jobstate.Record{Runner: tt.mom, Phase: hostapi.PhaseRunning, Launched: launched,
				Suspended: tt.suspended}
			if tt.since > 0 {
				rec.Phase, rec.SuspendedAt = hostapi.PhaseSuspended, end.Add(-tt.since)
			}
			req := &hostapi.Request{Job: &hostapi.Job{MotherSuperior: true,
				ResourcesUsed: hostapi.Resources{"walltime": tt.told}}}
			enterExiting(rec, req, false, end)
			enterExiting(rec, req, true, end.Add(time.Second)) // end tells it again
			if got := rec.ResourcesUsed["walltime"]; got != tt.want {
				t.Errorf("walltime %s, want %s", got, tt.want)
			}
		})
	}
}

// A pbs_mom that was restarted has lost time, or counts suspensions. The host has not.
func TestWalltimeIsTheHostsWherePBSMoMHasMiscounted(t *testing.T) {
	launched := jobstate.Moment{Wall: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	for _, tt := range []struct {
		name, told, want string
		notes            []string
		noted            bool
	}{
		{name: "counted", told: "00:00:39", want: "00:00:39"},
		{name: "in whole seconds", told: "00:00:37", want: "00:00:37"},
		{name: "restarted", told: "00:00:21", want: "00:00:40", noted: true},
		{name: "with the suspension", told: "00:00:50", want: "00:00:40", noted: true},
		{name: "the record was lost", told: "01:00:00", want: "01:00:00", notes: []string{lostRecord}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rec := &jobstate.Record{PBS: true, Phase: hostapi.PhaseRunning, Launched: launched,
				Suspended: 10 * time.Second, Notes: tt.notes}
			req := &hostapi.Request{Job: &hostapi.Job{MotherSuperior: true,
				ResourcesUsed: hostapi.Resources{"walltime": tt.told}}}
			enterExiting(rec, req, false, launched.Add(50*time.Second))
			enterExiting(rec, req, true, launched.Add(55*time.Second)) // end tells it again
			if got := rec.ResourcesUsed["walltime"]; got != tt.want {
				t.Errorf("walltime %s, want %s", got, tt.want)
			}
			notes := strings.Join(rec.Notes, "\n")
			if strings.Contains(notes, "pbs_mom counted a walltime of "+tt.told) != tt.noted {
				t.Errorf("notes: %s", notes)
			}
		})
	}
}
