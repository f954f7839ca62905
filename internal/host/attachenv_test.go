package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/plugin"
)

// Attached processes get what a hook has set at the last begin or resize that was accepted. The
// hook is not called for it.
func TestAttachGetsTheEnvironmentOfTheGrant(t *testing.T) {
	a := func(value string) map[string]string { return map[string]string{"A": value} }
	tests := []struct {
		name   string
		refuse bool // a later hook rejects every resize
		then   func(t *testing.T, n *node, h *Host) *Host
		want   map[string]string
	}{
		{name: "after begin", want: a("1")},
		{name: "after a resize", want: a("2"), then: func(t *testing.T, _ *node, h *Host) *Host {
			sized(t, h, hostapi.EventResize, "2", true)
			return h
		}},
		{name: "after a rejected resize", refuse: true, want: a("1"), then: func(t *testing.T, _ *node, h *Host) *Host {
			sized(t, h, hostapi.EventResize, "2", false)
			return h
		}},
		{name: "in another run", want: a("3"), then: func(t *testing.T, _ *node, h *Host) *Host {
			must(t, h, hostapi.EventEnd, "1.srv")
			sized(t, h, hostapi.EventBegin, "3", true)
			return h
		}},
		{name: "after a restart of the host", want: a("1"), then: func(t *testing.T, n *node, h *Host) *Host {
			if err := h.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			return n.open()
		}},
		{name: "when the hook is disabled", then: func(t *testing.T, n *node, h *Host) *Host {
			if err := errors.Join(n.registry.Set("a", "enabled=false"), h.Reload(t.Context())); err != nil {
				t.Fatal(err)
			}
			return h
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			n.hook("a", "misbehave", fmt.Sprintf("mode = \"attach-env\"\nvalue = \"A\"\nlog = %q",
				filepath.Join(n.dir, "log")),
				"event=execjob_begin,execjob_resize", "order=1")
			if tt.refuse {
				n.hook("b", "misbehave", "mode = \"reject\"\nevent = \"execjob_resize\"\nvalue = \"no\"", "order=2")
			}
			h := n.open()
			sized(t, h, hostapi.EventBegin, "1", true)
			if tt.then != nil {
				h = tt.then(t, n, h)
			}
			for range 2 {
				if diff := cmp.Diff(tt.want, must(t, h, hostapi.EventAttach, "1.srv").SetEnv); diff != "" {
					t.Errorf("attach: set_env -want +got:\n%s", diff)
				}
			}
			if calls := strings.Join(n.calls("log"), " "); strings.Contains(calls, "attach") {
				t.Errorf("the hook was called: %s", calls)
			}
		})
	}
}

// sized sends an event of a job that asks for so many cpus.
func sized(t *testing.T, h *Host, e hostapi.Event, ncpus string, accepted bool) {
	t.Helper()
	req := requestOf(e, "1.srv")
	req.Job.ResourceList = hostapi.Resources{"ncpus": ncpus}
	v, err := h.Handle(t.Context(), req)
	if err != nil || v.Reject == accepted {
		t.Fatalf("%s: %+v, %v", e, v, err)
	}
}

// Two hooks that set a variable of attached processes to different values are the job's end before
// it begins.
func TestBeginNamesBothHooksThatSetAVariable(t *testing.T) {
	n := newNode(t)
	n.hook("a", "misbehave", "mode = \"attach-env\"\nvalue = \"A\"", "order=1")
	n.hook("b", "misbehave", "mode = \"say\"\nvalue = '{\"attach_env\": {\"A\": \"x\"}}'", "order=2")
	v := judge(t, n.open(), hostapi.EventBegin, "1.srv")
	want := "hooks a and b both set attached processes' environment variable A to different values"
	if !v.Reject || !strings.Contains(v.Message, want) {
		t.Errorf("begin: %+v, want %s", v.Outcome, want)
	}
}

// The answer of a hook to an attach goes before what it has set for all attached processes. Another
// hook's answer is a conflict.
func TestAttachEnvironmentMeetsAnswersToAttach(t *testing.T) {
	set := func(value string) func(*hostapi.Request) (*hostapi.Outcome, error) {
		return at(hostapi.EventAttach, &hostapi.Outcome{SetEnv: map[string]string{"A": value}}, nil)
	}
	tests := []struct {
		name    string
		answers map[string]func(*hostapi.Request) (*hostapi.Outcome, error)
		want    map[string]string
		message string
	}{
		{name: "nobody answers", want: map[string]string{"A": "1", "B": "2"}},
		{name: "the hook itself", answers: map[string]func(*hostapi.Request) (*hostapi.Outcome, error){"a": set("3")},
			want: map[string]string{"A": "3", "B": "2"}},
		{name: "another hook", answers: map[string]func(*hostapi.Request) (*hostapi.Outcome, error){"c": set("3")},
			want:    map[string]string{"A": "1", "B": "2"},
			message: "hooks a and c both set environment variable A to different values"},
		{name: "a reject", answers: map[string]func(*hostapi.Request) (*hostapi.Outcome, error){
			"a": at(hostapi.EventAttach, &hostapi.Outcome{Reject: true, Message: "no"}, nil)},
			want: map[string]string{"A": "1"}, message: "execjob_attach request rejected by 'a': no"},
		{name: "an error", answers: map[string]func(*hostapi.Request) (*hostapi.Outcome, error){
			"a": at(hostapi.EventAttach, nil, errors.New("broken"))}, message: "broken"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var links []link
			for _, name := range []string{"a", "b", "c"} {
				h := fakeHook{hook: plugin.Hook{Name: name, Attributes: plugin.DefaultAttributes()},
					calls: new([]string)}
				h.answer = tt.answers[name]
				links = append(links, h)
			}
			rec := &jobstate.Record{AttachEnv: map[string]map[string]string{
				"a": {"A": "1"}, "b": {"B": "2"}, "gone": {"A": "9"},
			}}
			c := &chain{links: attachLinks(links, rec), req: requestOf(hostapi.EventAttach, "1")}
			v := c.run(t.Context())
			if diff := cmp.Diff(tt.want, v.SetEnv); diff != "" {
				t.Errorf("set_env -want +got:\n%s", diff)
			}
			if v.Reject != (tt.message != "") || !strings.Contains(v.Message, tt.message) {
				t.Errorf("reject %t: %s, want %q", v.Reject, v.Message, tt.message)
			}
			if rec.AttachEnv["a"]["A"] != "1" {
				t.Error("the record has changed")
			}
		})
	}
}

// A record without the variables, as one that was lost and made anew, gets them from startup or
// periodic. A record with them does not: the hook may have been asked before a resize.
func TestLostAttachEnvironmentIsToldAgain(t *testing.T) {
	says := func(env map[string]string) *chain {
		jobs := map[string]*hostapi.JobUpdate{"1": {AttachEnv: env}}
		return &chain{answers: []answer{{hook: "a", out: &hostapi.Outcome{Jobs: jobs},
			before: map[string]json.RawMessage{}}}}
	}
	rec := &jobstate.Record{Job: &hostapi.Job{ID: "1"}, AttachEnv: map[string]map[string]string{"b": {"B": "1"}}}
	want := map[string]map[string]string{"a": {"A": "1"}, "b": {"B": "1"}}
	for _, value := range []string{"1", "2"} {
		recordUpdates(rec, "n1", says(map[string]string{"A": value}), jobstate.Moment{})
		if diff := cmp.Diff(want, rec.AttachEnv); diff != "" {
			t.Errorf("told %s: -want +got:\n%s", value, diff)
		}
	}
}
