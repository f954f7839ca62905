package main

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/pbs"
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
	n.do(hostapi.EventBegin, "1")
	pid = n.start(n.t, n.launches("1"))
	k.Stick(pid)
	return pid
}

// TestVnodesGoOfflineAndComeBack has a process that does not die for a while, and restarts the hook
// meanwhile. An event that PBS did not send has no vnode_list, and its answer does not reach PBS.
func TestVnodesGoOfflineAndComeBack(t *testing.T) {
	for _, last := range []hostapi.Event{hostapi.EventEpilogue, hostapi.EventEnd, hostapi.EventAbort} {
		onFakes(t, shortKill, func(t *testing.T, n *node, k *kernfstest.Kernel) {
			pid := stuckJob(n, k)
			mom := vnodes{testNode: {ResourcesAvailable: hostapi.Resources{"ncpus": "8"}}, testNode + "[1]": {}}
			server := vnodes{testNode: vnode("offline", "rack 7 "+pbs.CleanUpComment),
				testNode + "[1]": vnode("offline,job-busy", "-")}
			both := func(state string) vnodes {
				return vnodes{testNode: {State: state}, testNode + "[1]": {State: state}}
			}
			if out, err := n.event(hostapi.EventPeriodic, "", pbsSees(mom)); err != nil || len(out.Vnodes) > 0 {
				t.Errorf("before the end: %+v, %v, want no vnodes", out, err)
			}
			out, err := n.event(last, "1")
			if err == nil || out == nil || out.Vnodes[testNode].State != "offline" ||
				out.Vnodes[testNode].Comment != nil {
				t.Fatalf("%s of a job that does not die: %+v, %v, want an error", last, out, err)
			}
			for _, known := range []vnodes{mom, server} {
				out = n.do(hostapi.EventPeriodic, "", pbsSees(known))
				must.Equal(t, "while the process lives", both("offline"), out.Vnodes)
			}
			n.reboot()
			if out, err := n.event(hostapi.EventStartup, "", pbsSees(server)); err != nil ||
				out.Vnodes[testNode].State != "" {
				t.Errorf("startup: %+v, %v, want no new state", out, err)
			}
			k.Unstick(pid)
			n.policy.Cgroup.KillTimeout = config.Duration(10 * time.Second) // for what can die
			n.do(hostapi.EventEnd, "1")                                     // the host sends it again
			must.Equal(t, "after it died", both("free"), n.do(hostapi.EventPeriodic, "", pbsSees(server)).Vnodes)
			others := vnodes{testNode: vnode("offline", "for another cause"), testNode + "[1]": vnode("free", "-")}
			for _, known := range []vnodes{mom, others} {
				out = n.do(hostapi.EventPeriodic, "", pbsSees(known))
				must.Equal(t, "and if nothing of ours is offline", vnodes(nil), out.Vnodes)
			}
		})
	}
}

// TestProcessesThatWaitForACPUPutNoVnodeOffline: meanwhile the end of their job fails, and is sent
// again. If there is also a stuck process, it counts when they are gone.
func TestProcessesThatWaitForACPUPutNoVnodeOffline(t *testing.T) {
	for _, last := range []hostapi.Event{hostapi.EventEpilogue, hostapi.EventEnd, hostapi.EventAbort} {
		onFakes(t, shortKill, func(t *testing.T, n *node, k *kernfstest.Kernel) {
			known := pbsSees(vnodes{testNode: {}})
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

func TestOwnVnodes(t *testing.T) {
	n, _ := fakeNode(t, kernfstest.NewV2, func(f *config.File) { f.Vnodes.PerNUMANode = true })
	known := vnodes{testNode + "[x]": nil, "blade": nil, testNode + "[12]": {}}
	want := []string{"blade", testNode, testNode + "[0]", testNode + "[12]", testNode + "[1]", testNode + "[x]"}
	if got := n.policy.vnodesOfHost(n.hook.node(), testNode, known); !slices.Equal(got, want) {
		t.Errorf("%v, want %v (known %v)", got, want, slices.Collect(maps.Keys(known)))
	}
}
