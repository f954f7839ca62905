package openpbs

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/nodestate"
)

// vnodeAt is a node whose server knows states and comments, over several events.
type vnodeAt struct {
	t     *testing.T
	notes map[string]*nodestate.Offline
	now   time.Time
	off   Offlining // Return, MinDelay, Hooks
	by    string    // the hook that sets states, if not cgroup
}

func newVnodeAt(t *testing.T) *vnodeAt {
	return &vnodeAt{t: t, notes: map[string]*nodestate.Offline{}, now: time.Unix(1e9, 0),
		off: Offlining{Return: true, MinDelay: 30 * time.Second, Hooks: map[string]bool{"cgroup": true, "disk": false}}}
}

type vnodes = map[string]*hostapi.Vnode

func known(state, comment string) *hostapi.Vnode {
	return &hostapi.Vnode{State: state, Comment: &comment}
}

// event returns the verbs with the vnodes they are for, and the comment. A minute passes before it.
func (n *vnodeAt) event(event hostapi.Event, list, out vnodes, faults ...Fault) (verbs, comment string) {
	n.t.Helper()
	n.now = n.now.Add(time.Minute)
	o := n.off
	o.Notes, o.Now, o.Faults = n.notes, n.now, faults
	if len(out) > 0 {
		set := map[string]string{}
		for name, v := range out {
			set[name] = v.State
		}
		o.States = map[string]map[string]string{cmp.Or(n.by, "cgroup"): set}
	}
	req := &hostapi.Request{Event: event, Node: "n", VnodeList: list}
	if event.ForJob() {
		req.Job = &hostapi.Job{ID: "7.s"}
	}
	var said []string
	e := &Event{Hook: "hookhost", Request: req}
	for _, c := range e.Changes(&hostapi.Outcome{Vnodes: out}, allKnown, o).List {
		if c.Verb == verbOffline || c.Verb == verbOnline {
			said, comment = append(said, c.Verb+" "+c.Fields[0]), c.Fields[1]
		}
	}
	return strings.Join(said, ", "), comment
}

func (n *vnodeAt) want(what, want, got string) {
	n.t.Helper()
	if got != want {
		n.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

const (
	begin    = hostapi.EventBegin
	periodic = hostapi.EventPeriodic
)

// The comment of a hook's failure names cause and remedy. It is there again after a restart of the
// server, which has lost comments or states, too. An administrator who brings vnodes back ends it,
// even if the comment is removed as well: then the second time.
func TestFailureOfAHookLastsUntilAnAdministratorEndsIt(t *testing.T) {
	n := newVnodeAt(t)
	fault := Fault{Hook: "disk", Err: errors.New("crashed twice:\ta\nstack")}
	verbs, text := n.event(begin, nil, nil, fault)
	n.want("the failure", "offline n", verbs)
	n.want("its comment", "offlined by hook 'hookhost' due to hook error: disk at execjob_begin: crashed twice: a; "+
		"see 'hookhost doctor' on n; then pbsnodes -r n", text)
	down := known("offline,down", "rack 7 "+text)
	verbs, _ = n.event(periodic, vnodes{"n": down, "n[0]": known("free", "")}, nil)
	n.want("vnodes that the job did not have", "offline n[0]", verbs)
	all := func(v *hostapi.Vnode) vnodes { return vnodes{"n": down, "n[0]": v} }
	n.off.Hooks["disk"] = true
	for _, tt := range []struct {
		what string
		v    *hostapi.Vnode
		want string
	}{
		{"nothing new", known("offline", text), ""},
		{"a lost comment", known("offline", ""), "offline n[0]"},
		{"a lost state", known("free", ""), "offline n[0]"},
		{"one is brought back", known("free", text), ""},
		{"it has lost its comment again", known("free", ""), ""},
	} {
		verbs, again := n.event(periodic, all(tt.v), nil)
		n.want(tt.what, tt.want, verbs)
		if again != "" && again != text {
			t.Errorf("%s: %q, then %q", tt.what, text, again)
		}
	}
	verbs, _ = n.event(periodic, vnodes{"n": {}, "n[0]": {}}, nil)
	n.want("the server cannot be asked", "", verbs)
	verbs, again := n.event(begin, nil, nil, Fault{Hook: "disk", Err: errors.New("other")})
	n.want("another failure meanwhile", "offline n "+text, verbs+" "+again)
	verbs, _ = n.event(periodic, vnodes{"n": known("free", text), "n[0]": known("free", "")}, nil)
	n.want("all are brought back", "online n, online n[0]", verbs)
	if len(n.notes) > 0 {
		t.Errorf("notes %+v", n.notes)
	}
}

func TestVnodesReturnWhenTheHookThatWasNotAvailableWorks(t *testing.T) {
	n := newVnodeAt(t)
	_, text := n.event(begin, nil, nil, Fault{Hook: "disk", Err: errors.New("disabled"), Unavailable: true})
	if !strings.HasSuffix(text, "; see 'hookhost doctor' on n; the vnodes return when the hook works") {
		t.Errorf("comment %q", text)
	}
	for _, v := range []*hostapi.Vnode{known("offline", text), known("free", text)} {
		verbs, _ := n.event(periodic, vnodes{"n": v}, nil)
		n.want("it does not work, and is "+v.State, "", verbs)
	}
	n.off.Hooks["disk"] = true
	n.now = n.now.Add(-24 * time.Hour) // the clock is set back
	verbs, _ := n.event(periodic, vnodes{"n": known("offline", text)}, nil)
	n.want("too early", "", verbs)
	verbs, gone := n.event(periodic, vnodes{"n": known("offline", "")}, nil)
	n.want("it works", "online n "+text, verbs+" "+gone)
}

// Until the server has been asked, no comment can be removed. So vnodes come back at a periodic.
func TestStartupThatClearsVnodesEndsTheFailure(t *testing.T) {
	n := newVnodeAt(t)
	n.event(begin, nil, nil, Fault{Hook: "disk", Err: errors.New("x")})
	n.event(begin, nil, nil, Fault{Hook: "other", Err: errors.New("y")})
	verbs, _ := n.event(hostapi.EventStartup, nil, nil, Fault{Hook: "disk"})
	n.want("startup", "", verbs)
	x, y := n.notes["failed disk"].Comment, n.notes["failed other"].Comment
	verbs, _ = n.event(periodic, vnodes{"n": {}}, nil)
	n.want("the server cannot be asked", "", verbs)
	verbs, text := n.event(periodic, vnodes{"n": known("offline", x+" "+y)}, nil)
	n.want("the next periodic", "online n "+x, verbs+" "+text)
	must.Equal(t, "", []string{"failed other"}, slices.Collect(maps.Keys(n.notes)))
}

// A hook crashes, and then its program does not start. When it starts, the crash still counts. The
// shim has to see the comments of all causes before it brings vnodes back for one.
func TestVnodesStayOfflineWhenOneOfTwoCausesIsOver(t *testing.T) {
	n := newVnodeAt(t)
	_, crashed := n.event(begin, nil, nil, Fault{Hook: "disk", Err: errors.New("crashed twice")})
	_, disabled := n.event(begin, nil, nil, Fault{Hook: "disk", Err: errors.New("disabled"), Unavailable: true})
	both := vnodes{"n": known("offline", crashed+" "+disabled)}
	verbs, _ := n.event(periodic, both, nil)
	n.want("it does not start", "", verbs)
	n.off.Hooks["disk"] = true
	verbs, text := n.event(periodic, vnodes{"n": known("offline", "")}, nil)
	n.want("it starts, after a restart of the server", "offline n, online n "+disabled, verbs+" "+text)
	verbs, _ = n.event(periodic, vnodes{"n": known("offline", crashed)}, nil)
	n.want("it runs", "", verbs)
}

// Nobody reads an answer that is late. So the vnodes do not come back by it, and go offline by the
// next one.
func TestLateAnswerIsGivenAgain(t *testing.T) {
	n := newVnodeAt(t)
	n.off.Late = true
	_, text := n.event(hostapi.EventEnd, nil, vnodes{"n": {State: "offline"}})
	n.off.Late = false
	verbs, _ := n.event(periodic, vnodes{"n": known("free", "")}, vnodes{"n": {State: "offline"}})
	n.want("offline", "offline n", verbs)
	for _, late := range []bool{true, false} {
		n.off.Late = late
		verbs, _ = n.event(periodic, vnodes{"n": known("offline", text)}, vnodes{"n": {State: "free"}})
		n.want("free", map[bool]string{true: "", false: "online n"}[late], verbs)
	}
}

// Hook cgroup says offline as long as something remains, and free when nothing does. PBS is asked
// once, so an administrator may bring the vnodes back.
func TestVnodesThatAHookTakesOffline(t *testing.T) {
	offline, free := vnodes{"n": {State: "offline"}}, vnodes{"n": {State: "free"}}
	n := newVnodeAt(t)
	verbs, text := n.event(hostapi.EventEnd, nil, offline)
	n.want("asked", "offline n", verbs)
	n.want("its comment", "Hook cgroup: Unable to clean up one or more cgroups of job 7.s; the daemon's log on n "+
		"names the processes; the vnodes return when they are gone", text)
	for _, tt := range []struct {
		what           string
		state, comment string // the server's; TEXT is ours
		out            vnodes
		returns        bool
		want           string
	}{
		{"once more", "offline", "TEXT", offline, true, ""},
		{"of more vnodes", "offline", "TEXT", vnodes{"n": {State: "offline"}, "n[1]": {State: "offline"}}, true,
			"offline n[1]"},
		{"the comment is lost", "offline", "x", offline, true, "offline n"},
		{"an administrator's", "free", "TEXT", offline, true, ""},
		{"an administrator's, and the comment is lost", "free", "", offline, true, ""},
		{"not to return", "offline", "TEXT", free, false, ""},
		{"nothing remains", "offline", "TEXT", free, true, "online n"},
		{"once more", "free", "", free, true, ""},
		{"again", "free", "", offline, true, "offline n"},
		{"brought back, and nothing remains", "free", "x TEXT", free, false, "online n"},
	} {
		n.off.Return = tt.returns
		v := known(tt.state, strings.ReplaceAll(tt.comment, "TEXT", text))
		verbs, said := n.event(periodic, vnodes{"n": v}, tt.out)
		n.want(tt.what, tt.want, verbs)
		text = cmp.Or(said, text)
	}
	if len(n.notes) > 0 {
		t.Errorf("notes %+v", n.notes)
	}
}

// A site's hook that takes vnodes offline puts them back in any event, at once. As long as it takes
// one offline, the state of another does not matter.
func TestVnodesThatAHookOfTheSiteTakesOffline(t *testing.T) {
	n := newVnodeAt(t)
	n.by, n.off.Return = "disk", false
	one := vnodes{"n[0]": {State: "offline"}, "n": {State: "free"}}
	verbs, text := n.event(periodic, nil, one)
	n.want("offline", "offline n[0] offlined by hook 'disk'; see the daemon's log on n; "+
		"the vnodes return when it says so", verbs+" "+text)
	down := vnodes{"n": known("free", ""), "n[0]": known("offline", text)}
	verbs, _ = n.event(periodic, down, one)
	n.want("once more", "", verbs)
	n.by = "cgroup"
	verbs, _ = n.event(periodic, down, vnodes{"n": {State: "free"}})
	n.want("another hook's word", "", verbs)
	n.by = "disk"
	verbs, _ = n.event(hostapi.EventEnd, nil, vnodes{"n[0]": {State: "free"}})
	n.want("its own, but the server has not been asked", "", verbs)
	verbs, _ = n.event(periodic, down, nil)
	n.want("its own", "online n, online n[0]", verbs)

	n.event(periodic, nil, one)
	delete(n.off.Hooks, "disk")
	verbs, _ = n.event(periodic, down, nil)
	n.want("it was deleted", "online n, online n[0]", verbs)
}
