package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// stepThrough carries out a resize with unlock called when the lock is given back, which is when
// the job has the greater of both sizes. edit may change what the job asks for.
func (n *node) stepThrough(id string, unlock func(), edit func(*hostapi.Job), resources ...string) error {
	n.t.Helper()
	job := *n.job(id)
	req := &hostapi.Request{Event: hostapi.EventResize, Node: testNode, Job: &job}
	asks(resources...)(req)
	a, err := askFor(req)
	must.NoError(n.t, err)
	edit(&job)
	j := n.cgroup(id)
	z, err := n.newSize(j, a)
	must.NoError(n.t, err)
	old, err := j.JobMark()
	must.NoError(n.t, err)
	lock := &treeLock{hook: n.hook, unlock: unlock}
	defer lock.release()
	return n.change(n.t.Context(), j, z, lock, old, resized(old, &job, z))
}

// dieInResize has the hook die when the job has the greater of both sizes.
func (n *node) dieInResize(id string, resources ...string) {
	n.t.Helper()
	died := false
	func() {
		defer func() { died = recover() != nil }()
		if err := n.stepThrough(id, func() { panic("died") }, func(*hostapi.Job) {}, resources...); err != nil {
			n.t.Error(err)
		}
	}()
	if !died {
		n.t.Fatal("the resize has one step only")
	}
}

// startAndSettle starts the hook anew and makes the calls that it asks for. The node then has the
// states that the hook returned.
func (n *node) startAndSettle(between func(p *policy)) {
	n.t.Helper()
	for _, id := range n.startAnew(between) {
		n.about(id)
	}
}

// about sends a periodic about one job.
func (n *node) about(id string) {
	n.t.Helper()
	job := n.job(id)
	n.recordStates(n.do(hostapi.EventPeriodic, "", func(req *hostapi.Request) {
		req.Job, req.JobList = job, map[string]*hostapi.Job{id: job}
	}))
}

// startAnew tells of which jobs the hook asks for a call.
func (n *node) startAnew(between func(p *policy)) (again []string) {
	n.t.Helper()
	n.hook.die()
	if between != nil {
		between(n.policy)
	}
	n.hook = n.boot()
	out := n.do(hostapi.EventStartup, "")
	n.recordStates(out)
	for id, update := range out.Jobs {
		if update.CallAgain > 0 {
			again = append(again, id)
		}
	}
	return again
}

func (n *node) recordStates(out *hostapi.Outcome) {
	for id, update := range out.Jobs {
		if update.State != nil {
			n.jobs[id].State = update.State
		}
	}
}

// settled checks whether the job's limits are those that it was granted.
func (n *node) settled(id string, want bool) {
	n.t.Helper()
	if got := !n.isUnsettled(id); got != want {
		n.t.Errorf("job %s is settled: %t, want %t", id, got, want)
	}
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

// A hook that dies between the steps of a resize leaves the job with the greater of both sizes. The
// next one gives it the size in its record, the old one.
func testResizeDies(t *testing.T, n *node) {
	n.begin("1.srv", asks("ncpus=2", "mem=128mb"))
	pid := n.launch("1.srv")
	n.dieInResize("1.srv", "ncpus=1", "mem=256mb")
	if l, err := n.cgroup("1.srv").Limits(); err != nil || l.CPUs.Len() != 2 || *l.Mem != 256*mib {
		t.Fatalf("between the steps: %+v, %v", l, err)
	}
	for range 2 {
		n.startAndSettle(nil)
		n.size("1.srv", 2, 128*mib)
		n.settled("1.srv", true)
	}
	if s := n.state("1.srv"); s.NCPUs != 2 {
		t.Errorf("state %+v, want ncpus 2", s)
	}
	if _, err := n.resize("1.srv", "ncpus=1", "mem=256mb"); err != nil { // MoM sends it again
		t.Error(err)
	}
	n.size("1.srv", 1, 256*mib)
	if !n.lives(pid) {
		t.Error("the job's process is gone")
	}
}

func TestResizeDies(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, _ *kernfstest.Kernel) { testResizeDies(t, n) })
	t.Run("kernel", func(t *testing.T) {
		n := realNode(t, nil)
		if n.node().Online.Len() != 2 {
			kernfstest.Elsewhere(t, "cpus are %s", n.node().Online)
		}
		testResizeDies(t, n)
	})
}

// A hook may die when the kernel has the new size and the record the old one. No other job has been
// given what the job gave up, so the next hook gives that back before a job begins.
func TestJobHasItsOldSizeAfterAResizeThatWasNotRecorded(t *testing.T) {
	onFakes(t, func(c *config.File) { c.Memory.ReservePercent = 0 }, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
		n.begin("1.srv", asks("ncpus=3", "mem=8gb"))
		l := n.limitsNow("1.srv")
		mem := int64(gib)
		l.Mem, l.MemSwap, l.CPUs = &mem, nil, n.limits("1").CPUs
		must.NoError(t, n.cgroup("1.srv").Apply(l))
		n.startAndSettle(nil)
		n.size("1.srv", 3, 8*gib)
		n.refuses(hostapi.EventBegin, "2.srv", hostapi.KindBusy, "exceeds ncpus available", "ncpus=2", "mem=1gb")
		n.refuses(hostapi.EventBegin, "2.srv", hostapi.KindBusy, "exceeds mem available", "ncpus=1", "mem=9gb")
	})
}

// No other job gets what a job has or is to have until its resize is over. So a resize that fails
// late leaves the job as it was.
func testResizeFailsLate(t *testing.T, n *node, from, to []string, mem int64, second ...string) {
	n.begin("1.srv", asks(from...))
	before := n.limitsNow("1.srv")
	refused := false
	err := n.stepThrough("1.srv", func() {
		_, err := n.event(hostapi.EventBegin, "2.srv", asks(second...))
		refused = hostapi.KindOf(err) == hostapi.KindBusy
	}, func(job *hostapi.Job) { job.ResourceList["much"] = strings.Repeat("x", 70000) }, to...)
	if !refused || hostapi.KindOf(err) != hostapi.KindJob {
		t.Errorf("error %v of kind %q, the job beside it was refused: %t", err, hostapi.KindOf(err), refused)
	}
	must.Equal(t, "limits", before, n.limitsNow("1.srv"))
	n.size("1.srv", before.CPUs.Len(), mem)
	n.settled("1.srv", true)
}

func TestResizeFailsLate(t *testing.T) {
	onFakes(t, func(c *config.File) { c.Memory.ReservePercent = 0 }, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
		testResizeFailsLate(
			t,
			n,
			[]string{"ncpus=2", "mem=8gb"},
			[]string{"ncpus=1", "mem=1gb"},
			8*gib,
			"ncpus=3",
			"mem=15gb",
		)
	})
	t.Run("kernel", func(t *testing.T) {
		n := realNode(t, nil)
		if n.node().Online.String() != "0-1" {
			kernfstest.Elsewhere(t, "cpus are %s", n.node().Online)
		}
		testResizeFailsLate(
			t,
			n,
			[]string{"ncpus=2", "mem=256mb"},
			[]string{"ncpus=1", "mem=64mb"},
			256*mib,
			"ncpus=1",
			"mem=64mb",
		)
	})
}

// After a reload the next program may settle a job while the one before it resizes the job.
func TestResizeOutlastsTheSettleOfTheNextProgram(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
		n.begin("1.srv", asks("ncpus=3", "mem=8gb"))
		j, next := n.cgroup("1.srv"), n.boot()
		settled := make(chan error, 1)
		err := n.stepThrough("1.srv", func() {
			unlock, err := next.lock(t.Context())
			must.NoError(t, err)
			to, err := next.granted(j)
			must.NoError(t, err)
			go func() {
				defer unlock()
				for l, err := j.Limits(); err == nil && *l.Mem != gib; l, err = j.Limits() {
					time.Sleep(time.Millisecond)
				}
				settled <- j.Apply(*to)
			}()
		}, func(*hostapi.Job) {}, "ncpus=1", "mem=1gb")
		must.NoError(t, err)
		if err := <-settled; err != nil && !errors.Is(err, cgroup.ErrNotInForce) {
			t.Error(err)
		}
		n.size("1.srv", 1, gib)
	})
}

// A program that settles a job while the one before it resizes the job comes back to it.
func TestSettleIsRepeatedWhereLimitsChangedMeanwhile(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		if n.tree.Mode() == cgroup.ModeV2 { // it holds no limit against another
			return
		}
		n.begin("1.srv", asks("ncpus=1", "mem=8gb"))
		granted := n.limitsNow("1.srv")
		l, mem := granted, int64(gib)
		l.Mem, l.MemSwap = &mem, nil
		must.NoError(t, n.cgroup("1.srv").Apply(l))
		heal := k.FailNth("write", "1.srv/memory.limit_in_bytes", unix.EINVAL, 0)
		again := n.startAnew(nil)
		heal()
		must.Equal(t, "jobs to be called about", []string{"1.srv"}, again)
		n.settled("1.srv", false)
		n.about("1.srv")
		must.Equal(t, "limits", granted, n.limitsNow("1.srv"))
		n.settled("1.srv", true)
	})
}

// Until a job has let go of what it gives up nobody else gets that, so that it can have it back.
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

// No other job is given what a job gives up before its resize is over. So an undo that fails
// half-way is repeated.
func TestResizeIsUndoneWhereItsFirstUndoFails(t *testing.T) {
	onFakes(t, func(c *config.File) { c.Memory.ReservePercent = 0 }, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		if n.tree.Mode() == cgroup.ModeV2 { // memory comes last
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

// A hook that starts puts in force what a job was granted, in place of what somebody has set by
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
			must.NoError(t, j.Apply(l))
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
			t.Run("kernel", func(t *testing.T) { test(t, realNode(t, edit)) })
		})
	}
}

// A job whose limits somebody lowered by hand does not get back what other jobs were given since.
func TestSettleTakesNothingThatOthersWereGiven(t *testing.T) {
	edit := func(c *config.File) { c.Memory.ReservePercent = 0 }
	onFakes(t, edit, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
		for _, ask := range [][]string{{"ncpus=2", "mem=1gb"}, {"ncpus=1", "mem=10gb"}} {
			n.begin("1.srv", asks("ncpus=3", "mem=8gb"))
			j := n.cgroup("1.srv")
			l := n.limitsNow("1.srv")
			mem := int64(gib)
			l.Mem, l.MemSwap, l.CPUs = &mem, nil, n.limits("1").CPUs
			must.NoError(t, j.Apply(l))
			lowered := n.limitsNow("1.srv")
			n.begin("2.srv", asks(ask...))
			n.startAndSettle(nil)
			must.Equal(t, fmt.Sprintf("beside %v", ask), lowered, n.limitsNow("1.srv"))
			n.do(hostapi.EventEnd, "2.srv")
			n.startAndSettle(nil)
			n.size("1.srv", 3, 8*gib)
			n.do(hostapi.EventEnd, "1.srv")
		}
	})
}

// Live jobs follow [memory] enforce when the hook starts with another.
func testEnforceChanges(t *testing.T, n *node, hold func(bytes int64)) {
	all := n.policy.memTotal(n.node())
	enforce := func(how string) func(*policy) { return func(p *policy) { p.Memory.Enforce = how } }
	n.begin("1.srv", asks("ncpus=1", "mem=128mb"))
	before := n.limitsNow("1.srv")
	for _, how := range []string{"rss", "both", "rss", "cgroup", "rss"} {
		n.startAndSettle(enforce(how))
		kernel, sampled := int64(128*mib), how != "cgroup"
		if how == "rss" {
			kernel = all
		}
		n.size("1.srv", 1, kernel)
		b, err := n.boundsNow(n.cgroup("1.srv"))
		if err != nil || (b.mem > 0) != sampled || sampled && b.mem != 128*mib {
			t.Errorf("%s: bounds %+v, %v", how, b, err)
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
	// To take memory back takes seconds: that is no part of a start, and is left for later when an
	// alarm is near.
	if again := n.startAnew(enforce("cgroup")); !slices.Equal(again, []string{"1.srv"}) {
		t.Errorf("asked to be called about jobs %v", again)
	}
	n.size("1.srv", 1, all)
	ctx, cancel := context.WithTimeout(t.Context(), settleTime/2)
	defer cancel()
	req := &hostapi.Request{Event: hostapi.EventPeriodic, Node: testNode, JobList: n.jobs}
	if _, err := n.sendCtx(ctx, req); err != nil {
		t.Error(err)
	}
	n.size("1.srv", 1, all)
	n.settled("1.srv", false)
	n.recordStates(n.do(hostapi.EventPeriodic, ""))
	n.size("1.srv", 1, 128*mib)
	n.settled("1.srv", true)
	// A job that is over its mem keeps what it has: nothing is killed for it.
	n.startAndSettle(enforce("rss"))
	hold(150 * mib)
	for range 2 {
		n.startAndSettle(enforce("cgroup"))
		n.size("1.srv", 1, all)
		n.settled("1.srv", false)
	}
	if pids := n.inside("1.srv"); len(pids) != 1 {
		t.Errorf("the job has processes %v, want one", pids)
	}
}

func TestEnforceChanges(t *testing.T) {
	edit := func(c *config.File) { c.Memory.ReservePercent = 0 }
	onFakes(t, edit, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		testEnforceChanges(t, n, func(bytes int64) { k.Charge(n.launch("1.srv"), kernfstest.Memory{Anon: bytes}) })
	})
	t.Run("kernel", func(t *testing.T) {
		n := realNode(t, edit)
		testEnforceChanges(t, n, func(bytes int64) {
			join := n.do(hostapi.EventLaunch, "1.srv").Join
			n.hook.unwatch("1.srv") // whose sampler would kill it for being over its mem
			startActor(t, join, "hold", fmt.Sprint(bytes), "/dev/null")
		})
	})
}

// A job that nothing has happened to keeps its limits.
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
				n.settled("1.srv", true)
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
