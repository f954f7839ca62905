package hostapi_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/must"
)

func TestCheckOutcome(t *testing.T) {
	name, empty, before := "/bin/sh", "", time.Duration(-1)
	long := json.RawMessage(strings.Repeat(" ", hostapi.MaxState+1))
	env := map[string]string{"A": "1"}
	const (
		launch   = hostapi.EventLaunch
		end      = hostapi.EventEnd
		periodic = hostapi.EventPeriodic
	)
	tests := []struct {
		name  string
		event hostapi.Event
		out   outcome
		want  string // "" accepts
	}{
		{"zero", end, outcome{}, ""},
		{"launch", launch, outcome{
			Progname: &name, Argv: []string{"-c"}, SetEnv: map[string]string{"A": "=1"}, UnsetEnv: []string{"B"},
		}, ""},
		{"attach", hostapi.EventAttach, outcome{SetEnv: map[string]string{"A": "1"}}, ""},
		{"progname", end, outcome{Progname: &name}, "progname: execjob_end does not take it"},
		{"argv", hostapi.EventAttach, outcome{Argv: []string{}}, "argv: execjob_attach does not take it"},
		{"set_env", end, outcome{SetEnv: map[string]string{"A": "1"}}, "set_env: execjob_end does not take it"},
		{"unset_env", end, outcome{UnsetEnv: []string{"A"}}, "unset_env: execjob_end does not take it"},
		{"no program", launch, outcome{Progname: &empty}, `progname: "" cannot be started`},
		{"NUL argument", launch, outcome{Argv: []string{"a", "\x00"}}, "argv[1]: holds a NUL byte"},
		{"variable's name", launch, outcome{SetEnv: map[string]string{"A=B": "1"}},
			`set_env: "A=B" is not a variable's name`},
		{"no variable's name", launch, outcome{SetEnv: map[string]string{"": "1"}},
			`set_env: "" is not a variable's name`},
		{"NUL value", launch, outcome{SetEnv: map[string]string{"A": "\x00"}}, "set_env.A: holds a NUL byte"},
		{"both", launch, outcome{SetEnv: map[string]string{"A": "1"}, UnsetEnv: []string{"A"}},
			"unset_env: A is in set_env too"},
		{"action", end, outcome{OnReject: "explode"}, `job_action: "explode" is none of rerun, delete, hold`},
		{"attach_env at begin", hostapi.EventBegin, outcome{AttachEnv: env}, ""},
		{"attach_env at resize", hostapi.EventResize, outcome{AttachEnv: map[string]string{}}, ""},
		{"attach_env at launch", launch, outcome{AttachEnv: env}, "attach_env: execjob_launch does not take it"},
		{"attach_env at attach", hostapi.EventAttach, outcome{AttachEnv: env},
			"attach_env: execjob_attach does not take it"},
		{"attach_env at periodic", periodic, outcome{AttachEnv: env},
			"attach_env: exechost_periodic takes it per job, in jobs"},
		{"attach_env without a name", hostapi.EventBegin, outcome{AttachEnv: map[string]string{"": "1"}},
			`attach_env: "" is not a variable's name`},
		{"attach_env of a job", periodic,
			outcome{Jobs: map[string]*hostapi.JobUpdate{"1": {AttachEnv: map[string]string{"A": "\x00"}}}},
			"jobs: 1: attach_env.A: holds a NUL byte"},
		{"state", end, outcome{State: long}, "state: 1048577 bytes are more than 1048576"},
		{"call_again", end, outcome{CallAgain: -1}, "call_again: -1ns is negative"},
		{"call_at_elapsed", end, outcome{CallAtElapsed: -1}, "call_at_elapsed: -1ns is negative"},
		{"call_again and call_at_elapsed", end, outcome{CallAgain: 1, CallAtElapsed: 1},
			"call_at_elapsed: call_again is set too"},
		{"walltime_limit", end, outcome{WalltimeLimit: &before}, "walltime_limit: -1ns is negative"},
		{"whose limit", periodic, outcome{WalltimeLimit: new(time.Duration)},
			"walltime_limit: exechost_periodic takes it per job, in jobs"},
		{"whose call", periodic, outcome{CallAtElapsed: 1},
			"call_at_elapsed: exechost_periodic takes it per job, in jobs"},
		{"a job's limit", periodic, outcome{Jobs: map[string]*hostapi.JobUpdate{"1.s": {WalltimeLimit: &before}}},
			"jobs: 1.s: walltime_limit: -1ns is negative"},
		{"jobs of a job", end, outcome{Jobs: map[string]*hostapi.JobUpdate{}}, "jobs: execjob_end is about one job"},
		{"jobs", periodic, outcome{Jobs: map[string]*hostapi.JobUpdate{"1.s": {CallAgain: 1}}, Notes: []string{"x"}},
			""},
		{"vnodes", end, outcome{Vnodes: map[string]*hostapi.Vnode{"n1[0]": {State: "offline"}}}, ""},
		{"vnodes at attach", hostapi.EventAttach, outcome{Vnodes: map[string]*hostapi.Vnode{}},
			"vnodes: execjob_attach does not take it"},
		{"vnodes at resize", hostapi.EventResize, outcome{Vnodes: map[string]*hostapi.Vnode{}},
			"vnodes: execjob_resize does not take it"},
		{"no vnode", periodic, outcome{Vnodes: map[string]*hostapi.Vnode{"n1": nil}}, "vnodes: n1: empty"},
		{"vnode's name", periodic, outcome{Vnodes: map[string]*hostapi.Vnode{"n 1": {}}},
			`vnodes: "n 1" is not a vnode's name`},
		{"vnode's state", periodic, outcome{Vnodes: map[string]*hostapi.Vnode{"n1": {State: "a\nb"}}},
			`vnodes: n1.state: "a\nb" is not one line`},
		{"whose usage", periodic, outcome{Usage: &hostapi.HostUsage{}},
			"usage: exechost_periodic takes it per job, in jobs"},
		{"whose state", periodic, outcome{State: json.RawMessage("1")},
			"state: exechost_periodic takes it per job, in jobs"},
		{"job id", periodic, outcome{Jobs: map[string]*hostapi.JobUpdate{"..": {}}}, `jobs: job id "..": not of the form 12, 12.server or 12[3].server`},
		{"empty update", periodic, outcome{Jobs: map[string]*hostapi.JobUpdate{"1": nil}}, "jobs: 1: empty"},
		{"job's state", periodic, outcome{Jobs: map[string]*hostapi.JobUpdate{"1": {State: long}}},
			"jobs: 1: state: 1048577 bytes are more than 1048576"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got string
			if err := tt.out.Check(tt.event); err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// An outcome means the same after its way over the wire.
func TestOutcomeRoundTrip(t *testing.T) {
	want := outcome{Argv: []string{}, State: json.RawMessage("null"),
		Jobs: map[string]*hostapi.JobUpdate{"1": {State: json.RawMessage(`{}`)}}}
	b, err := json.Marshal(want)
	must.NoError(t, err)
	var got outcome
	must.NoError(t, json.Unmarshal(b, &got))
	must.Equal(t, string(b), want, got)
}
