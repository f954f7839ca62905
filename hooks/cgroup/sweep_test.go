package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
)

// retire has the cgroup say that its job is over.
func (n *node) retire(id string) {
	n.t.Helper()
	j := n.cgroup(id)
	r, err := j.Record()
	if err != nil {
		n.t.Fatal(err)
	}
	r.Ending = true
	if err := j.SetRecord(r); err != nil {
		n.t.Fatal(err)
	}
}

// TestSweepRemovesWhatIsNoJobs has a cgroup 1.srv whose job is over, and a host that does not list it.
func TestSweepRemovesWhatIsNoJobs(t *testing.T) {
	tests := []struct {
		name  string
		setUp func(n *node)
		gone  bool
	}{
		{"begun by this hook, and the list is older", func(*node) {}, false},
		{"begun by a hook that died", (*node).reboot, true},
		{"begun by a hook that died, and its record says that the job runs", func(n *node) {
			n.reboot()
			if err := n.cgroup("1.srv").SetRecord(cgroup.Record{Begin: &hostapi.Request{Job: n.job("1.srv")}}); err != nil {
				n.t.Fatal(err)
			}
			delete(n.jobs, "1.srv")
		}, false},
		{"listed at startup, and the list is older", func(n *node) {
			n.reboot()
			n.jobs["1.srv"] = n.job("1.srv")
			n.do(hostapi.EventStartup, "")
			delete(n.jobs, "1.srv")
		}, false},
		{"in the list", func(n *node) { n.reboot(); n.jobs["1.srv"] = n.job("1.srv") }, false},
		{"begins or ends at this moment", func(n *node) {
			n.reboot()
			release, _ := n.turns.try("1.srv")
			n.t.Cleanup(release)
		}, false},
		{"made by hand", func(n *node) {
			n.do(hostapi.EventEnd, "1.srv")
			if err := n.cgroup("1.srv").Create(n.limits("2")); err != nil {
				n.t.Fatal(err)
			}
			delete(n.jobs, "1.srv")
		}, true},
	}
	for _, f := range fakes {
		for _, tt := range tests {
			t.Run(f.name+"/"+tt.name, func(t *testing.T) {
				n, _ := fakeNode(t, f.boot, nil)
				n.do(hostapi.EventBegin, "1.srv")
				pid := n.launch("1.srv")
				n.retire("1.srv")
				delete(n.jobs, "1.srv")
				tt.setUp(n)
				out := n.do(hostapi.EventPeriodic, "")
				if tt.gone {
					n.want()
					if want := []string{"removed cgroup of unknown job 1.srv"}; !slices.Equal(out.Notes, want) {
						t.Errorf("notes %q, want %q", out.Notes, want)
					}
					if n.lives(pid) {
						t.Error("its process lives")
					}
					return
				}
				n.want("1.srv")
				if len(out.Notes) > 0 {
					t.Errorf("notes %q", out.Notes)
				}
			})
		}
	}
}

// reboot has another hook take the place of one that died.
func (n *node) reboot() {
	n.hook.die()
	n.hook = n.boot()
}

// A periodic about one job has a list of this job only.
func TestSweepNotForOneJob(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
		n.do(hostapi.EventBegin, "1.srv")
		n.do(hostapi.EventBegin, "2.srv")
		n.retire("2.srv")
		n.disown("2.srv")
		out := n.do(hostapi.EventPeriodic, "", func(r *hostapi.Request) {
			r.Partial = true
			delete(r.JobList, "2.srv")
		})
		if len(out.Jobs) != 1 || out.Jobs["1.srv"] == nil {
			t.Errorf("jobs %v", out.Jobs)
		}
		n.want("1.srv", "2.srv")
		n.do(hostapi.EventEnd, "1.srv")
		n.do(hostapi.EventEnd, "2.srv")
	})
}

// Processes that do not die hold up neither the periodic nor the removal of the others.
func TestSweepStuck(t *testing.T) {
	short := func(c *config.File) { c.Cgroup.KillTimeout = config.Duration(30 * time.Millisecond) }
	onFakes(t, short, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		pids := map[string]int{}
		for _, id := range []string{"1.srv", "2.srv", "3.srv"} {
			n.do(hostapi.EventBegin, id)
			pids[id] = n.launch(id)
			n.retire(id)
			delete(n.jobs, id)
			n.disown(id)
		}
		k.Stick(pids["1.srv"])
		k.Stick(pids["2.srv"])
		_, err := n.event(hostapi.EventPeriodic, "")
		if hostapi.KindOf(err) != hostapi.KindNode || n.lives(pids["3.srv"]) {
			t.Errorf("error %v of kind %q; 3.srv lives: %v", err, hostapi.KindOf(err), n.lives(pids["3.srv"]))
		}
		k.Unstick(pids["1.srv"])
		k.Unstick(pids["2.srv"])
		n.do(hostapi.EventPeriodic, "")
		n.want()
	})
}

// A removal that was broken off leaves the directory that has the marks, so what is left is known to be hookhost's.
func TestSweepRemains(t *testing.T) {
	n, k := fakeNode(t, kernfstest.NewHybrid, nil)
	n.do(hostapi.EventBegin, "1.srv")
	pid := n.launch("1.srv")
	if err := n.roots.Cgroup.Write("memory/cgroup.procs", fmt.Sprint(pid)); err != nil {
		t.Fatal(err)
	}
	heal := k.Fail("rmdir", "unified/pbs_jobs.service/jobs/1.srv", unix.EIO)
	if err := n.hook.removeDirs(t.Context(), n.cgroup("1.srv")); err == nil {
		t.Fatal("removed")
	}
	heal()
	n.hook.die()
	n.hook = n.boot()
	delete(n.jobs, "1.srv")
	n.do(hostapi.EventStartup, "")
	n.want()
	if n.lives(pid) {
		t.Error("the process lives")
	}
}

// What OpenPBS's own hook has made, at the same place on v1, goes on when hookhost comes; its cpus are taken, and its end removes it.
func TestSweepLeavesStrangers(t *testing.T) {
	for _, dirs := range [][]string{{"memory", "cpuset"}, {"cpuset"}} {
		n, k := fakeNode(t, kernfstest.NewV1, nil)
		n.do(hostapi.EventBegin, "1.srv") // the parents are there
		n.do(hostapi.EventEnd, "1.srv")
		delete(n.jobs, "1.srv")
		pid := k.Spawn()
		for _, dir := range dirs {
			dir += "/pbs_jobs.service/jobid/7.srv"
			err := n.roots.Cgroup.Mkdir(dir)
			if strings.HasPrefix(dir, "cpuset") {
				err = errors.Join(err, n.roots.Cgroup.Write(dir+"/cpuset.cpus", "0"), n.roots.Cgroup.Write(dir+"/cpuset.mems", "0"))
			}
			if err = errors.Join(err, n.roots.Cgroup.Write(dir+"/cgroup.procs", fmt.Sprint(pid))); err != nil {
				t.Fatal(err)
			}
		}
		n.do(hostapi.EventPeriodic, "")
		n.do(hostapi.EventStartup, "")
		if !n.lives(pid) || !n.cgroup("7.srv").Exists() {
			t.Fatalf("%v: process lives: %t, cgroup stays: %t", dirs, n.lives(pid), n.cgroup("7.srv").Exists())
		}
		k.Exit(pid)
		n.do(hostapi.EventPeriodic, "")
		n.want()
	}
}
