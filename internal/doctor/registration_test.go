package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/integrations/openpbs"
	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/must"
)

// controlOf is the control file of a hook h that is registered like this, with further lines
// (hook_save in OpenPBS's hook.c). The later one of two lines for one attribute counts.
func controlOf(r openpbs.Registration, more string) string {
	return fmt.Sprintf("hook_name=h\nfail_action=%s\nevent=%s\norder=%d\nalarm=%d\n%s",
		r.FailAction, strings.Join(r.Events(), ","), r.Order, r.Alarm, more)
}

// A hook may have an attribute with which it does not do all that it is for. The finding says what
// follows, and has the command that mends it.
func TestAttributesOfTheHookAreExamined(t *testing.T) {
	with := func(more string) string { return controlOf(openpbs.Default(), more) }
	without := func(events ...string) string {
		text := with("")
		for _, e := range events {
			text = strings.Replace(strings.Replace(text, ","+e, "", 1), "="+e+",", "=", 1)
		}
		return text
	}
	type want struct {
		what          string
		status        Status
		found, advice string
	}
	const set = "qmgr -c 'set hook h "
	for _, tt := range []struct {
		name, control string
		edit          func(*config.File)
		want          []want
	}{
		{name: "as registered", control: with("")},
		{name: "as the site likes it", control: with("order=7\nalarm=67\nfreq=30\ndebug=true\n" +
			"fail_action=offline_vnodes,clear_vnodes_upon_recovery\n")},
		{name: "an older list of events", control: without("execjob_abort", "execjob_preresume"),
			want: []want{
				{"PBS hook h event", Degraded,
					"at execjob_abort: a job that is abandoned before it runs keeps its cgroup",
					set + `event += "execjob_preresume,execjob_abort"'`}}},
		{name: "begin", control: without("execjob_begin"),
			want: []want{
				{"PBS hook h event", Degraded, "only at its launch", `event += "execjob_begin"'`}}},
		{name: "launch", control: without("execjob_launch"),
			want: []want{{"PBS hook h event", Impossible, "nothing confines them", `event += "execjob_launch"'`}}},
		{name: "the server's events", control: strings.Replace(with(""), "event=", "event=queuejob,runjob,", 1),
			want: []want{
				{"PBS hook h other events", Degraded,
					"called at queuejob,runjob too", set + `event -= "queuejob,runjob"'`}}},
		{name: "nothing set", control: "hook_name=h\n", want: []want{
			{"PBS hook h event", Impossible, "not called at any event", set + `event = "execjob_begin,`},
			{"PBS hook h alarm", Degraded,
				"it is 30: hookhost has to answer within 27 s, and hook cgroup may take 60 s",
				set + "alarm = 90'"},
			{"PBS hook h fail_action", OK, "it is none", set + "fail_action = offline_vnodes'"}}},
		{name: "user with a prologue",
			control: with("user=pbsuser\nevent=" + strings.Join(openpbs.Events(), ",") + "\n"),
			want: []want{
				{"PBS hook h user", Impossible, "No job gets past its prologue", set + "user = pbsadmin'"}}},
		{name: "user", control: with("user=pbsuser\n"), want: []want{
			{"PBS hook h user", Degraded, "at execjob_preterm,execjob_epilogue, and", set + "user = pbsadmin'"}}},
		{name: "alarm", control: with("alarm=66\n"),
			want: []want{{"PBS hook h alarm", Degraded, "within 59.4 s", set + "alarm = 90'"}}},
		{name: "alarm where jobs are left alone", control: with("alarm=30\n"),
			edit: func(cfg *config.File) { cfg.Host.Enabled = false }},
		{name: "freq", control: with("freq=300\n"),
			want: []want{
				{"PBS hook h freq", Degraded, "mom_margin in [walltime] is 5m",
					set + "freq = 120'; or mom_margin in [walltime]: more than 5m"}}},
		{name: "freq below the margin", control: with("freq=299\n")},
		{name: "no margin", control: with(""),
			edit: func(cfg *config.File) { cfg.Walltime.MoMMargin = config.Duration(time.Minute) },
			want: []want{{"PBS hook h freq", Degraded, "it is 120", "mom_margin in [walltime]: more than 2m"}}},
		{name: "freq without walltime", control: with("freq=3600\n"),
			edit: func(cfg *config.File) { cfg.Walltime.Enabled = false }},
		{name: "fail_action", control: with("fail_action=scheduler_restart_cycle\n"),
			want: []want{{"PBS hook h fail_action", OK, "stays online", "to use the default"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := config.Default()
			if tt.edit != nil {
				tt.edit(cfg)
			}
			findings := nodeWith(t, cfg).examineAttributes(openpbs.ParseControl("h", []byte(tt.control)), nil)
			if len(findings) != len(tt.want) {
				t.Fatalf("%d findings, want %d: %+v", len(findings), len(tt.want), findings)
			}
			for i, w := range tt.want {
				f := findings[i]
				if f.What != w.what || f.Status != w.status ||
					!strings.Contains(f.Found, w.found) || !strings.Contains(f.Advice, w.advice) {
					t.Errorf("%+v: want %+v", f, w)
				}
			}
		})
	}
}

// A hook of the site's that may take longer than those of hookhost needs a longer alarm of MoM's.
func TestSlowHookOfASiteNeedsALongerAlarm(t *testing.T) {
	n := nodeWith(t, config.Default())
	r, err := n.Hooks()
	must.NoError(t, err)
	for name, text := range map[string]string{"slow": "alarm = 120\n", "off": "alarm = 500\nenabled = false\n"} {
		must.NoError(t, os.WriteFile(filepath.Join(r.Dir, name+".toml"), []byte(text), 0o644))
	}
	name, needs := n.slowestHook()
	if name != "slow" || needs != 2*time.Minute {
		t.Fatalf("slowest hook %q, %v: want slow, 2m", name, needs)
	}
	f := registered{openpbs.ParseControl("h", []byte(controlOf(openpbs.Default(), "")))}.alarm(name, needs)
	if len(f) != 1 || f[0].Status != Degraded || !strings.Contains(f[0].Advice, "alarm = 134'") {
		t.Errorf("%+v: want an alarm of 134", f)
	}
}

// A hook of the site's may handle an event for which PBS was not asked.
func TestEventThatAHookWaitsForAndPBSDoesNotSendIsFound(t *testing.T) {
	n := nodeWith(t, config.Default())
	hooks := []api.HookInfo{
		{Name: "cgroup", Events: []hostapi.Event{hostapi.EventBegin}},
		{Name: "deny", Events: []hostapi.Event{hostapi.EventBegin, hostapi.EventPrologue}},
	}
	control := controlOf(openpbs.Default(), "")
	f := n.examineAttributes(openpbs.ParseControl("h", []byte(control)), hooks)
	if len(f) != 1 || f[0].Status != Degraded || f[0].What != "PBS hook h event execjob_prologue" ||
		!strings.Contains(f[0].Found, "hook deny waits for it") ||
		!strings.Contains(f[0].Advice, "hookhost openpbs install --event execjob_prologue") {
		t.Errorf("%+v: want one of deny's execjob_prologue", f)
	}
	more := openpbs.Default()
	more.More = []string{"execjob_prologue"}
	control = controlOf(more, "")
	if f := n.examineAttributes(openpbs.ParseControl("h", []byte(control)), hooks); len(f) != 0 {
		t.Errorf("registered for it: %+v", f)
	}
}

// There is a word on every event that hookhost needs.
func TestEachEventHasAWordOnItsAbsence(t *testing.T) {
	for _, e := range openpbs.Default().Events() {
		if withoutEvent[e] == "" {
			t.Errorf("%s: nothing follows from its absence", e)
		}
	}
	if len(withoutEvent) != len(openpbs.Default().Events()) {
		t.Errorf("%d events, want %d", len(withoutEvent), len(openpbs.Default().Events()))
	}
}
