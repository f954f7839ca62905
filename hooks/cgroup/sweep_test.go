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
	"github.com/hookhost/hookhost/internal/must"
)

// retire replaces the mark of the job's cgroup with one of no job.
func (n *node) retire(id string) {
	n.t.Helper()
	must.NoError(n.t, n.cgroup(id).SetJobMark(cgroup.JobMark{}))
}

// TestSweepRemovesWhatIsNoJobs has a cgroup 1.srv whose job has ended, and a host that does not
// list the job.
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
			mark := cgroup.JobMark{Begin: &hostapi.Request{Job: n.job("1.srv")}}
			must.NoError(n.t, n.cgroup("1.srv").SetJobMark(mark))
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
			release := n.try("1.srv")
			n.t.Cleanup(release)
		}, false},
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
				n.jobs["1.srv"] = n.job("1.srv") // for close
			})
		}
	}
}

// A job that has a record on its cgroup but is not in the host's list is reported at startup.
func TestStartupReportsJobsThatTheHostHasLost(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
		for _, id := range []string{"1.srv", "2.srv", "3.srv"} {
			n.do(hostapi.EventBegin, id, func(req *hostapi.Request) {
				req.PBS, req.MoMHome = true, "/var/spool/pbs"
				req.VnodeList = map[string]*hostapi.Vnode{testNode: {Sharing: "default_shared"}}
			})
		}
		n.launch("1.srv")
		if _, err := n.resize("1.srv", "ncpus=1", "mem=32mb"); err != nil {
			t.Fatal(err)
		}
		n.do(hostapi.EventPostsuspend, "2.srv")
		delete(n.jobs, "1.srv")
		delete(n.jobs, "2.srv")
		n.reboot()
		out := n.do(hostapi.EventStartup, "")
		one, two := out.Jobs["1.srv"], out.Jobs["2.srv"]
		if one == nil || two == nil || out.Jobs["3.srv"] != nil {
			t.Fatalf("reported %v", out.Jobs)
		}
		b := one.Begin
		if b.Job.ResourceList["mem"] != "32mb" || !b.PBS || b.MoMHome != "/var/spool/pbs" || b.VnodeList != nil ||
			b.Job.Phase != "" {
			t.Errorf("begin %+v of job %+v", b, b.Job)
		}
		if one.Frozen != nil || two.Frozen == nil || !*two.Frozen {
			t.Errorf("frozen %v and %v", one.Frozen, two.Frozen)
		}
		n.want("1.srv", "2.srv", "3.srv")
		for _, id := range []string{"1.srv", "2.srv", "3.srv"} {
			if n.snapshot(id).watch == nil {
				t.Errorf("job %s is not watched", id)
			}
		}
		for _, id := range []string{"1.srv", "2.srv", "3.srv"} {
			n.do(hostapi.EventEnd, id)
		}
	})
}

// A periodic for one job lists only that job.
func TestSweepNotForOneJob(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
		n.do(hostapi.EventBegin, "1.srv")
		n.do(hostapi.EventBegin, "2.srv")
		n.retire("2.srv")
		n.forget("2.srv")
		out := n.do(hostapi.EventPeriodic, "", func(r *hostapi.Request) {
			r.Partial = true
			delete(r.JobList, "2.srv")
		})
		if len(out.Jobs) != 1 || out.Jobs["1.srv"] == nil {
			t.Errorf("jobs %v", out.Jobs)
		}
		n.want("1.srv", "2.srv")
	})
}

// Processes that do not die delay neither the periodic nor the removal of other cgroups.
func TestSweepStuck(t *testing.T) {
	short := func(c *config.File) { c.Cgroup.KillTimeout = config.Duration(30 * time.Millisecond) }
	onFakes(t, short, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		pids := map[string]int{}
		for _, id := range []string{"1.srv", "2.srv", "3.srv"} {
			n.do(hostapi.EventBegin, id)
			pids[id] = n.launch(id)
			n.retire(id)
			delete(n.jobs, id)
			n.forget(id)
		}
		k.Stick(pids["1.srv"])
		k.Stick(pids["2.srv"])
		_, err := n.event(hostapi.EventPeriodic, "")
		if hostapi.KindOf(err) != hostapi.KindNode || n.lives(pids["3.srv"]) {
			t.Errorf("error %v of kind %q; 3.srv lives: %v", err, hostapi.KindOf(err), n.lives(pids["3.srv"]))
		}
		k.Unstick(pids["1.srv"])
		k.Unstick(pids["2.srv"])
		n.policy.Cgroup.KillTimeout = config.Duration(10 * time.Second) // for what can die
		n.do(hostapi.EventPeriodic, "")
		n.want()
	})
}

// An interrupted removal leaves the directory with the marks. When the host repeats the job's end,
// the rest is removed.
func TestEndOfAHalfRemovedJobRemovesTheRest(t *testing.T) {
	n, k := fakeNode(t, kernfstest.NewHybrid, nil)
	n.do(hostapi.EventBegin, "1.srv")
	pid := n.launch("1.srv")
	must.NoError(t, n.roots.Cgroup.Write("memory/cgroup.procs", fmt.Sprint(pid)))
	heal := k.Fail("rmdir", "unified/pbs_jobs.service/jobs/1.srv", unix.EIO)
	job := n.jobs["1.srv"]
	if _, err := n.event(hostapi.EventEnd, "1.srv"); err == nil {
		t.Fatal("removed")
	}
	heal()
	job.Phase = hostapi.PhaseExiting
	n.jobs["1.srv"] = job // the host repeats its end
	n.restart()
	n.want("1.srv")
	n.do(hostapi.EventEnd, "1.srv")
	n.want()
	if n.lives(pid) {
		t.Error("the process lives")
	}
}

// If a mark cannot be read, it is not known whose cgroup it is, and its processes are left alone.
func TestSweepLeavesACgroupWhoseMarkCannotBeRead(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		n.do(hostapi.EventBegin, "1.srv")
		pid := n.launch("1.srv")
		n.retire("1.srv")
		delete(n.jobs, "1.srv")
		n.reboot()
		heal := k.Fail("getxattr", "1.srv", unix.EMFILE)
		for _, e := range []hostapi.Event{hostapi.EventStartup, hostapi.EventPeriodic} {
			if _, err := n.event(e, ""); !errors.Is(err, unix.EMFILE) {
				t.Errorf("%s: %v, want %v", e, err, unix.EMFILE)
			}
		}
		if !n.lives(pid) {
			t.Error("its process is gone")
		}
		heal()
		n.do(hostapi.EventPeriodic, "")
		n.want()
	})
}

// On v1 OpenPBS's own hook has its cgroups in the same place. Such a cgroup survives the
// installation of hookhost. Its cpus are taken, and the job's end removes it.
func TestSweepLeavesStrangers(t *testing.T) {
	for _, dirs := range [][]string{{"memory", "cpuset"}, {"cpuset"}} {
		n, k := fakeNode(t, kernfstest.NewV1, nil)
		n.do(hostapi.EventBegin, "1.srv") // so that the parents exist
		n.do(hostapi.EventEnd, "1.srv")
		delete(n.jobs, "1.srv")
		pid := k.Spawn()
		for _, dir := range dirs {
			dir += "/pbs_jobs.service/jobid/7.srv"
			err := n.roots.Cgroup.Mkdir(dir)
			if strings.HasPrefix(dir, "cpuset") {
				err = errors.Join(
					err,
					n.roots.Cgroup.Write(dir+"/cpuset.cpus", "0"),
					n.roots.Cgroup.Write(dir+"/cpuset.mems", "0"),
				)
			}
			if err = errors.Join(err, n.roots.Cgroup.Write(dir+"/cgroup.procs", fmt.Sprint(pid))); err != nil {
				t.Fatal(err)
			}
		}
		n.restart()
		n.do(hostapi.EventPeriodic, "")
		if !n.lives(pid) || !n.cgroup("7.srv").Exists() {
			t.Fatalf("%v: process lives: %t, cgroup stays: %t", dirs, n.lives(pid), n.cgroup("7.srv").Exists())
		}
		must.Equal(t, "a warning", n.snapshot("7.srv").lastWarning != "", true)
		n.refuses(hostapi.EventBegin, "8.srv", hostapi.KindBusy, "requested", "ncpus=4")
		k.Exit(pid) // on a sister, a cgroup without processes is a job's too
		n.do(hostapi.EventPeriodic, "")
		n.do(hostapi.EventStartup, "")
		if !n.cgroup("7.srv").Exists() {
			t.Fatalf("%v: an empty cgroup is removed before the job's end", dirs)
		}
		n.do(hostapi.EventEnd, "7.srv")
		n.want()
		n.do(hostapi.EventPeriodic, "")
		must.Equal(t, "the warning about a cgroup that is gone", n.snapshot("7.srv").lastWarning, "")
	}
}
