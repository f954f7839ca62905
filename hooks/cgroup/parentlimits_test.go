package main

import (
	"fmt"
	"slices"
	"testing"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/pbs"
)

// swapping is a machine with swap, huge pages and few tasks.
var swapping = kernfstest.Machine{CPUs: 8, Threads: 2, NUMA: 2, Mem: 16 * gib, Swap: 4 * gib, Huge: gib, Tasks: 32768}

// together checks the limits of all jobs.
func (n *node) together(when string, mem, swap, tasks, huge int64) {
	n.t.Helper()
	want := cgroup.Limits{}
	for at, value := range map[**int64]int64{&want.Mem: mem, &want.MemSwap: mem + swap, &want.Pids: tasks} {
		if value > 0 {
			*at = &value
		}
	}
	if huge > 0 {
		want.Hugetlb = map[int64]int64{kernfstest.HugePage: huge}
	}
	got, err := n.tree.ParentLimits()
	must.NoError(n.t, err)
	must.Equal(n.t, "limits of all jobs "+when, want, got)
}

// allEnabled is a configuration that reserves some of everything.
func allEnabled(f *config.File) {
	f.Memory.ReservePercent, f.Memory.ReserveAmount = 0, pbs.Size(2*gib)
	f.Memsw.ReserveAmount = pbs.Size(gib)
	f.Hugetlb.Enabled, f.Hugetlb.ReserveAmount = true, pbs.Size(256*mib)
}

// All jobs together may have what PBS is told about: the node less its reserves.
func TestAllJobsTogetherHaveTheNodeLessItsReserves(t *testing.T) {
	onFakes(t, allEnabled, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
		n.begin("1.srv", asks("ncpus=1"))
		n.together("with a job", 14*gib, 3*gib, 29492, 768*mib)
		there, err := n.survey()
		must.NoError(t, err)
		o := n.policy.offer(there)
		if hidden := 14*gib - o.mem; hidden != int64(n.policy.Memory.Hidden) {
			t.Errorf("PBS is told of mem %d, which is %d less than all jobs may have", o.mem, hidden)
		}
	}, kernfstest.On(swapping))
}

// pbs_cgroups assigns as much as its own limit of all jobs allows. That limit stays until a job of
// hookhost begins.
func TestLimitOfAllJobsIsTheStockHooksUntilAJobBegins(t *testing.T) {
	n, _ := fakeNode(t, kernfstest.NewV1, nil)
	const limit = "memory/pbs_jobs.service/jobid/memory.limit_in_bytes"
	must.NoError(t, n.roots.Cgroup.Write(limit, fmt.Sprint(16*gib-mib)))
	must.NoError(t, n.roots.Cgroup.Mkdir("memory/pbs_jobs.service/jobid/9.srv"))
	want := cgroup.Limits{Mem: ptr(int64(16*gib - mib))}
	n.startAndSettle(nil)
	n.do(hostapi.EventPeriodic, "")
	got, err := n.tree.ParentLimits()
	must.NoError(t, err)
	must.Equal(t, "limits of all jobs", want, got)
	n.begin("1.srv", asks("ncpus=1"))
	all, err := n.tree.ParentLimits()
	must.NoError(t, err)
	must.Equal(t, "memory of all jobs", n.policy.memTotal(n.node()), *all.Mem)
	n.do(hostapi.EventEnd, "9.srv")
}

// Two jobs that request no mem cannot use the node's reserve. One is killed, and is told why.
func TestJobsWithoutMemDoNotTakeTheReserve(t *testing.T) {
	for _, how := range []string{"cgroup", "rss"} {
		edit := func(f *config.File) { f.Memory.Enforce, f.Memory.ReserveAmount = how, pbs.Size(4*gib) }
		t.Run(how, func(t *testing.T) {
			onFakes(t, edit, func(t *testing.T, n *node, k *kernfstest.Kernel) {
				var pids []int
				for _, id := range []string{"1.srv", "2.srv"} {
					n.begin(id, asks("ncpus=1"))
					pids = append(pids, n.launch(id))
				}
				if dead := k.Charge(pids[0], kernfstest.Memory{Anon: 7 * gib}); len(dead) > 0 {
					t.Fatalf("killed %v with 7 GiB in use", dead)
				}
				dead := k.Charge(pids[1], kernfstest.Memory{Anon: 6 * gib})
				must.Equal(t, "killed", []int{pids[0]}, dead)
				for i, id := range []string{"1.srv", "2.srv"} {
					kills := n.do(hostapi.EventEpilogue, id).Usage.OOMKills
					if (kills != nil && *kills > 0) != slices.Contains(dead, pids[i]) {
						t.Errorf("job %s: kills %v", id, kills)
					}
				}
			})
		})
	}
}

// The limits of all jobs follow the configuration. A job keeps what it was granted, and lowering a
// limit kills nothing.
func TestLimitsOfAllJobsFollowTheConfiguration(t *testing.T) {
	reserve := func(n int64) func(*policy) {
		return func(p *policy) { p.Memory.ReserveAmount = pbs.Size(n) }
	}
	onFakes(t, allEnabled, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		n.begin("1.srv", asks("ncpus=1", "mem=8gb"))
		n.begin("2.srv", asks("ncpus=1"))
		n.startAndSettle(reserve(4 * gib))
		n.together("after a larger reserve", 12*gib, 3*gib, 29492, 768*mib)
		n.startAndSettle(reserve(12 * gib))
		n.together("beside a grant", 8*gib, 3*gib, 29492, 768*mib)
		n.startAndSettle(reserve(2 * gib))
		n.together("after the reserve of before", 14*gib, 3*gib, 29492, 768*mib)

		pid := n.launch("2.srv")
		k.Charge(pid, kernfstest.Memory{Anon: 10 * gib, File: gib})
		n.startAndSettle(reserve(12 * gib))
		n.together("with more in use", 14*gib, 3*gib, 29492, 768*mib)
		if !n.lives(pid) {
			t.Fatal("a process was killed by a reload")
		}
		k.Free(pid, kernfstest.Memory{Anon: 9 * gib})
		n.do(hostapi.EventPeriodic, "")
		n.together("with no more in use", 8*gib, 3*gib, 29492, 768*mib)
		n.do(hostapi.EventEnd, "1.srv")
		n.do(hostapi.EventPeriodic, "")
		n.together("without the grant", 4*gib, 3*gib, 29492, 768*mib)
		if !n.lives(pid) {
			t.Fatal("a process was killed by a lower limit")
		}
		n.startAndSettle(func(p *policy) { p.Memory.Enabled, p.Hugetlb.Enabled, p.Pids.Enabled = false, false, false })
		n.together("with nothing enabled", 0, 0, 0, 0)
	}, kernfstest.On(swapping))
}

// A job keeps the huge pages that it was granted, even if all jobs may have fewer by now. Nobody
// else is given these pages.
func TestGrantOfHugePagesOutlivesALargerReserve(t *testing.T) {
	onFakes(t, allEnabled, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
		n.begin("1.srv", asks("ncpus=1", "hpmem=512mb"))
		n.begin("2.srv", asks("ncpus=1"))
		n.startAndSettle(func(p *policy) { p.Hugetlb.ReserveAmount = pbs.Size(768 * mib) })
		n.together("beside a grant", 14*gib, 3*gib, 29492, 512*mib)
		if _, err := n.event(hostapi.EventBegin, "3.srv", asks("ncpus=1", "hpmem=64mb")); hostapi.KindOf(err) !=
			hostapi.KindBusy {
			t.Errorf("a job that asks for huge pages which another has: %v", err)
		}
		n.together("after the next begin", 14*gib, 3*gib, 29492, 512*mib)
		n.do(hostapi.EventEnd, "1.srv")
		n.do(hostapi.EventPeriodic, "")
		n.together("without the grant", 14*gib, 3*gib, 29492, 256*mib)
	}, kernfstest.On(swapping))
}

// A node's memory, swap, huge pages and tasks can change while it runs.
func TestLimitsOfAllJobsFollowTheNode(t *testing.T) {
	onFakes(t, allEnabled, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		n.begin("3.srv", asks("ncpus=0"))
		larger := swapping
		larger.Mem, larger.Swap, larger.Tasks = 20*gib, 0, 65536
		k.Become(larger)
		fromMoM := func(req *hostapi.Request) {
			req.VnodeList = map[string]*hostapi.Vnode{testNode: {}}
		}
		if out := n.do(hostapi.EventPeriodic, ""); len(out.Vnodes) > 0 {
			t.Errorf("an answer that MoM does not see has %v", out.Vnodes)
		}
		out := n.do(hostapi.EventPeriodic, "", fromMoM)
		n.together("after memory was added", 18*gib, 0, 58983, 768*mib)
		n.background.Wait()
		if l := n.limitsNow("3.srv"); *l.Mem != 18*gib {
			t.Errorf("a job without mem has %+v", l)
		}
		if v := out.Vnodes[testNode]; v == nil || v.ResourcesAvailable["mem"] != pbs.Size(18*gib-mib).KB() {
			t.Errorf("PBS is told of %v", v)
		}
		if out := n.do(hostapi.EventPeriodic, "", fromMoM); len(out.Vnodes) > 0 {
			t.Errorf("PBS is told again: %v", out.Vnodes)
		}
		larger.Huge = 2 * gib
		k.Become(larger)
		n.begin("1.srv", asks("ncpus=1", "mem=18gb", fmt.Sprintf("hpmem=%db", 2*gib-256*mib)))
		n.together("once a job begins", 18*gib, 0, 58983, 2*gib-256*mib)
		larger.Huge = gib / 2
		k.Become(larger)
		n.do(hostapi.EventEnd, "1.srv")
		n.do(hostapi.EventPeriodic, "")
		n.together("after pages were given back", 18*gib, 0, 58983, 256*mib)
	}, kernfstest.On(swapping))
}

// The place of a suspended job may be given to another, and later both may run. So the limit allows
// both to use what they were granted. A later begin does not lower it, because that may take
// seconds.
func TestSuspendedJobKeepsItsGrantInTheLimitOfAllJobs(t *testing.T) {
	onFakes(t, allEnabled, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
		n.begin("1.srv", asks("ncpus=4", "mem=10gb"))
		n.launch("1.srv")
		n.do(hostapi.EventPostsuspend, "1.srv")
		n.begin("2.srv", asks("ncpus=1", "mem=9gb"))
		n.together("with two of the place", 19*gib, 3*gib, 29492, 768*mib)
		n.do(hostapi.EventEnd, "2.srv")
		n.begin("3.srv", asks("ncpus=1", "mem=1gb"))
		n.together("after another's begin", 19*gib, 3*gib, 29492, 768*mib)
		n.do(hostapi.EventPeriodic, "")
		n.together("with one", 14*gib, 3*gib, 29492, 768*mib)
	}, kernfstest.On(swapping))
}

// A job gets a share of the tasks according to its cpus, unless the configuration says otherwise.
// The share is at least 1024, so that a job with one of many cpus works. The job may request less.
func TestTasksOfAJob(t *testing.T) {
	large := swapping
	large.CPUs = 256
	for _, tt := range []struct {
		name    string
		machine kernfstest.Machine
		edit    func(*config.File)
		ask     []string
		want    int64
	}{
		{"one of four cores", swapping, nil, []string{"ncpus=1"}, 7373},
		{"all cores", swapping, nil, []string{"ncpus=4"}, 29492},
		{"no cpu", swapping, nil, []string{"ncpus=0"}, 1024},
		{"one of many cores", large, nil, []string{"ncpus=1"}, 1024},
		{"the host for itself", large, nil, []string{"ncpus=1", "place=scatter:exclhost"}, 29492},
		{"asked for less", swapping, nil, []string{"ncpus=1", "pids=100"}, 100},
		{"asked for more", swapping, nil, []string{"ncpus=1", "pids=20000"}, 7373},
		{"a number", swapping, func(f *config.File) { f.Pids.Max = 500 }, []string{"ncpus=1"}, 500},
		{"no limit of its own", swapping, func(f *config.File) { f.Pids.Max = 0 }, []string{"ncpus=1"}, 0},
		{"no limit, and asked for one", swapping, func(f *config.File) { f.Pids.Max = 0 },
			[]string{"ncpus=1", "pids=20000"}, 20000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			onFakes(t, tt.edit, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
				n.begin("1.srv", asks(tt.ask...))
				got := int64(0)
				if l := n.limitsNow("1.srv"); l.Pids != nil {
					got = *l.Pids
				}
				must.Equal(t, "tasks of the job", tt.want, got)
				all, err := n.tree.ParentLimits()
				must.NoError(t, err)
				must.Equal(t, "tasks of all jobs", int64(29492), *all.Pids)
			}, kernfstest.On(tt.machine))
		})
	}
}

// If there is a limit above the parent of all jobs, such as a unit's TasksMax, that is the number
// of tasks to share out.
func TestTasksOfAContainerAreSharedOut(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		for _, dir := range []string{"pbs_jobs.service", "pids/pbs_jobs.service"} {
			if cgroups := k.Roots().Cgroup; cgroups.Exists(dir + "/pids.max") {
				must.NoError(t, cgroups.Write(dir+"/pids.max", "5000"))
			}
		}
		n.begin("1.srv", asks("ncpus=2"))
		must.Equal(t, "tasks of the job", int64(2500), *n.limitsNow("1.srv").Pids)
	})
}

// A node without a pids controller runs jobs as before.
func TestJobsRunWithoutAPidsController(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
		n.begin("1.srv", asks("ncpus=1"))
		if l := n.limitsNow("1.srv"); l.Pids != nil {
			t.Errorf("limits %+v", l)
		}
	}, kernfstest.Without("pids"))
}

// A job that requested no mem holds none, even after a reload that allows jobs more. Its limit then
// is all that jobs may have.
func TestJobWithoutMemHoldsNoneAfterAReload(t *testing.T) {
	for _, how := range []string{"cgroup", "rss"} {
		t.Run(how, func(t *testing.T) {
			edit := func(f *config.File) { f.Memory.Enforce, f.Memory.ReserveAmount = how, pbs.Size(8*gib) }
			onFakes(t, edit, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
				n.begin("1.srv", asks("ncpus=1"))
				n.startAndSettle(func(p *policy) { p.Memory.ReserveAmount = pbs.Size(4 * gib) })
				total := n.policy.memTotal(n.node())
				if l := n.limitsNow("1.srv"); l.Mem == nil || *l.Mem != total {
					t.Errorf("limits %+v, want mem %d", l, total)
				}
				if all, err := n.tree.ParentLimits(); err != nil || *all.Mem != total {
					t.Errorf("limits of all jobs %+v, %v; want mem %d", all, err, total)
				}
				n.begin("2.srv", asks("ncpus=1", fmt.Sprintf("mem=%db", total)))
				n.startAndSettle(func(p *policy) { p.Memory.ReserveAmount = pbs.Size(10 * gib) })
				if l := n.limitsNow("1.srv"); l.Mem == nil || *l.Mem != n.policy.memTotal(n.node()) {
					t.Errorf("limits %+v after a larger reserve", l)
				}
			})
		})
	}
}
