package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
)

// stepThrough carries out a resize with what is to happen when the lock is given back and when the record is made. Nobody holds
// the lock meanwhile.
func (n *node) stepThrough(id string, unlock func(), record func(*cgroup.Record), resources ...string) error {
	n.t.Helper()
	job := *n.job(id)
	req := &hostapi.Request{Event: hostapi.EventResize, Node: testNode, Job: &job}
	asks(resources...)(req)
	a, err := askFor(req)
	if err != nil {
		n.t.Fatal(err)
	}
	j := n.cgroup(id)
	z, err := n.newSize(j, &a)
	if err != nil {
		n.t.Fatal(err)
	}
	s := n.state(id)
	s.NCPUs, s.CPUs, s.Mems, s.MemLimit = a.NCPUs, z.limits.CPUs.String(), z.limits.Mems.String(), n.policy.memLimit(z.limits)
	return n.change(n.t.Context(), j, z, &treeLock{hook: n.hook, unlock: unlock}, func(r *cgroup.Record) {
		begin := *r.Begin
		begin.Job = req.Job
		r.Begin, r.State, r.Limits = &begin, s.encode(), &z.limits
		record(r)
	})
}

// dieInResize has the hook die when the job has the greater of both sizes.
func (n *node) dieInResize(id string, resources ...string) {
	n.t.Helper()
	died := false
	func() {
		defer func() { died = recover() != nil }()
		if err := n.stepThrough(id, func() { panic("died") }, func(*cgroup.Record) {}, resources...); err != nil {
			n.t.Error(err)
		}
	}()
	if !died {
		n.t.Fatal("the resize has one step only")
	}
}

// takeOver starts the hook anew, makes the calls that it asks for, and keeps what it tells of its jobs.
func (n *node) takeOver(between func(p *policy)) {
	n.t.Helper()
	for _, id := range n.startAnew(between) {
		n.about(id)
	}
}

// about sends a periodic about one job.
func (n *node) about(id string) {
	n.t.Helper()
	job := n.job(id)
	n.tellOf(n.do(hostapi.EventPeriodic, "", func(req *hostapi.Request) {
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
	n.tellOf(out)
	for id, update := range out.Jobs {
		if update.CallAgain > 0 {
			again = append(again, id)
		}
	}
	return again
}

func (n *node) tellOf(out *hostapi.Outcome) {
	for id, update := range out.Jobs {
		if update.State != nil {
			n.jobs[id].State = update.State
		}
	}
}

// marked checks whether the job's limits are still to come down.
func (n *node) marked(id string, want bool) {
	n.t.Helper()
	if mark := marked(n.cgroup(id)); (mark != "") != want {
		n.t.Errorf("the mark of job %s is %q, want one: %t", id, mark, want)
	}
}

// size checks how many cpus and how much memory the job has, and that the host is told the same.
func (n *node) size(id string, ncpus int, mem int64) {
	n.t.Helper()
	l, err := n.cgroup(id).Limits()
	if err != nil || l.CPUs.Len() != ncpus || l.Mem == nil || *l.Mem != mem {
		n.t.Errorf("job %s has cpus %s and mem %v, %v; want %d cpus and %d", id, l.CPUs, l.Mem, err, ncpus, mem)
	}
	if s := n.state(id); s.CPUs != l.CPUs.String() {
		n.t.Errorf("state of job %s: %+v, want cpus %s", id, s, l.CPUs)
	}
}

// A hook that dies between the steps of a resize leaves the job with the greater of both sizes. The next one gives it the
// size in its record: the new one, or where mem shrinks the old one.
func testResizeDies(t *testing.T, n *node) {
	n.begin("1.srv", asks("ncpus=2", "mem=128mb"))
	pid := n.launch("1.srv")
	n.dieInResize("1.srv", "ncpus=1", "mem=256mb")
	if l, err := n.cgroup("1.srv").Limits(); err != nil || l.CPUs.Len() != 2 || *l.Mem != 256*mib {
		t.Fatalf("between the steps: %+v, %v", l, err)
	}
	n.takeOver(nil)
	n.size("1.srv", 1, 256*mib)
	if s := n.state("1.srv"); s.NCPUs != 1 {
		t.Errorf("state %+v, want ncpus 1", s)
	}
	n.dieInResize("1.srv", "ncpus=2", "mem=128mb")
	if l, err := n.cgroup("1.srv").Limits(); err != nil || l.CPUs.Len() != 2 || *l.Mem != 256*mib {
		t.Fatalf("between the steps: %+v, %v", l, err)
	}
	n.takeOver(nil)
	n.size("1.srv", 1, 256*mib)
	n.takeOver(nil) // and that is all
	n.size("1.srv", 1, 256*mib)
	n.marked("1.srv", false)
	if !n.lives(pid) {
		t.Error("the job's process is gone")
	}
	n.do(hostapi.EventEpilogue, "1.srv")
	n.do(hostapi.EventEnd, "1.srv")
	n.want()
}

func TestResizeDies(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, _ *kernfstest.Kernel) { testResizeDies(t, n) })
	t.Run("kernel", func(t *testing.T) {
		n := realNode(t, nil)
		if n.node.Online.Len() != 2 {
			kernfstest.Elsewhere(t, "cpus are %s", n.node.Online)
		}
		testResizeDies(t, n)
	})
}

// What a job has given up before its hook died may be another's by now, and stays so: the record follows the kernel, and no
// cpu is lost between the two.
func testResizeDiesLate(t *testing.T, n *node, had, gets string, mem int64, rest ...string) {
	n.begin("1.srv", asks("ncpus="+fmt.Sprint(n.limits(had).CPUs.Len()), "mem=200mb"))
	j := n.cgroup("1.srv")
	l, err := j.Limits()
	if err != nil {
		t.Fatal(err)
	}
	if err := j.SetMark(resizeMark, []byte(resizing)); err != nil {
		t.Fatal(err)
	}
	l.Mem, l.CPUs = &mem, n.limits(gets).CPUs
	if err := j.Apply(l); err != nil {
		t.Fatal(err)
	}
	n.do(hostapi.EventBegin, "2.srv", asks(rest...))
	two, err := n.cgroup("2.srv").Limits()
	if err != nil {
		t.Fatal(err)
	}
	n.takeOver(nil)
	n.size("1.srv", l.CPUs.Len(), mem)
	n.size("2.srv", two.CPUs.Len(), *two.Mem)
	if r, err := j.Record(); err != nil || !r.Limits.CPUs.Equal(l.CPUs) || *r.Limits.Mem != mem || n.state("1.srv").CPUs != gets {
		t.Errorf("record %+v, %v, state %+v; want cpus %s and mem %d", r.Limits, err, n.state("1.srv"), gets, mem)
	}
	if common := two.CPUs.Intersect(l.CPUs); !common.IsEmpty() {
		t.Errorf("both jobs have cpus %s", common)
	}
	n.marked("1.srv", false)
	n.do(hostapi.EventEnd, "2.srv")
	n.takeOver(nil)
	n.size("1.srv", l.CPUs.Len(), mem)
	n.do(hostapi.EventEnd, "1.srv")
}

func TestResizeDiesLate(t *testing.T) {
	for _, gets := range []string{"1-2", "2-3", "0", "3"} {
		t.Run(gets, func(t *testing.T) {
			onFakes(t, func(c *config.File) { c.Memory.ReservePercent = 0 }, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
				testResizeDiesLate(t, n, "0-1", gets, 100*mib, "ncpus="+fmt.Sprint(4-n.limits(gets).CPUs.Len()), "mem=16284mb")
			})
		})
	}
	t.Run("kernel", func(t *testing.T) {
		n := realNode(t, nil)
		if n.node.Online.String() != "0-1" {
			kernfstest.Elsewhere(t, "cpus are %s", n.node.Online)
		}
		testResizeDiesLate(t, n, "0-1", "1", 100*mib, "ncpus=1", "mem=100mb")
	})
}

// A resize that fails after the job has let go of something leaves that to those who have it by then.
func testResizeFailsLate(t *testing.T, n *node, from, to []string, mem int64, second ...string) {
	n.begin("1.srv", asks(from...))
	begun := false
	err := n.stepThrough("1.srv", func() {}, func(r *cgroup.Record) {
		n.do(hostapi.EventBegin, "2.srv", asks(second...))
		begun = true
		r.Begin.Job.ResourceList["much"] = strings.Repeat("x", 70000)
	}, to...)
	if !begun || hostapi.KindOf(err) != hostapi.KindJob || !strings.Contains(err.Error(), "it keeps its new limits") {
		t.Errorf("error %v of kind %q, a job begun in between: %t", err, hostapi.KindOf(err), begun)
	}
	check := func() {
		t.Helper()
		one, err := n.cgroup("1.srv").Limits()
		if err != nil {
			t.Fatal(err)
		}
		two, err := n.cgroup("2.srv").Limits()
		if err != nil {
			t.Fatal(err)
		}
		if both := one.CPUs.Intersect(two.CPUs); !both.IsEmpty() || one.CPUs.IsEmpty() || *one.Mem != mem {
			t.Errorf("job 1.srv has cpus %s and mem %d, job 2.srv cpus %s; want %d", one.CPUs, *one.Mem, two.CPUs, mem)
		}
	}
	check()
	n.marked("1.srv", true)
	n.tellOf(n.do(hostapi.EventPeriodic, "")) // the same hook
	check()
	n.size("1.srv", 1, mem)
	n.marked("1.srv", false)
	n.do(hostapi.EventEnd, "1.srv")
	n.do(hostapi.EventEnd, "2.srv")
}

func TestResizeFailsLate(t *testing.T) {
	onFakes(t, func(c *config.File) { c.Memory.ReservePercent = 0 }, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
		testResizeFailsLate(t, n, []string{"ncpus=2", "mem=8gb"}, []string{"ncpus=1", "mem=1gb"}, gib, "ncpus=3", "mem=15gb")
	})
	t.Run("kernel", func(t *testing.T) {
		n := realNode(t, nil)
		if n.node.Online.String() != "0-1" {
			kernfstest.Elsewhere(t, "cpus are %s", n.node.Online)
		}
		testResizeFailsLate(t, n, []string{"ncpus=2", "mem=256mb"}, []string{"ncpus=1", "mem=64mb"}, 64*mib, "ncpus=1", "mem=64mb")
	})
}

// Until a job has let go of what it gives up nobody else gets that, so that it can have it back.
func TestResizeUndone(t *testing.T) {
	for _, how := range []string{"cgroup", "both", "rss"} {
		t.Run(how, func(t *testing.T) {
			edit := func(c *config.File) { c.Memory.Enforce, c.Memory.ReservePercent = how, 0 }
			onFakes(t, edit, func(t *testing.T, n *node, k *kernfstest.Kernel) {
				n.begin("1.srv", asks("ncpus=3", "mem=8gb"))
				before, err := n.cgroup("1.srv").Limits()
				if err != nil {
					t.Fatal(err)
				}
				was, err := n.cgroup("1.srv").Record()
				if err != nil {
					t.Fatal(err)
				}
				heal := func() {}
				err = n.stepThrough("1.srv", func() {
					for _, ask := range [][]string{{"ncpus=1", "mem=9gb"}, {"ncpus=2", "mem=1gb"}} {
						if _, err := n.event(hostapi.EventBegin, "2.srv", asks(ask...)); hostapi.KindOf(err) != hostapi.KindBusy {
							t.Errorf("begin with %v, which is not given up yet: %v", ask, err)
						}
					}
					heal = k.FailNth("1.srv/cpuset.cpus", unix.EIO, 0)
				}, func(*cgroup.Record) {}, "ncpus=1", "mem=1gb")
				heal()
				if hostapi.KindOf(err) != hostapi.KindNode {
					t.Errorf("error %v of kind %q", err, hostapi.KindOf(err))
				}
				after, err := n.cgroup("1.srv").Limits()
				if diff := cmp.Diff(before, after); diff != "" || err != nil {
					t.Errorf("limits: -before +after:\n%s%v", diff, err)
				}
				if r, err := n.cgroup("1.srv").Record(); err != nil || !cmp.Equal(r.Limits, was.Limits) || string(r.State) != string(was.State) {
					t.Errorf("record %+v %s, %v; want %+v %s", r.Limits, r.State, err, was.Limits, was.State)
				}
				n.marked("1.srv", false)
				n.do(hostapi.EventEnd, "1.srv")
			})
		})
	}
}

// Where taking memory back cannot be undone, what the job gave up is not taken from others again.
func TestResizeNotUndone(t *testing.T) {
	onFakes(t, func(c *config.File) { c.Memory.ReservePercent = 0 }, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		if n.tree.Mode() == cgroup.ModeV2 { // memory comes last
			return
		}
		n.begin("1.srv", asks("ncpus=3", "mem=8gb"))
		var heal []func()
		err := n.stepThrough("1.srv", func() {
			heal = append(heal, k.FailNth("1.srv/cpuset.cpus", unix.EIO, 0))
			for _, file := range []string{"memory.limit_in_bytes", "memory.memsw.limit_in_bytes"} {
				heal = append(heal, k.FailNth("1.srv/"+file, unix.EIO, 1))
			}
		}, func(*cgroup.Record) {}, "ncpus=1", "mem=1gb")
		for _, f := range heal {
			f()
		}
		if hostapi.KindOf(err) != hostapi.KindNode {
			t.Errorf("error %v of kind %q", err, hostapi.KindOf(err))
		}
		if l, err := n.cgroup("1.srv").Limits(); err != nil || *l.Mem != gib || l.CPUs.Len() != 3 {
			t.Errorf("limits %+v, %v; want 1 GiB and 3 cpus", l, err)
		}
		n.do(hostapi.EventEnd, "1.srv")
	})
}

// What somebody has set by hand, as to save a job that runs out of memory, stays when the hook starts anew.
func TestSetByHand(t *testing.T) {
	test := func(t *testing.T, n *node) {
		for _, mem := range []int64{32 * mib, 256 * mib} {
			n.begin("1.srv", asks("ncpus=1", "mem=60mb"))
			if _, err := n.resize("1.srv", "ncpus=1", "mem=64mb"); err != nil {
				t.Fatal(err)
			}
			j := n.cgroup("1.srv")
			l, err := j.Limits()
			if err != nil {
				t.Fatal(err)
			}
			if l.Mem = &mem; l.MemSwap != nil {
				l.MemSwap = &mem
			}
			if err := j.Apply(l); err != nil {
				t.Fatal(err)
			}
			n.takeOver(nil)
			n.do(hostapi.EventPeriodic, "")
			n.size("1.srv", 1, mem)
			if r, err := j.Record(); err != nil || *r.Limits.Mem != 64*mib {
				t.Errorf("record %+v, %v; want mem 64 MiB", r.Limits, err)
			}
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

// Live jobs follow [memory] enforce when the hook starts with another.
func testEnforceChanges(t *testing.T, n *node, hold func(bytes int64)) {
	all := n.policy.memTotal(n.node)
	enforce := func(how string) func(*policy) { return func(p *policy) { p.Memory.Enforce = how } }
	n.begin("1.srv", asks("ncpus=1", "mem=128mb"))
	before, err := n.cgroup("1.srv").Limits()
	if err != nil {
		t.Fatal(err)
	}
	for _, how := range []string{"rss", "both", "rss", "cgroup", "rss"} {
		n.takeOver(enforce(how))
		kernel, sampled := int64(128*mib), how != "cgroup"
		if how == "rss" {
			kernel = all
		}
		n.size("1.srv", 1, kernel)
		if b := n.boundsNow(n.cgroup("1.srv")); (b.mem != nil) != sampled || sampled && *b.mem != 128*mib {
			t.Errorf("%s: bounds %+v", how, b)
		}
		if u := n.do(hostapi.EventPeriodic, "").Jobs["1.srv"].Usage; u.MemLimitBytes == nil || *u.MemLimitBytes != 128*mib {
			t.Errorf("%s: mem_limit_bytes %v, want 128 MiB", how, u.MemLimitBytes)
		}
		if how == "rss" {
			continue
		}
		if l, err := n.cgroup("1.srv").Limits(); err != nil || (l.MemSwap == nil) != (before.MemSwap == nil) || l.MemSwap != nil && *l.MemSwap != *before.MemSwap {
			t.Errorf("%s: limits %+v, %v; want %+v", how, l, err, before)
		}
	}
	// To take memory back takes seconds: that is no part of a start, and is left for later when an alarm is near.
	if again := n.startAnew(enforce("cgroup")); !slices.Equal(again, []string{"1.srv"}) {
		t.Errorf("asked to be called about jobs %v", again)
	}
	n.size("1.srv", 1, all)
	ctx, cancel := context.WithTimeout(t.Context(), bringDownTime/2)
	defer cancel()
	req := &hostapi.Request{Event: hostapi.EventPeriodic, Node: testNode, JobList: n.jobs}
	if _, err := n.sendCtx(ctx, req); err != nil {
		t.Error(err)
	}
	n.size("1.srv", 1, all)
	n.marked("1.srv", true)
	n.tellOf(n.do(hostapi.EventPeriodic, ""))
	n.size("1.srv", 1, 128*mib)
	n.marked("1.srv", false)
	// A job that is over its mem keeps what it has: nothing is killed for it.
	n.takeOver(enforce("rss"))
	hold(150 * mib)
	for range 2 {
		n.takeOver(enforce("cgroup"))
		n.size("1.srv", 1, all)
		n.marked("1.srv", true)
	}
	if pids := n.inside("1.srv"); len(pids) != 1 {
		t.Errorf("the job has processes %v, want one", pids)
	}
	n.do(hostapi.EventEpilogue, "1.srv")
	n.do(hostapi.EventEnd, "1.srv")
	n.want()
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

// A job that nothing has happened to keeps its limits, whether or not it is marked.
func TestNothingToAgreeOn(t *testing.T) {
	settings := map[string]func(*config.File){
		"default": nil,
		"rss":     byRSS,
		"all": func(c *config.File) {
			c.Memory.HighPercent, c.Cpuset.AllowZeroCPUs, c.Memsw.EnforceDefault, c.Memsw.Default = 90, true, true, 1e7
		},
	}
	test := func(t *testing.T, n *node) {
		for i, resources := range [][]string{{"ncpus=1", "mem=99999999b", "vmem=123456789b"}, {"ncpus=1", "mem=64mb"}, {"ncpus=1"}, {"ncpus=0", "mem=5555555b"}} {
			if i == 3 && !n.policy.Cpuset.AllowZeroCPUs {
				continue
			}
			n.begin("1.srv", asks(resources...))
			j := n.cgroup("1.srv")
			state := string(n.job("1.srv").State)
			before, err := j.Limits()
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				n.takeOver(nil)
				after, err := j.Limits()
				if diff := cmp.Diff(before, after); diff != "" || err != nil || string(n.job("1.srv").State) != state {
					t.Errorf("%v: %v, state %s, want %s; limits -before +after:\n%s", resources, err, n.job("1.srv").State, state, diff)
				}
				if err := j.SetMark(resizeMark, []byte(resizing)); err != nil {
					t.Fatal(err)
				}
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
	t.Run("isolated", func(t *testing.T) {
		n, _ := fakeNode(t, kernfstest.NewV2, func(c *config.File) { c.Cpuset.Isolated = true })
		test(t, n)
	})
}
