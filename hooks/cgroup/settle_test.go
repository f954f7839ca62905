package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/pbs"
)

// sized decides the new size of a job, as a resize does. From then on the job holds the larger of
// both.
func (n *node) sized(id string, resources ...string) (job *hostapi.Job, z newShare) {
	n.t.Helper()
	of := *n.job(id)
	req := &hostapi.Request{Event: hostapi.EventResize, Node: testNode, Job: &of}
	asks(resources...)(req)
	a, err := n.policy.askWithDevices(req)
	must.NoError(n.t, err)
	z, err = n.grow(n.t.Context(), n.cgroup(id), a)
	must.NoError(n.t, err)
	return &of, z
}

// stepThrough carries out a resize and calls between while the job holds the larger of both sizes.
// edit may change the job's request.
func (n *node) stepThrough(id string, between func(), edit func(*hostapi.Job), resources ...string) error {
	n.t.Helper()
	job, z := n.sized(id, resources...)
	edit(job)
	between()
	old, err := n.cgroup(id).JobMark()
	must.NoError(n.t, err)
	return n.change(n.cgroup(id), z, old, resized(old, job, z))
}

// dieInResize makes the hook die when the kernel has the new size and the job's mark still has the
// old one.
func (n *node) dieInResize(id string, resources ...string) {
	n.t.Helper()
	_, z := n.sized(id, resources...)
	must.NoError(n.t, n.cgroup(id).Apply(n.inKernel(z.limits, z.ask), nil))
}

// startAndSettle restarts the hook and waits until each job has been settled.
func (n *node) startAndSettle(between func(p *policy)) {
	n.t.Helper()
	n.hook.die()
	if between != nil {
		between(n.policy)
	}
	n.hook = n.boot()
	n.do(hostapi.EventStartup, "")
	n.background.Wait()
}

// size checks how many cpus and how much memory the job has, and that its record has the same cpus.
func (n *node) size(id string, ncpus int, mem int64) {
	n.t.Helper()
	l, err := n.cgroup(id).Limits()
	if err != nil || l.CPUs.Len() != ncpus || l.Mem == nil || *l.Mem != mem {
		n.t.Errorf("job %s has cpus %s and mem %v, %v; want %d cpus and %d", id, l.CPUs, l.Mem, err, ncpus, mem)
	}
	if got := n.cpus(id); got != l.CPUs.String() {
		n.t.Errorf("job %s was granted cpus %s, and has %s", id, got, l.CPUs)
	}
}

// A hook that dies in a resize leaves the job with the size that was not recorded. The next hook
// gives it the old size, which is in its mark and was not given to any other job.
func TestResizeDies(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
		n.begin("1.srv", asks("ncpus=2", "mem=128mb"))
		pid := n.launch("1.srv")
		n.dieInResize("1.srv", "ncpus=1", "mem=256mb")
		for range 2 {
			n.startAndSettle(nil)
			n.size("1.srv", 2, 128*mib)
		}
		if s := n.state("1.srv"); s.NCPUs != 2 {
			t.Errorf("state %+v, want ncpus 2", s)
		}
		if _, err := n.resize("1.srv", "ncpus=1", "mem=256mb"); err != nil { // MoM repeats it
			t.Error(err)
		}
		n.size("1.srv", 1, 256*mib)
		if !n.lives(pid) {
			t.Error("the job's process is gone")
		}
	})
}

// Such a job loses the cpus that it had briefly, even if it uses more memory than it was granted.
// Other jobs are given these cpus.
func TestResizeDiesAndTheJobUsesItsMemory(t *testing.T) {
	onFakes(t, func(c *config.File) { c.Memory.ReservePercent = 0 }, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		n.begin("1.srv", asks("ncpus=1", "mem=1gb"))
		pid := n.launch("1.srv")
		n.dieInResize("1.srv", "ncpus=4", "mem=8gb")
		k.Charge(pid, kernfstest.Memory{Anon: 4 * gib})
		n.startAndSettle(nil)
		n.size("1.srv", 1, 8*gib)
		n.begin("2.srv", asks("ncpus=3", "mem=1gb"))
		k.Free(pid, kernfstest.Memory{Anon: 4 * gib})
		n.startAndSettle(nil)
		n.size("1.srv", 1, gib)
	})
}

// A limit set by hand does not count. Others are given what is free according to the table, before
// the next start and after it.
func TestLimitSetByHandCountsForNobody(t *testing.T) {
	onFakes(t, func(c *config.File) { c.Memory.ReservePercent = 0 }, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
		n.begin("1.srv", asks("ncpus=3", "mem=8gb"))
		l := n.limitsNow("1.srv")
		mem := int64(gib)
		l.Mem, l.MemSwap, l.CPUs = &mem, nil, n.limits("1").CPUs
		must.NoError(t, n.cgroup("1.srv").Apply(l, nil))
		for range 2 {
			n.refuses(hostapi.EventBegin, "2.srv", hostapi.KindBusy, "exceeds ncpus available", "ncpus=2", "mem=1gb")
			n.refuses(hostapi.EventBegin, "2.srv", hostapi.KindBusy, "exceeds mem available", "ncpus=1", "mem=9gb")
			n.startAndSettle(nil)
			n.size("1.srv", 3, 8*gib)
		}
		n.begin("2.srv", asks("ncpus=1", "mem=8gb"))
	})
}

// A cgroup without a mark belongs to a job of OpenPBS's own hook, which knows only cgroup v1. The
// job's limits at the start count, and are left alone.
func TestJobWithoutAMarkHoldsItsLimits(t *testing.T) {
	n, _ := fakeNode(t, kernfstest.NewV1, func(c *config.File) { c.Memory.ReservePercent = 0 })
	n.begin("1.srv") // so that the parents exist
	n.do(hostapi.EventEnd, "1.srv")
	for _, limit := range [][3]string{
		{"cpuset", "cpuset.cpus", "0-2"}, {"cpuset", "cpuset.mems", "0"},
		{"memory", "memory.limit_in_bytes", fmt.Sprint(8 * gib)},
	} {
		dir := limit[0] + "/pbs_jobs.service/jobid/9.srv"
		if !n.roots.Cgroup.Exists(dir) {
			must.NoError(t, n.roots.Cgroup.Mkdir(dir))
		}
		must.NoError(t, n.roots.Cgroup.Write(dir+"/"+limit[1], limit[2]))
	}
	n.startAndSettle(nil)
	n.refuses(hostapi.EventBegin, "2.srv", hostapi.KindBusy, "exceeds ncpus available", "ncpus=2", "mem=1gb")
	n.refuses(hostapi.EventBegin, "2.srv", hostapi.KindBusy, "exceeds mem available", "ncpus=1", "mem=9gb")
	n.begin("2.srv", asks("ncpus=1", "mem=8gb"))
	must.Equal(t, "limits", int64(8*gib), *n.limitsNow("9.srv").Mem)
	n.do(hostapi.EventEnd, "9.srv")
	n.begin("3.srv", asks("ncpus=3", "mem=8gb"))
}

// Until a job's resize is over, no other job gets what it has or is about to get. So a resize that
// fails late leaves the job unchanged.
func TestResizeFailsLate(t *testing.T) {
	onFakes(t, func(c *config.File) { c.Memory.ReservePercent = 0 }, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
		n.begin("1.srv", asks("ncpus=2", "mem=8gb"))
		before := n.limitsNow("1.srv")
		refused := false
		err := n.stepThrough("1.srv", func() {
			_, err := n.event(hostapi.EventBegin, "2.srv", asks("ncpus=3", "mem=15gb"))
			refused = hostapi.KindOf(err) == hostapi.KindBusy
		}, func(job *hostapi.Job) { job.ResourceList["much"] = strings.Repeat("x", 70000) }, "ncpus=1", "mem=1gb")
		if !refused || hostapi.KindOf(err) != hostapi.KindJob {
			t.Errorf("error %v of kind %q, the job beside it was refused: %t", err, hostapi.KindOf(err), refused)
		}
		must.Equal(t, "limits", before, n.limitsNow("1.srv"))
		n.size("1.srv", 2, 8*gib)
	})
}

// Until a job has released what it gives up, nobody else gets that, so the job can have it back.
func TestResizeUndone(t *testing.T) {
	for _, how := range []string{"cgroup", "both", "rss"} {
		t.Run(how, func(t *testing.T) {
			edit := func(c *config.File) { c.Memory.Enforce, c.Memory.ReservePercent = how, 0 }
			onFakes(t, edit, func(t *testing.T, n *node, k *kernfstest.Kernel) {
				n.begin("1.srv", asks("ncpus=3", "mem=8gb"))
				before := n.limitsNow("1.srv")
				was, err := n.cgroup("1.srv").JobMark()
				must.NoError(t, err)
				heal := func() {}
				err = n.stepThrough("1.srv", func() {
					for _, ask := range [][]string{{"ncpus=1", "mem=9gb"}, {"ncpus=2", "mem=1gb"}} {
						n.refuses(hostapi.EventBegin, "2.srv", hostapi.KindBusy, "requested", ask...)
					}
					heal = k.FailNth("write", "1.srv/cpuset.cpus", unix.EIO, 0)
				}, func(*hostapi.Job) {}, "ncpus=1", "mem=1gb")
				heal()
				if hostapi.KindOf(err) != hostapi.KindNode {
					t.Errorf("error %v of kind %q", err, hostapi.KindOf(err))
				}
				must.Equal(t, "limits", before, n.limitsNow("1.srv"))
				if r, err := n.cgroup("1.srv").JobMark(); err != nil || !cmp.Equal(r, was) {
					t.Errorf("record %+v, %v; want %+v", r, err, was)
				}
			})
		})
	}
}

// Until a job's resize is over, no other job is given what it gives up. So an undo that fails
// halfway can be repeated.
func TestResizeIsUndoneWhereItsFirstUndoFails(t *testing.T) {
	onFakes(t, func(c *config.File) { c.Memory.ReservePercent = 0 }, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		if n.tree.Mode() == cgroup.ModeV2 { // memory is written last
			return
		}
		n.begin("1.srv", asks("ncpus=3", "mem=8gb"))
		var heal []func()
		err := n.stepThrough("1.srv", func() {
			heal = append(heal, k.FailNth("write", "1.srv/cpuset.cpus", unix.EIO, 0))
			for _, file := range []string{"memory.limit_in_bytes", "memory.memsw.limit_in_bytes"} {
				heal = append(heal, k.FailNth("write", "1.srv/"+file, unix.EIO, 1))
			}
		}, func(*hostapi.Job) {}, "ncpus=1", "mem=1gb")
		for _, f := range heal {
			f()
		}
		if hostapi.KindOf(err) != hostapi.KindNode {
			t.Errorf("error %v of kind %q", err, hostapi.KindOf(err))
		}
		if l, err := n.cgroup("1.srv").Limits(); err != nil || *l.Mem != 8*gib || l.CPUs.Len() != 3 {
			t.Errorf("limits %+v, %v; want 8 GiB and 3 cpus", l, err)
		}
	})
}

// A hook that starts restores the limits that a job was granted, if somebody has changed them by
// hand.
func TestLimitsSetByHandLastUntilTheHookStarts(t *testing.T) {
	test := func(t *testing.T, n *node) {
		for _, mem := range []int64{32 * mib, 256 * mib} {
			n.begin("1.srv", asks("ncpus=1", "mem=60mb"))
			_, err := n.resize("1.srv", "ncpus=1", "mem=64mb")
			must.NoError(t, err)
			j := n.cgroup("1.srv")
			granted := n.limitsNow("1.srv")
			l := granted
			if l.Mem = &mem; l.MemSwap != nil {
				l.MemSwap = &mem
			}
			must.NoError(t, j.Apply(l, nil))
			n.do(hostapi.EventPeriodic, "")
			n.size("1.srv", 1, mem)
			n.startAndSettle(nil)
			must.Equal(t, "limits", granted, n.limitsNow("1.srv"))
			n.do(hostapi.EventEnd, "1.srv")
		}
	}
	for _, how := range []string{"cgroup", "both", "rss"} {
		t.Run(how, func(t *testing.T) {
			edit := func(c *config.File) { c.Memory.Enforce = how }
			onFakes(t, edit, func(t *testing.T, n *node, _ *kernfstest.Kernel) { test(t, n) })
		})
	}
}

// Live jobs follow [memory] enforce when the hook starts with another value.
func testEnforceChanges(t *testing.T, n *node, hold func(bytes int64)) {
	enforce := func(how string) func(*policy) { return func(p *policy) { p.Memory.Enforce = how } }
	n.begin("1.srv", asks("ncpus=1", "mem=128mb"))
	before := n.limitsNow("1.srv")
	for _, how := range []string{"rss", "both", "rss", "cgroup", "rss"} {
		n.startAndSettle(enforce(how))
		kernel, sampled := int64(128*mib), how != "cgroup"
		if how == "rss" {
			kernel = 256 * mib
		}
		n.size("1.srv", 1, kernel)
		b := n.boundsNow(n.cgroup("1.srv"))
		if (b.mem > 0) != sampled || sampled && b.mem != 128*mib {
			t.Errorf("%s: bounds %+v", how, b)
		}
		u := n.do(hostapi.EventPeriodic, "").Jobs["1.srv"].Usage
		if u.MemLimitBytes == nil || *u.MemLimitBytes != 128*mib {
			t.Errorf("%s: mem_limit_bytes %v, want 128 MiB", how, u.MemLimitBytes)
		}
		if how == "rss" {
			continue
		}
		l, err := n.cgroup("1.srv").Limits()
		if err != nil || (l.MemSwap == nil) != (before.MemSwap == nil) ||
			l.MemSwap != nil && *l.MemSwap != *before.MemSwap {
			t.Errorf("%s: limits %+v, %v; want %+v", how, l, err, before)
		}
	}
	// A job that exceeds its mem keeps what it has, and nothing is killed.
	n.startAndSettle(enforce("rss"))
	hold(150 * mib)
	for range 2 {
		n.startAndSettle(enforce("cgroup"))
		n.size("1.srv", 1, 256*mib)
	}
	if pids := n.inside("1.srv"); len(pids) != 1 {
		t.Errorf("the job has processes %v, want one", pids)
	}
}

// A job that began without memory limits stays without, however they are enforced for others.
func TestMemoryIsEnabledBesideAJob(t *testing.T) {
	edit := func(c *config.File) { c.Memory.Enabled = false }
	onFakes(t, edit, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
		n.begin("1.srv", asks("ncpus=1", "mem=128mb"))
		before := n.limitsNow("1.srv")
		for _, how := range []string{"cgroup", "both", "rss"} {
			n.startAndSettle(func(p *policy) {
				p.Memory.Enabled, p.Memory.Enforce, p.Memory.Default = true, how, pbs.Size(64*mib)
			})
			must.Equal(t, how, before, n.limitsNow("1.srv"))
			must.Equal(t, how+": bound", int64(0), n.boundsNow(n.cgroup("1.srv")).mem)
		}
	})
}

func TestEnforceChanges(t *testing.T) {
	edit := func(c *config.File) { c.Memory.ReservePercent = 0 }
	onFakes(t, edit, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		testEnforceChanges(t, n, func(bytes int64) {
			pid := n.launch("1.srv")
			n.hook.unwatch("1.srv") // because it would kill the job for exceeding its mem
			k.Charge(pid, kernfstest.Memory{Anon: bytes})
		})
	})
	t.Run("kernel", func(t *testing.T) {
		n := realNode(t, edit)
		testEnforceChanges(t, n, func(bytes int64) {
			enter := n.launches("1.srv")
			n.hook.unwatch("1.srv")
			startActor(t, enter, "hold", fmt.Sprint(bytes), "/dev/null")
		})
	})
}

// If nothing has happened to a job, its limits are not changed.
func TestSettleChangesNothingOfASettledJob(t *testing.T) {
	settings := map[string]func(*config.File){
		"default": nil,
		"rss":     byRSS,
		"all": func(c *config.File) {
			c.Memory.HighPercent, c.Cpuset.AllowZeroCPUs, c.Memsw.EnforceDefault, c.Memsw.Default = 90, true, true, 1e7
		},
	}
	test := func(t *testing.T, n *node) {
		for i, resources := range [][]string{
			{"ncpus=1", "mem=99999999b", "vmem=123456789b"},
			{"ncpus=1", "mem=64mb"},
			{"ncpus=1"},
			{"ncpus=0", "mem=5555555b"},
		} {
			if i == 3 && !n.policy.Cpuset.AllowZeroCPUs {
				continue
			}
			n.begin("1.srv", asks(resources...))
			before := n.limitsNow("1.srv")
			for range 2 {
				n.startAndSettle(nil)
				must.Equal(t, fmt.Sprint(resources), before, n.limitsNow("1.srv"))
			}
			n.do(hostapi.EventEnd, "1.srv")
		}
	}
	for name, edit := range settings {
		t.Run(name, func(t *testing.T) {
			onFakes(t, edit, func(t *testing.T, n *node, _ *kernfstest.Kernel) { test(t, n) })
			t.Run("kernel", func(t *testing.T) { test(t, realNode(t, edit)) })
		})
	}
}
