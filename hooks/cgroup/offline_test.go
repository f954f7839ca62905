package main

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/nodestate"
)

type vnodes = map[string]*hostapi.Vnode

// pbsSees makes an event one from PBS, which knows these vnodes.
func pbsSees(known vnodes) func(*hostapi.Request) {
	return func(r *hostapi.Request) { r.VnodeList = known }
}

// vnode is a vnode as PBS knows it; "-" means no comment.
func vnode(state, comment string) *hostapi.Vnode {
	v := &hostapi.Vnode{State: state}
	if comment != "-" {
		v.Comment = &comment
	}
	return v
}

func shortKill(f *config.File) { f.Cgroup.KillTimeout = config.Duration(100 * time.Millisecond) }

// stuckJob sets up a job whose process does not die.
func stuckJob(n *node, k *kernfstest.Kernel) (pid int) {
	n.kept = nodestate.Dir(n.t.TempDir())
	n.do(hostapi.EventBegin, "1")
	pid = n.start(n.t, n.launches("1"))
	k.Stick(pid)
	return pid
}

// waited makes it look as if the vnodes had been offline for another minute.
func (n *node) waited() {
	n.t.Helper()
	o, err := n.kept.Offline()
	if err != nil || o == nil {
		n.t.Fatalf("%+v, %v, want a note that the vnodes are offline", o, err)
	}
	o.Since = o.Since.Add(-time.Minute)
	must.NoError(n.t, n.kept.SetOffline(o))
}

// TestVnodesGoOfflineAndComeBack has a process that does not die for a while, and restarts the hook
// meanwhile.
func TestVnodesGoOfflineAndComeBack(t *testing.T) {
	for _, last := range []hostapi.Event{hostapi.EventEpilogue, hostapi.EventEnd, hostapi.EventAbort} {
		onFakes(t, shortKill, func(t *testing.T, n *node, k *kernfstest.Kernel) {
			pid := stuckJob(n, k)
			known := vnodes{testNode: vnode("free", "rack 7"), testNode + "[1]": vnode("job-busy", "-")}
			out, err := n.event(last, "1", pbsSees(known))
			if err == nil || out == nil {
				t.Fatalf("%s of a job that does not die: %+v, %v, want an error", last, out, err)
			}
			want := vnodes{testNode: {State: "offline"}, testNode + "[1]": {State: "offline"}}
			if diff := cmp.Diff(want, out.Vnodes); diff != "" {
				t.Fatalf("%s: -want +got:\n%s", last, diff)
			}
			kept := n.kept
			n.reboot()
			n.kept = kept
			offline := vnodes{testNode: vnode("offline", "rack 7 "+offlineComment),
				testNode + "[1]": vnode("offline,job-busy", offlineComment)}
			if out, err := n.event(hostapi.EventStartup, "", pbsSees(offline)); err != nil ||
				out.Vnodes[testNode].State != "" {
				t.Errorf("startup: %+v, %v, want no new state", out, err)
			}
			// As long as the process is there nothing changes, even if the administrator sets free.
			// A restarted server has lost the comment.
			for _, tt := range []struct{ known, want vnodes }{
				{offline, nil},
				{vnodes{testNode: vnode("free", "rack 7 "+offlineComment), testNode + "[1]": vnode("free", "-")}, nil},
				{vnodes{testNode: vnode("offline", "-"), testNode + "[1]": vnode("free", "-")},
					vnodes{testNode: {State: "offline"}}},
			} {
				n.waited()
				out, err := n.event(hostapi.EventPeriodic, "", pbsSees(tt.known))
				if diff := cmp.Diff(tt.want, out.Vnodes); diff != "" || err != nil {
					t.Errorf("while the process lives, and PBS has %v: %v, -want +got:\n%s", tt.known, err, diff)
				}
			}
			k.Unstick(pid)
			n.policy.Cgroup.KillTimeout = config.Duration(10 * time.Second) // for what can die
			n.do(hostapi.EventEnd, "1")                                     // the host sends it again
			lost := vnodes{testNode: vnode("offline", "-"), testNode + "[1]": vnode("job-busy", "-")}
			out = n.do(hostapi.EventPeriodic, "", pbsSees(lost))
			back := vnodes{testNode: {State: "free"}, testNode + "[1]": {State: "free"}}
			must.Equal(t, "after it died", back, out.Vnodes)
			if out := n.do(hostapi.EventPeriodic, "", pbsSees(offline)); len(out.Vnodes) > 0 {
				t.Errorf("once more: %+v, want nothing", out.Vnodes)
			}
		})
	}
}

// TestProcessesThatWaitForACPUPutNoVnodeOffline: meanwhile the end of their job fails, and is sent
// again. If there is also a stuck process, it counts when they are gone.
func TestProcessesThatWaitForACPUPutNoVnodeOffline(t *testing.T) {
	for _, last := range []hostapi.Event{hostapi.EventEpilogue, hostapi.EventEnd, hostapi.EventAbort} {
		onFakes(t, shortKill, func(t *testing.T, n *node, k *kernfstest.Kernel) {
			n.kept = nodestate.Dir(t.TempDir())
			known := pbsSees(vnodes{testNode: vnode("free", "-")})
			n.do(hostapi.EventBegin, "1")
			enter := n.launches("1")
			starved, stuck := n.start(t, enter), n.start(t, enter)
			k.Starve(starved)
			k.Stick(stuck)
			for range 2 {
				out, err := n.event(last, "1", known)
				if err == nil || !strings.Contains(err.Error(), errStarved.Error()) || len(out.Vnodes) > 0 {
					t.Errorf("%s: %+v, %v; want an error and no vnodes", last, out, err)
				}
				if out, err := n.event(hostapi.EventPeriodic, "", known); err != nil || len(out.Vnodes) > 0 {
					t.Errorf("periodic: %+v, %v; want no vnodes", out, err)
				}
			}
			k.Unstick(starved)
			if out, err := n.event(last, "1", known); err == nil || out.Vnodes[testNode].State != stateOffline {
				t.Errorf("%s of what is stuck: %+v, %v; want the vnode offline", last, out, err)
			}
			k.Unstick(stuck)
			n.policy.Cgroup.KillTimeout = config.Duration(10 * time.Second) // for what can die
			n.do(hostapi.EventEnd, "1")
			n.want()
		})
	}
}

// TestNoWordFromPBS: what is found out in an event that PBS did not send is reported in the next
// event from PBS.
func TestNoWordFromPBS(t *testing.T) {
	n, k := fakeNode(t, kernfstest.NewV2, shortKill)
	pid := stuckJob(n, k)
	if out, err := n.event(hostapi.EventEnd, "1"); err == nil || out.Vnodes[testNode].State != "offline" ||
		out.Vnodes[testNode].Comment != nil {
		t.Errorf("end: %+v, %v", out, err)
	}
	// pbs_mom's own list has neither state nor comment, so the comment is not touched.
	out, err := n.event(hostapi.EventPeriodic, "",
		pbsSees(vnodes{testNode: {ResourcesAvailable: hostapi.Resources{"ncpus": "8"}}}))
	if diff := cmp.Diff(vnodes{testNode: {State: "offline"}}, out.Vnodes); diff != "" || err != nil {
		t.Errorf("periodic: %v, -want +got:\n%s", err, diff)
	}
	k.Unstick(pid)
	n.policy.Cgroup.KillTimeout = config.Duration(10 * time.Second) // for what can die
	n.do(hostapi.EventEnd, "1")
	n.waited()
	// Vnodes are not brought online without knowing their state from the server.
	for _, known := range []vnodes{nil, {testNode: {}}} {
		if out := n.do(hostapi.EventPeriodic, "", pbsSees(known)); len(out.Vnodes) > 0 {
			t.Errorf("%+v", out.Vnodes)
		}
	}
	if o, err := n.kept.Offline(); o == nil || err != nil {
		t.Errorf("%+v, %v, want the note kept", o, err)
	}
}

// TestOnlineRules checks when vnodes come back online.
func TestOnlineRules(t *testing.T) {
	ago := func(d time.Duration) time.Time { return time.Now().Add(-d) }
	offline := vnodes{testNode: vnode("offline,down", offlineComment+"; disk changed"),
		testNode + "[0]": vnode("offline", "no text of ours")}
	comesBack := vnodes{testNode: {State: "free"}, testNode + "[0]": {State: "free"}}
	for _, tt := range []struct {
		name  string
		edit  func(*config.File)
		note  *nodestate.Offline
		known vnodes
		want  vnodes
		kept  bool
	}{
		{name: "time over", note: &nodestate.Offline{Since: ago(time.Minute), Sent: true}, known: offline,
			want: comesBack},
		{name: "too early", note: &nodestate.Offline{Since: ago(time.Second), Sent: true}, known: offline, kept: true},
		{name: "no delay", edit: func(f *config.File) { f.Vnodes.OnlineMinDelay = 0 },
			note: &nodestate.Offline{Since: ago(time.Second), Sent: true}, known: offline, want: comesBack},
		{name: "not to come back", edit: func(f *config.File) { f.Vnodes.OnlineOfflinedNodes = false },
			note: &nodestate.Offline{Since: ago(time.Hour), Sent: true}, known: offline, kept: true},
		{name: "not to come back, and brought back",
			edit: func(f *config.File) { f.Vnodes.OnlineOfflinedNodes = false },
			note: &nodestate.Offline{Since: ago(time.Hour), Sent: true}, known: vnodes{testNode: vnode("free", "-")}},
		{name: "never told", note: &nodestate.Offline{Since: ago(time.Hour)}, known: offline},
		{name: "a clock set back", note: &nodestate.Offline{Since: ago(-time.Hour), Sent: true}, known: offline,
			kept: true},
		{name: "no note: not ours, whatever the text", known: offline},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n, _ := fakeNode(t, kernfstest.NewV2, tt.edit)
			n.kept = nodestate.Dir(t.TempDir())
			must.NoError(t, n.kept.SetOffline(tt.note))
			out := n.do(hostapi.EventPeriodic, "", pbsSees(tt.known))
			must.Equal(t, "", tt.want, out.Vnodes)
			if o, err := n.kept.Offline(); (o != nil) != tt.kept || err != nil {
				t.Errorf("note %+v, %v, want one: %t", o, err, tt.kept)
			}
		})
	}
}

// TestVnodesThatTheJobHadNotGoOfflineNext: the list in a job's event has only the job's vnodes.
func TestVnodesThatTheJobHadNotGoOfflineNext(t *testing.T) {
	n, k := fakeNode(t, kernfstest.NewV2, shortKill)
	pid := stuckJob(n, k)
	out, _ := n.event(hostapi.EventEnd, "1", pbsSees(vnodes{"blade": nil}))
	must.Equal(t, "at the job's end", vnodes{testNode: {State: "offline"}, "blade": {State: "offline"}}, out.Vnodes)
	all := vnodes{testNode: vnode("offline", offlineComment), "blade": vnode("offline", offlineComment),
		"rack": vnode("free", "-")}
	out = n.do(hostapi.EventPeriodic, "", pbsSees(all))
	must.Equal(t, "at the next periodic", vnodes{"rack": {State: "offline"}}, out.Vnodes)
	out = n.do(hostapi.EventPeriodic, "", pbsSees(all))
	must.Equal(t, "at the one after it", vnodes(nil), out.Vnodes)
	k.Unstick(pid)
	n.waited()
}

func TestOwnVnodes(t *testing.T) {
	n, _ := fakeNode(t, kernfstest.NewV2, func(f *config.File) { f.Vnodes.PerNUMANode = true })
	known := vnodes{testNode + "[x]": nil, "blade": nil, testNode + "[12]": {}}
	want := []string{"blade", testNode, testNode + "[0]", testNode + "[12]", testNode + "[1]", testNode + "[x]"}
	if got := n.policy.vnodesOfHost(n.hook.node(), testNode, known); !slices.Equal(got, want) {
		t.Errorf("%v, want %v (known %v)", got, want, slices.Collect(maps.Keys(known)))
	}
}
