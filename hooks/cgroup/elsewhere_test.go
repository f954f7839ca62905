package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/nodestate"
)

// recordsIn gives the hook a state directory.
func (n *node) recordsIn(dir string) {
	n.t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		n.t.Fatal(err)
	}
	n.kept = nodestate.Dir(dir)
	var err error
	if n.self.State, err = n.kept.Place(); err != nil {
		n.t.Fatal(err)
	}
}

// A job that is recorded in another state directory is left alone as long as that is there, whether its host lives or not.
func TestRecordedElsewhere(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		dir := t.TempDir()
		theirs, ours := filepath.Join(dir, "theirs"), filepath.Join(dir, "ours")
		hookPID, hostPID := n.as(k)
		n.recordsIn(theirs)
		n.do(hostapi.EventBegin, "1.srv")
		n.do(hostapi.EventBegin, "2.srv")
		pid := n.launch("1.srv")
		n.retire("2.srv")
		first := *n

		n.jobs = map[string]*hostapi.Job{}
		n.hook = n.boot()
		n.as(k)
		n.recordsIn(ours)
		left := func(when string) {
			t.Helper()
			for _, e := range []hostapi.Event{hostapi.EventStartup, hostapi.EventPeriodic} {
				if out := n.do(e, ""); len(out.Notes) > 0 {
					t.Errorf("%s: %s has the notes %q", when, e, out.Notes)
				}
			}
			for _, e := range []hostapi.Event{hostapi.EventBegin, hostapi.EventEpilogue, hostapi.EventEnd, hostapi.EventAbort} {
				_, err := n.event(e, "1.srv")
				if hostapi.KindOf(err) != hostapi.KindBusy || !strings.Contains(err.Error(), theirs) || !strings.Contains(err.Error(), ours) {
					t.Errorf("%s: %s: error %v of kind %q", when, e, err, hostapi.KindOf(err))
				}
				delete(n.jobs, "1.srv")
			}
			if !n.lives(pid) {
				t.Fatalf("%s: the process was killed", when)
			}
			n.want("1.srv", "2.srv")
		}
		left("its host lives")
		first.hook.die()
		k.Exit(hookPID)
		k.Exit(hostPID)
		left("its host is gone")

		// A list that has it does not make it ours: it is of another run.
		n.jobs["1.srv"] = n.job("1.srv")
		n.do(hostapi.EventPeriodic, "")
		if n.owns("1.srv") {
			t.Error("taken over from a list")
		}
		delete(n.jobs, "1.srv")

		// Its host comes again, with the directory renamed meanwhile, and then is gone for good.
		if err := os.Rename(theirs, theirs+"2"); err != nil {
			t.Fatal(err)
		}
		first.hook = first.boot()
		hookPID, hostPID = first.as(k)
		first.recordsIn(theirs + "2")
		first.do(hostapi.EventPeriodic, "")
		if m, err := n.cgroup("1.srv").Maker(); err != nil || m.State.Dir != theirs+"2" || !first.owns("1.srv") {
			t.Errorf("renamed: %+v, %v", m, err)
		}
		first.hook.die()
		k.Exit(hookPID)
		k.Exit(hostPID)
		if err := os.RemoveAll(theirs + "2"); err != nil {
			t.Fatal(err)
		}
		n.do(hostapi.EventPeriodic, "")
		n.want("1.srv") // it says itself that it runs
		n.do(hostapi.EventEnd, "1.srv")
		n.want()
		if n.lives(pid) {
			t.Error("the process lives")
		}
	})
}

// A job that is recorded in two state directories, as after one was copied, is taken over by who lives; what has only an older run of it
// leaves it alone.
func TestRecordedInBoth(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		dir := t.TempDir()
		first, theirs, ours := *n, filepath.Join(dir, "theirs"), filepath.Join(dir, "ours")
		hookPID, hostPID := first.as(k)
		first.recordsIn(theirs)
		ids := []string{"1.srv", "2.srv", "3.srv"}
		var pids []int
		for _, id := range ids {
			first.do(hostapi.EventBegin, id)
			pids = append(pids, first.launch(id))
		}
		old := first.job("3.srv").State
		first.do(hostapi.EventEnd, "3.srv")
		first.do(hostapi.EventBegin, "3.srv")
		pids[2] = first.launch("3.srv")

		n.jobs = map[string]*hostapi.Job{}
		for _, id := range ids {
			job := *first.job(id)
			n.jobs[id] = &job
		}
		n.jobs["3.srv"].State = old
		n.hook = n.boot()
		n.as(k)
		n.recordsIn(ours)
		at := func(id string) string {
			t.Helper()
			m, err := n.cgroup(id).Maker()
			if err != nil {
				t.Fatal(err)
			}
			return filepath.Base(m.State.Dir)
		}
		refused := func(id string) {
			t.Helper()
			had := n.jobs[id]
			for _, e := range []hostapi.Event{hostapi.EventEpilogue, hostapi.EventEnd} {
				_, err := n.event(e, id)
				if hostapi.KindOf(err) != hostapi.KindBusy || !strings.Contains(err.Error(), "its cgroup says that its record is in "+theirs) {
					t.Errorf("%s %s: error %v of kind %q", e, id, err, hostapi.KindOf(err))
				}
			}
			n.jobs[id] = had
		}
		n.do(hostapi.EventPeriodic, "")
		for i, id := range ids {
			refused(id) // its host lives
			if at(id) != "theirs" || !n.lives(pids[i]) {
				t.Errorf("%s: taken from a host that lives", id)
			}
		}
		first.hook.die()
		k.Exit(hookPID)
		k.Exit(hostPID)

		// One that no startup has named yet.
		n.do(hostapi.EventEpilogue, "2.srv")
		if at("2.srv") != "ours" || n.lives(pids[1]) {
			t.Error("not taken over at its end")
		}
		n.do(hostapi.EventEnd, "2.srv")
		n.do(hostapi.EventStartup, "")
		if at("1.srv") != "ours" || !n.owns("1.srv") || !n.lives(pids[0]) {
			t.Error("not taken over at startup")
		}
		if at("3.srv") != "theirs" || n.owns("3.srv") {
			t.Error("an older run's record has made it ours")
		}
		refused("3.srv")
		if !n.lives(pids[2]) {
			t.Error("ended by the record of an older run")
		}
		delete(n.jobs, "3.srv")
		n.do(hostapi.EventEnd, "1.srv")
		n.want("3.srv")
		if n.lives(pids[0]) {
			t.Error("the process lives")
		}

		// Its host comes again, with what it had.
		first.hook = first.boot()
		first.as(k)
		first.recordsIn(theirs)
		first.do(hostapi.EventStartup, "")
		first.do(hostapi.EventEnd, "1.srv")
		first.do(hostapi.EventEnd, "3.srv")
		first.want()
	})
}
