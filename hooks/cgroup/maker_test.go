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
	"github.com/hookhost/hookhost/internal/proc"
)

// as gives the hook another process, and that another host, both living.
func (n *node) as(k *kernfstest.Kernel) (hookPID, hostPID int) {
	n.t.Helper()
	hostPID = k.Spawn()
	hookPID, err := k.Fork(hostPID)
	if err != nil {
		n.t.Fatal(err)
	}
	for _, p := range []struct {
		id  *hostapi.ProcessID
		pid int
	}{{&n.self.Hook, hookPID}, {&n.self.Host, hostPID}} {
		if *p.id, err = proc.ID(n.roots.Proc, p.pid); err != nil {
			n.t.Fatal(err)
		}
	}
	return hookPID, hostPID
}

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

// TestSweep has a first hook with a job 1.srv, which is over, that a second hook's host does not know.
func TestSweep(t *testing.T) {
	type pair struct {
		first, second *node
		k             *kernfstest.Kernel
		hook, host    int // the first's processes
	}
	tests := []struct {
		name  string
		setUp func(p pair)
		gone  bool
	}{
		{"its maker lives", func(pair) {}, false},
		{"the hook died, its host lives and starts it anew", func(p pair) { p.k.Exit(p.hook) }, false},
		{"hook and host died", func(p pair) { p.k.Exit(p.hook); p.k.Exit(p.host) }, true},
		{"the second hook is the successor of the first", func(p pair) {
			p.second.self.Host = p.first.self.Host
			p.k.Exit(p.hook)
		}, true},
		{"made by the second hook, and its host's list is old", func(p pair) {
			p.first.do(hostapi.EventEnd, "1.srv")
			p.second.do(hostapi.EventBegin, "1.srv")
			p.second.retire("1.srv")
			delete(p.second.jobs, "1.srv")
		}, false},
		{"it says itself that its job runs", func(p pair) {
			p.k.Exit(p.hook)
			p.k.Exit(p.host)
			if err := p.first.cgroup("1.srv").SetRecord(cgroup.Record{Begin: &hostapi.Request{Job: p.first.job("1.srv")}}); err != nil {
				p.first.t.Fatal(err)
			}
		}, false},
		{"taken over at startup, and the list of a periodic is old", func(p pair) {
			p.k.Exit(p.hook)
			p.k.Exit(p.host)
			p.second.jobs["1.srv"] = p.second.job("1.srv")
			p.second.do(hostapi.EventStartup, "")
			delete(p.second.jobs, "1.srv")
		}, false},
		{"in the list", func(p pair) {
			p.k.Exit(p.hook)
			p.k.Exit(p.host)
			p.second.jobs["1.srv"] = p.second.job("1.srv")
		}, false},
		{"begins or ends at this moment", func(p pair) {
			p.k.Exit(p.hook)
			p.k.Exit(p.host)
			release, _ := p.second.turns.try("1.srv")
			p.second.t.Cleanup(release)
		}, false},
		{"made by hand", func(p pair) {
			p.first.do(hostapi.EventEnd, "1.srv")
			if err := p.first.cgroup("1.srv").Create(p.first.limits("2")); err != nil {
				p.first.t.Fatal(err)
			}
		}, true},
	}
	for _, f := range fakes {
		for _, tt := range tests {
			t.Run(f.name+"/"+tt.name, func(t *testing.T) {
				first, k := fakeNode(t, f.boot, nil)
				second := *first
				second.hook, second.jobs = first.boot(), map[string]*hostapi.Job{}
				t.Cleanup(second.hook.die)
				p := pair{first: first, second: &second, k: k}
				p.hook, p.host = first.as(k)
				second.as(k)
				first.do(hostapi.EventBegin, "1.srv")
				pid := first.launch("1.srv")
				first.retire("1.srv")
				tt.setUp(p)
				out := second.do(hostapi.EventPeriodic, "")
				if tt.gone {
					first.want()
					if want := []string{"removed cgroup of unknown job 1.srv"}; !slices.Equal(out.Notes, want) {
						t.Errorf("notes %q, want %q", out.Notes, want)
					}
					if first.lives(pid) {
						t.Error("its process lives")
					}
					return
				}
				first.want("1.srv")
				if len(out.Notes) > 0 {
					t.Errorf("notes %q", out.Notes)
				}
			})
		}
	}
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

// A leftover that another living host's hook answers for is not this one's to kill.
func TestBeginOverAnothersJob(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		hookPID, hostPID := n.as(k)
		n.do(hostapi.EventBegin, "1.srv")
		pid := n.launch("1.srv")
		n.hook.die()
		n.hook = n.boot()
		n.as(k)
		record := n.job("1.srv")
		for _, e := range []hostapi.Event{hostapi.EventBegin, hostapi.EventAbort, hostapi.EventEpilogue, hostapi.EventEnd} {
			_, err := n.event(e, "1.srv")
			if hostapi.KindOf(err) != hostapi.KindBusy || !n.lives(pid) {
				t.Errorf("%s: error %v of kind %q; process lives: %v", e, err, hostapi.KindOf(err), n.lives(pid))
			}
			n.jobs["1.srv"] = record
		}
		k.Exit(hookPID)
		k.Exit(hostPID)
		n.do(hostapi.EventBegin, "1.srv")
		if n.lives(pid) {
			t.Error("the leftover's process lives")
		}
		n.do(hostapi.EventEnd, "1.srv")
	})
}

// Whose host has died ends its jobs through the next host, and whose hook has died through the next hook.
func TestEndOfAnothersJob(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		for _, hostDies := range []bool{true, false} {
			hookPID, hostPID := n.as(k)
			n.do(hostapi.EventBegin, "1.srv")
			pid, self := n.launch("1.srv"), n.self
			n.hook.die()
			n.hook = n.boot()
			n.as(k)
			if k.Exit(hookPID); hostDies {
				k.Exit(hostPID)
			} else {
				n.self.Host = self.Host
			}
			n.do(hostapi.EventEnd, "1.srv")
			n.want()
			if n.lives(pid) {
				t.Error("the process lives")
			}
		}
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
