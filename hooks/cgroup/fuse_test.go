package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/nodestate"
)

// hangs begins a job of tracedUID, and has a process of it wait for a FUSE file system of uid.
func (n *node) hangs(uid int) (pid int, detach, abort func()) {
	n.t.Helper()
	n.kept = nodestate.Dir(n.t.TempDir())
	dir, asked, detach, abort := kernfstest.HangingFUSE(n.t.(*testing.T), uid)
	n.do(hostapi.EventBegin, "1.srv", ownedBy(tracedUID))
	child := n.startOwned("1.srv", tracedUID, "stat", filepath.Join(dir, "file"))
	for end := time.Now().Add(time.Minute); asked() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			n.t.Fatal("nobody asks it")
		}
	}
	n.t.Cleanup(abort) // before the process is waited for
	return child.PID, detach, abort
}

func soonKilled(f *config.File) { f.Cgroup.KillTimeout = config.Duration(5 * time.Second) }

// A process that waits for a file system of its user's own holds up neither its job nor the node.
// The hook can end such a job whether or not the process sees the mount.
func TestHangingFUSEOfTheOwnerIsAborted(t *testing.T) {
	for _, seen := range []bool{true, false} {
		t.Run(fmt.Sprintf("seen %v", seen), func(t *testing.T) {
			n := realNode(t, soonKilled)
			_, detach, _ := n.hangs(tracedUID)
			if !seen {
				detach()
			}
			text := fmt.Sprintf("of uid %d, which did not answer and held up the job's end", tracedUID)
			if notes := n.endsInTime("1.srv"); !strings.Contains(notes, text) {
				t.Errorf("notes %q", notes)
			}
			n.want()
		})
	}
}

// A file system of another user's, perhaps of a subordinate id of the owner's, stays, and holds no
// node.
func TestHangingFUSEOfAnotherTakesNoNodeOffline(t *testing.T) {
	n := realNode(t, soonKilled)
	pid, _, abort := n.hangs(tracedUID + 1)
	known := vnodes{testNode: vnode("free", "-")}
	for _, e := range []hostapi.Event{hostapi.EventEpilogue, hostapi.EventEnd} {
		out, err := n.event(e, "1.srv", pbsSees(known))
		if !errors.Is(err, errHeld) || cannotRemove(err) || len(out.Vnodes) > 0 {
			t.Errorf("%s: %v, vnodes %v", e, err, out.Vnodes)
		}
		if notes := strings.Join(out.Notes, "\n"); !strings.Contains(notes, fmt.Sprintf("process %d by FUSE", pid)) {
			t.Errorf("%s: notes %q", e, notes)
		}
	}
	for _, e := range []hostapi.Event{hostapi.EventStartup, hostapi.EventPeriodic} {
		if out := n.do(e, "", pbsSees(known)); out.Vnodes[testNode] != nil && out.Vnodes[testNode].State != "" {
			t.Errorf("%s: %+v", e, out.Vnodes[testNode])
		}
	}
	abort()
	n.do(hostapi.EventEnd, "1.srv")
	n.want()
}
