package main

import (
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/proc"
)

// resize sends the event and keeps what the host would keep.
func (n *node) resize(id string, resources ...string) (*hostapi.Outcome, error) {
	n.t.Helper()
	out, err := n.event(hostapi.EventResize, id, asks(resources...))
	if err == nil {
		job := *n.job(id)
		req := hostapi.Request{Job: &job}
		asks(resources...)(&req)
		n.jobs[id] = &job
	}
	return out, err
}

// has checks the job's limits in the kernel and in the report.
func (n *node) has(id, cpus string, mem int64) {
	n.t.Helper()
	l := n.limitsNow(id)
	if l.CPUs.String() != cpus || l.Mem == nil || *l.Mem != mem {
		n.t.Errorf("job %s has cpus %s and mem %v, want %s and %d", id, l.CPUs, l.Mem, cpus, mem)
	}
	if got := n.cpus(id); got != cpus {
		n.t.Errorf("job %s was granted cpus %s, want %s", id, got, cpus)
	}
	r, err := n.cgroup(id).JobMark()
	if err != nil || !cmp.Equal(r.Begin.Job.ResourceList, n.job(id).ResourceList) {
		n.t.Errorf("record of job %s: %v, %v; want %v", id, r.Begin.Job.ResourceList, err, n.job(id).ResourceList)
	}
}

func TestResizeOfAJobIsAppliedOrRefused(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
		n.do(hostapi.EventBegin, "1.srv", asks("ncpus=2", "mem=1gb"))
		n.do(hostapi.EventBegin, "2.srv", asks("ncpus=1", "mem=1gb"))
		n.launch("1.srv")
		for _, tt := range []struct {
			ask  []string
			cpus string
			mem  int64
		}{
			{[]string{"ncpus=3", "mem=2gb"}, "0-1,3", 2 * gib},
			{[]string{"ncpus=3", "mem=2gb"}, "0-1,3", 2 * gib}, // an event may be repeated
			{[]string{"ncpus=3", "mem=4gb"}, "0-1,3", 4 * gib},
			{[]string{"ncpus=1", "mem=512mb"}, "3", 512 * mib},
			{[]string{"ncpus=2", "mem=1gb"}, "0,3", gib},
		} {
			out, err := n.resize("1.srv", tt.ask...)
			must.NoError(t, err)
			n.has("1.srv", tt.cpus, tt.mem)
			u := out.Usage
			ncpus := strings.TrimPrefix(tt.ask[0], "ncpus=")
			if strconv.Itoa(u.NCPUs) != ncpus || out.ResourcesUsed["ncpus"] != ncpus || u.CPUs != tt.cpus ||
				*u.MemLimitBytes != tt.mem {
				t.Errorf("%v: %v, usage %+v", tt.ask, out.ResourcesUsed, u)
			}
		}
		n.has("2.srv", "2", gib)
		// Later jobs see the new size, and so does a restarted hook.
		n.restart()
		n.do(hostapi.EventBegin, "3.srv", asks("ncpus=1", "mem=1gb"))
		if got := n.cpus("3.srv"); got != "1" {
			t.Errorf("the next job has cpus %s, want 1", got)
		}
		n.refuses(hostapi.EventBegin, "4.srv", hostapi.KindBusy, "requested", "ncpus=1", "mem=1gb")
	})
}

func TestResizeRefused(t *testing.T) {
	onFakes(t, func(c *config.File) { c.Memory.ReservePercent = 0 }, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		n.begin("1.srv", asks("ncpus=2", "mem=128mb"))
		n.do(hostapi.EventBegin, "9.srv", asks("ncpus=1", "mem=10gb"))
		k.Charge(n.launch("1.srv"), kernfstest.Memory{Anon: 80 * mib})
		for _, tt := range []struct {
			ask  []string
			kind hostapi.Kind
			text string
		}{
			{[]string{"ncpus=2", "mem=50mb"}, hostapi.KindBusy,
				"mem requested (51200kb) is below what the job uses (81920kb)"},
			{[]string{"ncpus=1", "mem=50mb"}, hostapi.KindBusy, "mem requested (51200kb) is below"},
			{[]string{"ncpus=4", "mem=128mb"}, hostapi.KindBusy, "ncpus requested (4) exceeds ncpus available (3)"},
			{[]string{"ncpus=5", "mem=128mb"}, hostapi.KindJob, "ncpus requested (5) exceeds ncpus available (4)"},
			{[]string{"ncpus=1", "mem=8gb"}, hostapi.KindBusy,
				"mem requested (8388608kb) exceeds mem available (6291456kb)"},
			{[]string{"ncpus=1", "mem=17gb"}, hostapi.KindJob, "exceeds mem available"},
			{[]string{"ncpus=x"}, hostapi.KindJob, "ncpus=x"},
		} {
			before := n.limitsNow("1.srv")
			_, err := n.resize("1.srv", tt.ask...)
			if hostapi.KindOf(err) != tt.kind || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("%v: error %v of kind %q, want %q of kind %q",
					tt.ask, err, hostapi.KindOf(err), tt.text, tt.kind)
			}
			must.Equal(t, strings.Join(tt.ask, " "), before, n.limitsNow("1.srv"))
			n.has("1.srv", "0-1", 128*mib)
		}
		n.do(hostapi.EventEnd, "1.srv")
		if _, err := n.event(hostapi.EventResize, "1.srv"); hostapi.KindOf(err) != hostapi.KindNode {
			t.Errorf("without a cgroup: %v", err)
		}
	})
}

// Each step of a resize fails in turn. The job is unchanged, and the event can be repeated.
func TestResizeFails(t *testing.T) {
	type form struct {
		ask  []string
		cpus string
		mem  int64
	}
	small := form{[]string{"ncpus=1", "mem=64mb", "vmem=64mb", "pids=20"}, "0", 64 * mib}
	large := form{[]string{"ncpus=2", "mem=128mb", "vmem=128mb", "pids=40"}, "0-1", 128 * mib}
	for _, f := range fakes {
		for name, way := range map[string][2]form{"up": {small, large}, "down": {large, small}} {
			from, to := way[0], way[1]
			prepare := func(t *testing.T) (*node, *kernfstest.Kernel) {
				n, k := fakeNode(t, f.boot, nil)
				n.do(hostapi.EventBegin, "1.srv", asks(from.ask...))
				n.launch("1.srv")
				k.ResetJournal()
				return n, k
			}
			n, k := prepare(t)
			if _, err := n.resize("1.srv", to.ask...); err != nil {
				t.Fatal(err)
			}
			ops := steps(k)
			if len(ops) < 5 {
				t.Fatalf("%s: resize did only %v", f.name, ops)
			}
			for _, op := range ops {
				t.Run(f.name+"/"+name+"/"+op.Op+" "+strings.ReplaceAll(op.Path, "/", " "), func(t *testing.T) {
					n, k := prepare(t)
					before := n.limitsNow("1.srv")
					heal := k.Fail(op.Op, op.Path, unix.EIO)
					if _, err := n.resize("1.srv", to.ask...); hostapi.KindOf(err) != hostapi.KindNode {
						t.Errorf("error %v of kind %q", err, hostapi.KindOf(err))
					}
					heal()
					must.Equal(t, "limits", before, n.limitsNow("1.srv"))
					n.has("1.srv", from.cpus, from.mem)
					if _, err := n.resize("1.srv", to.ask...); err != nil {
						t.Error(err)
					}
					n.has("1.srv", to.cpus, to.mem)
				})
			}
		}
	}
}

// Two jobs may share cpus because one was suspended. They get different cpus when one of them can,
// and otherwise keep them.
func TestResizeOfSharedPlace(t *testing.T) {
	onFakes(t, func(c *config.File) { c.Memory.ReservePercent = 0 }, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
		n.do(hostapi.EventBegin, "1.srv", asks("ncpus=4", "mem=12gb"))
		n.do(hostapi.EventPostsuspend, "1.srv")
		n.do(hostapi.EventBegin, "2.srv", asks("ncpus=2", "mem=12gb"))
		n.do(hostapi.EventPreresume, "1.srv")
		if _, err := n.resize("1.srv", "ncpus=3", "mem=11gb"); err != nil {
			t.Fatal(err)
		}
		if s := n.state("1.srv"); s.NCPUs != 3 {
			t.Errorf("%+v", s)
		}
		if _, err := n.resize("1.srv", "ncpus=3", "mem=12gb"); hostapi.KindOf(err) != hostapi.KindBusy {
			t.Errorf("more memory than it has, beside one that has the rest: %v", err)
		}
		if _, err := n.resize("1.srv", "ncpus=2", "mem=4gb"); err != nil {
			t.Fatal(err)
		}
		one, two := n.cpus("1.srv"), n.cpus("2.srv")
		if one == two {
			t.Errorf("cpus %s and %s", one, two)
		}
	})
}

// A resize of a suspended job leaves it suspended.
func TestResizeSuspended(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		n.begin("1.srv", asks("ncpus=1", "mem=64mb"))
		k.Charge(n.launch("1.srv"), kernfstest.Memory{Anon: 30 * mib})
		n.do(hostapi.EventPostsuspend, "1.srv")
		if _, err := n.resize("1.srv", "ncpus=2", "mem=32mb"); err != nil {
			t.Fatal(err)
		}
		n.frozen("1.srv", true)
		n.has("1.srv", "0-1", 32*mib)
	})
}

// givesBack waits until the kernel was asked to reclaim a job's memory but failed.
func givesBack(t *testing.T, k *kernfstest.Kernel) {
	t.Helper()
	must.Eventually(t, "a job gives memory back", func() bool {
		return slices.ContainsFunc(k.Journal(), func(o kernfstest.Op) bool {
			return strings.HasSuffix(o.Path, "/memory.reclaim") && o.Err != nil
		})
	})
}

// Other jobs can begin while a job gives memory back, which takes seconds. They cannot get what the
// job is giving up or what it is about to get.
func TestResizeHoldsNobodyUp(t *testing.T) {
	n, k := fakeNode(t, kernfstest.NewV2, func(c *config.File) { c.Memory.ReservePercent = 0 })
	n.begin("1.srv", asks("ncpus=2", "mem=8gb"))
	k.Charge(n.launch("1.srv"), kernfstest.Memory{Anon: mib, File: 2 * gib})
	clean := k.Dirty(true)
	done := make(chan error)
	go func() {
		_, err := n.event(hostapi.EventResize, "1.srv", asks("ncpus=3", "mem=1gb"))
		done <- err
	}()
	givesBack(t, k)
	// The job has not given its memory back yet, and has already got the cpu.
	n.refuses(hostapi.EventBegin, "2.srv", hostapi.KindBusy, "mem requested", "ncpus=1", "mem=9gb")
	n.refuses(hostapi.EventBegin, "2.srv", hostapi.KindBusy, "ncpus requested", "ncpus=2", "mem=1gb")
	n.do(hostapi.EventBegin, "3.srv", asks("ncpus=1", "mem=1gb"))
	select {
	case err := <-done:
		t.Fatalf("begin waited for the resize: %v", err)
	default:
	}
	clean()
	if err := <-done; err != nil {
		t.Error(err)
	}
	l, err := n.cgroup("1.srv").Limits()
	if err != nil || *l.Mem != gib || l.MemHigh != nil || l.CPUs.Len() != 3 {
		t.Errorf("limits %+v, %v", l, err)
	}
}

// A failure that no user can cause is an error of the node.
func TestResizeKinds(t *testing.T) {
	n, _ := fakeNode(t, kernfstest.NewV1, func(c *config.File) { c.Cpuset.AllowZeroCPUs = true })
	n.begin("1.srv", asks("ncpus=0", "mem=64mb"))
	if _, err := n.resize("1.srv", "ncpus=1", "mem=64mb"); hostapi.KindOf(err) != hostapi.KindJob {
		t.Errorf("a cpuset for a job that has none on v1: %v", err)
	}
	n.begin("2.srv", asks("ncpus=1", "mem=64mb"))
	const want = "resize job 2.srv: a job with a cpuset cannot lose it on cgroup v1"
	_, err := n.resize("2.srv", "ncpus=0", "mem=64mb")
	if hostapi.KindOf(err) != hostapi.KindJob || err.Error() != want {
		t.Errorf("ncpus=0 on v1: %v of kind %q, want %q", err, hostapi.KindOf(err), want)
	}
	n.has("2.srv", "0", 64*mib)
}

// A job that began without a bound has one after a resize that requests it.
func TestResizeBringsBounds(t *testing.T) {
	onFakes(t, byRSS, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		n.begin("1.srv", asks("ncpus=1"))
		pid := n.launch("1.srv")
		if _, err := n.resize("1.srv", "ncpus=1", "mem=100mb"); err != nil {
			t.Fatal(err)
		}
		k.Charge(pid, kernfstest.Memory{Anon: 150 * mib})
		n.awaitDeath("1.srv")
		n.wantExcess("1.srv", "=>> PBS: job killed: mem 153600kb exceeded limit 102400kb")
	})
}

// The kernel would wait for a memory map that is held, and the next attach would stop the node.
func TestJobWhoseProcessHoldsItsMemoryMapGetsNoOtherNUMANodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, _ := fakeNode(t, kernfstest.NewV2, func(c *config.File) { c.Cpuset.MemFences = true })
		n.do(hostapi.EventBegin, "1.srv", asks("ncpus=2", "mem=1gb"))
		pid := n.launch("1.srv")
		h := hangs{n.roots.Proc, []int{pid}, new(atomic.Int32), make(chan struct{})}
		n.roots.Proc = kernfs.New(h, "/proc")
		n.environs = proc.NewEnvirons(n.roots.Proc)
		_, err := n.resize("1.srv", "ncpus=2", "mem=2gb")
		must.NoError(t, err)
		before := n.limitsNow("1.srv")
		n.refuses(hostapi.EventResize, "1.srv", hostapi.KindBusy, "memory map", "ncpus=3", "mem=2gb")
		must.Equal(t, "limits", before, n.limitsNow("1.srv"))
		close(h.let)
		synctest.Wait()
		_, err = n.resize("1.srv", "ncpus=3", "mem=2gb")
		must.NoError(t, err)
	})
}
