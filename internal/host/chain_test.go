package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/plugin"
)

// fakeHook is a hook of the chain without a program: what a plugin does is tested in
// plugin_test.go.
type fakeHook struct {
	hook   plugin.Hook
	calls  *[]string
	answer func(*hostapi.Request) (*hostapi.Outcome, error)
}

func (f fakeHook) Hook() plugin.Hook         { return f.hook }
func (f fakeHook) Gets(e hostapi.Event) bool { return f.hook.Gets(e) }

func (f fakeHook) Call(_ context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	*f.calls = append(*f.calls, string(req.Event)[len("execjob_"):]+" "+f.hook.Name)
	if f.answer == nil {
		return &hostapi.Outcome{}, nil
	}
	return f.answer(req)
}

// at answers one event.
func at(e hostapi.Event, out *hostapi.Outcome, err error) func(*hostapi.Request) (*hostapi.Outcome, error) {
	return func(req *hostapi.Request) (*hostapi.Outcome, error) {
		if req.Event != e {
			return &hostapi.Outcome{}, nil
		}
		return out, err
	}
}

func TestChainStopsAtARejectAndUndoes(t *testing.T) {
	begin, resume, preterm, end := hostapi.EventBegin, hostapi.EventPreresume, hostapi.EventPreterm, hostapi.EventEnd
	no := &hostapi.Outcome{Reject: true, Message: "no"}
	broken := hostapi.Errorf(hostapi.KindInternal, "broken\nfor good")
	tests := []struct {
		name    string
		event   hostapi.Event
		answers []func(*hostapi.Request) (*hostapi.Outcome, error) // of hooks a, b, c
		calls   string                                             // with those of undo
		message string

		accepted bool // although there is a message
		undoErr  string
	}{
		{name: "all accept", event: begin, calls: "begin a, begin b, begin c"},
		{name: "reject undoes those before, last first", event: begin,
			answers: []func(*hostapi.Request) (*hostapi.Outcome, error){nil, nil, at(begin, no, nil)},
			calls:   "begin a, begin b, begin c, abort b, abort a",
			message: "execjob_begin request rejected by 'c': no"},
		{name: "reject ends the chain", event: begin,
			answers: []func(*hostapi.Request) (*hostapi.Outcome, error){at(begin, no, nil)},
			calls:   "begin a", message: "execjob_begin request rejected by 'a': no"},
		{name: "who failed is undone too", event: begin,
			answers: []func(*hostapi.Request) (*hostapi.Outcome, error){nil, at(begin, nil, broken)},
			calls:   "begin a, begin b, abort b, abort a",
			message: "execjob_begin hook 'b' encountered an exception, request rejected: broken; for good (system " +
				"hold set)"},
		{name: "who never got it is not", event: begin,
			answers: []func(*hostapi.Request) (*hostapi.Outcome, error){nil,
				at(begin, nil, plugin.Unanswered{Err: broken})},
			calls: "begin a, begin b, abort a",
			message: "execjob_begin hook 'b' encountered an exception, request rejected: broken; for good " +
				"(system hold set)"},
		{name: "undo goes on and joins", event: begin, answers: []func(*hostapi.Request) (*hostapi.Outcome, error){
			at(hostapi.EventAbort, nil, errors.New("stuck")), at(hostapi.EventAbort, no, nil), at(begin, no, nil)},
			calls: "begin a, begin b, begin c, abort b, abort a", message: "execjob_begin request rejected by 'c': no",
			undoErr: "execjob_abort hook 'b': no\nexecjob_abort hook 'a': stuck"},
		{name: "a job that does not go on is suspended still", event: resume,
			answers: []func(*hostapi.Request) (*hostapi.Outcome, error){
				at(hostapi.EventPostsuspend, &hostapi.Outcome{State: json.RawMessage(`"frozen"`)}, nil), nil,
				at(resume, no,
					nil)},
			calls:   "preresume a, preresume b, preresume c, postsuspend b, postsuspend a",
			message: "execjob_preresume request rejected by 'c': no"},
		{name: "who fails at preterm does not keep the job alive", event: preterm,
			answers: []func(*hostapi.Request) (*hostapi.Outcome, error){
				at(preterm, nil, broken), at(preterm, nil, plugin.Unanswered{Err: errors.New("busy")})},
			calls: "preterm a, preterm b, preterm c", accepted: true,
			message: "execjob_preterm hook 'a' failed, request accepted: broken; for good; " +
				"execjob_preterm hook 'b' failed, request accepted: busy"},
		{name: "who rejects preterm does", event: preterm,
			answers: []func(*hostapi.Request) (*hostapi.Outcome, error){
				at(preterm, nil, broken), at(preterm, no, nil)},
			calls: "preterm a, preterm b, postsuspend a",
			message: "execjob_preterm hook 'a' failed, request accepted: broken; for good; " +
				"execjob_preterm request rejected by 'b': no"},
		{name: "end runs all", event: end,
			answers: []func(*hostapi.Request) (*hostapi.Outcome, error){at(end, nil, broken), at(end, no, nil)},
			calls:   "end a, end b, end c",
			message: "execjob_end hook 'a' encountered an exception, request rejected: broken; for good; " +
				"execjob_end request rejected by 'b': no"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var calls []string
			var links []link
			for i, name := range []string{"a", "b", "c"} {
				h := fakeHook{hook: plugin.Hook{Name: name, Attributes: plugin.DefaultAttributes()}, calls: &calls}
				if i < len(tt.answers) {
					h.answer = tt.answers[i]
				}
				links = append(links, h)
			}
			c := &chain{links: links, req: requestOf(tt.event, "1")}
			v := c.run(t.Context())
			undoErr := ""
			if v.Reject && tt.event != end {
				if err := c.undo(t.Context()); err != nil {
					undoErr = err.Error()
				}
			}
			if got := strings.Join(calls, ", "); got != tt.calls {
				t.Errorf("calls: %s\nwant:  %s", got, tt.calls)
			}
			if v.Message != tt.message || v.Reject != (tt.message != "" && !tt.accepted) {
				t.Errorf("reject %v, message %q\nwant %q", v.Reject, v.Message, tt.message)
			}
			if undoErr != tt.undoErr {
				t.Errorf("undo: %q, want %q", undoErr, tt.undoErr)
			}
		})
	}
}

// The message of a held job ends by saying so, whatever else there is to say.
func TestMessageOfAHold(t *testing.T) {
	for _, tt := range []struct {
		action hostapi.JobAction
		says   []string
		want   string
	}{
		{hostapi.JobActionHold, []string{"broken", "abort failed", "and\nagain"},
			"broken; abort failed; and; again (system hold set)"},
		{hostapi.JobActionRerun, []string{"broken", "abort failed"}, "broken; abort failed"},
		{hostapi.JobActionHold, []string{"n2: broken (system hold set)"}, "n2: broken (system hold set)"},
	} {
		v := &Verdict{Outcome: &hostapi.Outcome{Reject: true, OnReject: tt.action}}
		for _, text := range tt.says {
			v.Add(text)
		}
		if v.Message != tt.want {
			t.Errorf("%q, want %q", v.Message, tt.want)
		}
	}
}

// The kind of an error decides what becomes of a job, and whether the node is to blame.
func TestVerdictsBlameJobOrNode(t *testing.T) {
	offline := []string{"offline_vnodes"}
	tests := []struct {
		event  hostapi.Event
		kind   hostapi.Kind
		action hostapi.JobAction
		acts   []string
	}{
		{hostapi.EventBegin, hostapi.KindJob, hostapi.JobActionDelete, nil},
		{hostapi.EventBegin, hostapi.KindBusy, hostapi.JobActionRerun, nil},
		{hostapi.EventBegin, hostapi.KindNode, hostapi.JobActionRerun, offline},
		{hostapi.EventBegin, hostapi.KindTimeout, hostapi.JobActionRerun, offline},
		{hostapi.EventBegin, hostapi.KindInternal, hostapi.JobActionHold, offline},
		{hostapi.EventPrologue, hostapi.KindNode, hostapi.JobActionRerun, offline},
		// offline_vnodes does not act at launch
		{hostapi.EventLaunch, hostapi.KindInternal, hostapi.JobActionHold, nil},
		{hostapi.EventAttach, hostapi.KindJob, hostapi.JobActionNone, nil},
		{hostapi.EventPreterm, hostapi.KindInternal, hostapi.JobActionNone, nil},
		{hostapi.EventEnd, hostapi.KindNode, hostapi.JobActionNone, nil},
		{hostapi.EventStartup, hostapi.KindNode, hostapi.JobActionNone, offline},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%s %s", tt.event, tt.kind), func(t *testing.T) {
			var calls []string
			h := fakeHook{hook: plugin.Hook{Name: "a", Attributes: plugin.DefaultAttributes()}, calls: &calls,
				answer: at(tt.event, nil, hostapi.Errorf(tt.kind, "x"))}
			h.hook.FailAction = plugin.FailActionList{plugin.FailOfflineVnodes, plugin.FailClearVnodes}
			v := (&chain{links: []link{h}, req: requestOf(tt.event, "1")}).run(t.Context())
			if v.OnReject != tt.action || v.Kind != tt.kind || !slices.Equal(v.FailAction, tt.acts) {
				t.Errorf("job_action %q, kind %q, fail_action %v; want %q, %q, %v", v.OnReject, v.Kind, v.FailAction,
					tt.action, tt.kind, tt.acts)
			}
		})
	}
}

// For each kind of error an attribute of the hook says whether it counts against the node, the job
// or nothing. Without it fail_action does, as in PBS. A reject is no error.
func TestAttributesSayWhatAnErrorCountsAgainst(t *testing.T) {
	const node, job, nothing = plugin.BlameNode, plugin.BlameJob, plugin.BlameNothing
	begin, end := hostapi.EventBegin, hostapi.EventEnd
	for _, tt := range []struct {
		set             plugin.Attributes
		event           hostapi.Event
		kind            hostapi.Kind
		reject, offline bool
	}{
		{plugin.Attributes{OnNodeError: node}, begin, hostapi.KindNode, true, true},
		{plugin.Attributes{OnNodeError: node}, begin, hostapi.KindInternal, true, false},
		{plugin.Attributes{OnNodeError: node}, end, hostapi.KindNode, true, false},
		{plugin.Attributes{FailAction: offlineVnodes, OnAlarm: job}, begin, hostapi.KindTimeout, true, false},
		{plugin.Attributes{FailAction: offlineVnodes, OnAlarm: job}, begin, hostapi.KindInternal, true, true},
		{plugin.Attributes{FailAction: offlineVnodes, OnDefect: nothing}, begin, hostapi.KindInternal, false, false},
		{plugin.Attributes{OnAlarm: nothing}, hostapi.EventLaunch, hostapi.KindTimeout, false, false},
		{plugin.Attributes{OnDefect: nothing}, end, hostapi.KindInternal, true, false},
		{allOn(nothing), begin, hostapi.KindJob, true, false},
		{allOn(node), begin, hostapi.KindBusy, true, false},
		{allOn(nothing), begin, "", true, false},
	} {
		var calls []string
		tt.set.Enabled = true
		out, err := &hostapi.Outcome{Reject: true}, error(nil)
		if tt.kind != "" {
			out, err = nil, hostapi.Errorf(tt.kind, "x")
		}
		failing := fakeHook{hook: plugin.Hook{Name: "a", Attributes: tt.set}, calls: &calls,
			answer: at(tt.event, out, err)}
		next := fakeHook{hook: plugin.Hook{Name: "b", Attributes: plugin.DefaultAttributes()}, calls: &calls}
		v := (&chain{links: []link{failing, next}, req: requestOf(tt.event, "1")}).run(t.Context())
		offline := slices.Contains(v.FailAction, "offline_vnodes")
		goesOn := len(calls) == 2
		if v.Reject != tt.reject || offline != tt.offline || len(v.Faults) > 0 != offline ||
			goesOn != (!tt.reject || tt.event == end) || tt.kind != "" && (v.Kind != tt.kind || v.Message == "") {
			t.Errorf("%+v: %v, offline %v, faults %v, %q", tt, v.Reject, offline, v.Faults, v.Message)
		}
	}
}

func allOn(b plugin.Blame) plugin.Attributes {
	return plugin.Attributes{OnNodeError: b, OnAlarm: b, OnDefect: b}
}

var offlineVnodes = plugin.FailActionList{plugin.FailOfflineVnodes}

func TestFailActionNotOnReject(t *testing.T) {
	var calls []string
	h := fakeHook{hook: plugin.Hook{Name: "a", Attributes: plugin.DefaultAttributes()}, calls: &calls}
	h.hook.FailAction = plugin.FailActionList{plugin.FailOfflineVnodes, plugin.FailClearVnodes}
	run := func(e hostapi.Event, out *hostapi.Outcome) []string {
		h.answer = at(e, out, nil)
		return (&chain{links: []link{h}, req: requestOf(e, "1")}).run(t.Context()).FailAction
	}
	if got := run(hostapi.EventBegin, &hostapi.Outcome{Reject: true}); got != nil {
		t.Errorf("begin rejected: %v", got)
	}
	if got := run(hostapi.EventStartup, &hostapi.Outcome{}); !slices.Equal(got,
		[]string{"clear_vnodes_upon_recovery"}) {
		t.Errorf("startup accepted: %v", got)
	}
	if got := run(hostapi.EventStartup, &hostapi.Outcome{Reject: true}); got != nil {
		t.Errorf("startup rejected: %v", got)
	}
}

// Each hook's state counts for itself, also one that contradicts a hook of hookhost's.
func TestStatesOfVnodesStayWithTheirHooks(t *testing.T) {
	var calls []string
	words, want := "rack 7", map[string]map[string]string{}
	var links []link
	for _, h := range []struct {
		name    string
		builtIn bool
		vnode   hostapi.Vnode
	}{
		{"site", false, hostapi.Vnode{State: "offline"}},
		{"cgroup", true, hostapi.Vnode{State: "free"}},
		{"rack", false, hostapi.Vnode{Comment: &words}},
	} {
		out := &hostapi.Outcome{Vnodes: map[string]*hostapi.Vnode{"n": &h.vnode}}
		links = append(links, fakeHook{hook: plugin.Hook{Name: h.name, BuiltIn: h.builtIn,
			Attributes: plugin.DefaultAttributes()}, calls: &calls,
			answer: at(hostapi.EventPeriodic, out, nil)})
		if h.vnode.State != "" {
			want[h.name] = map[string]string{"n": h.vnode.State}
		}
	}
	req := requestOf(hostapi.EventPeriodic, "")
	req.Node = "n"
	v := (&chain{links: links, req: req}).run(t.Context())
	if diff := cmp.Diff(want, v.States); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// At launch each hook sees what those before it made of the program; nobody's changes reach the
// caller's request.
func TestLaunchCascades(t *testing.T) {
	var calls []string
	var seen []hostapi.Request
	hooks := []hostapi.Outcome{
		{Progname: new("/bin/nice"), Argv: []string{"/bin/job"}, SetEnv: map[string]string{"A": "1"},
			UnsetEnv: []string{"GONE"}, State: json.RawMessage(`1`)},
		{SetEnv: map[string]string{"B": "2"}},
		{},
	}
	var links []link
	for i, name := range []string{"a", "b", "c"} {
		links = append(links, fakeHook{hook: plugin.Hook{Name: name, Attributes: plugin.DefaultAttributes()},
			calls: &calls,
			answer: func(req *hostapi.Request) (*hostapi.Outcome, error) {
				seen = append(seen, *req)
				return &hooks[i], nil
			}})
	}
	req := requestOf(hostapi.EventLaunch, "1")
	req.Progname, req.Argv, req.Env = "/bin/job", []string{}, map[string]string{"GONE": "x", "PATH": "/bin"}
	given := req.Env
	c := &chain{links: links, req: req, states: map[string]json.RawMessage{"b": json.RawMessage(`"b's"`)}}
	v := c.run(t.Context())

	if seen[0].Progname != "/bin/job" || seen[2].Progname != "/bin/nice" ||
		!slices.Equal(seen[2].Argv, []string{"/bin/job"}) {
		t.Errorf("seen: %q, %q %v", seen[0].Progname, seen[2].Progname, seen[2].Argv)
	}
	if diff := cmp.Diff(map[string]string{"PATH": "/bin", "A": "1", "B": "2"}, seen[2].Env); diff != "" {
		t.Errorf("environment of the last hook: -want +got\n%s", diff)
	}
	if string(seen[1].Job.State) != `"b's"` || seen[0].Job.State != nil {
		t.Errorf("states: %s, %s", seen[0].Job.State, seen[1].Job.State)
	}
	if len(given) != 2 || req.Job.State != nil {
		t.Error("the caller's request was changed")
	}
	if diff := cmp.Diff(map[string]string{"A": "1", "B": "2"}, v.SetEnv); diff != "" || v.State != nil {
		t.Errorf("merged: state %s, environment -want +got\n%s", v.State, diff)
	}
}

// An outcome beside an error counts only for what was found out.
func TestOutcomeBesideError(t *testing.T) {
	var calls []string
	h := fakeHook{hook: plugin.Hook{Name: "a", Attributes: plugin.DefaultAttributes()}, calls: &calls,
		answer: at(hostapi.EventLaunch,
			&hostapi.Outcome{SetEnv: map[string]string{"A": "1"}, Diag: "d", State: json.RawMessage(`1`),
				CallAgain: 1}, errors.New("x"))}
	c := &chain{links: []link{h}, req: requestOf(hostapi.EventLaunch, "1")}
	v := c.run(t.Context())
	if v.SetEnv != nil || v.Diag != "d" || string(c.states["a"]) != "1" || c.answers[0].out.CallAgain != 0 {
		t.Errorf("%+v, states %s", v.Outcome, c.states)
	}
}
