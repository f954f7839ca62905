package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

func TestBeginAgain(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
		first := n.do(hostapi.EventBegin, "1.srv")
		if again := n.do(hostapi.EventBegin, "1.srv"); again.Usage.CPUs != first.Usage.CPUs {
			t.Errorf("cpus %s, before %s", again.Usage.CPUs, first.Usage.CPUs)
		}
		n.restart()
		if again := n.do(hostapi.EventBegin, "1.srv"); again.Usage.CPUs != first.Usage.CPUs {
			t.Errorf("after a crash: cpus %s, before %s", again.Usage.CPUs, first.Usage.CPUs)
		}
		n.want("1.srv")
		n.do(hostapi.EventAbort, "1.srv")
		n.want()
	})
}

func TestBeginOverLeftover(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
		n.do(hostapi.EventBegin, "1.srv", asks("ncpus=4", "mem=1gb"))
		pid := n.launch("1.srv")
		delete(n.jobs, "1.srv") // the end event never came
		n.reboot()
		out := n.do(hostapi.EventBegin, "1.srv", asks("ncpus=1", "mem=64mb"))
		if n.lives(pid) || *out.Usage.MemLimitBytes != 64*mib || len(n.inside("1.srv")) != 0 {
			t.Errorf("process lives: %v; usage %+v", n.lives(pid), out.Usage)
		}
	})
}

// A restarted hook reads the marks of all jobs at its first begin. A job that ends meanwhile leaves
// nothing that others lack.
func TestBeginWhileAnotherJobEnds(t *testing.T) {
	k := kernfstest.NewHybrid()
	roots := k.Roots()
	ends := func() {}
	roots.Cgroup = kernfs.New(xattrs{roots.Cgroup, func(name string) {
		if strings.HasSuffix(name, "/1.srv") {
			end := ends
			ends = func() {}
			end()
		}
	}}, "/sys/fs/cgroup")
	n := newNode(t, node{}, roots, cgroup.Options{Signal: k.Signal}, nil)
	n.do(hostapi.EventBegin, "1.srv", asks("ncpus=4"))
	n.reboot()
	ends = func() { n.do(hostapi.EventEnd, "1.srv") }
	n.do(hostapi.EventBegin, "2.srv", asks("ncpus=4"))
	n.want("2.srv")
}

// xattrs announces each attribute that was read.
type xattrs struct {
	*kernfs.FS
	announce func(name string)
}

func (x xattrs) Mkdir(name string, _ fs.FileMode) error { return x.FS.Mkdir(name) }

func (x xattrs) Xattr(name, attr string) ([]byte, error) {
	value, err := x.FS.Xattr(name, attr)
	x.announce(name)
	return value, err
}

// A run does not report values that an earlier run of the same job measured.
func TestBeginOverLeftoverStartsFromNothing(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		n.begin("1.srv")
		k.Charge(n.launch("1.srv"), kernfstest.Memory{Anon: 32 * mib})
		n.do(hostapi.EventPeriodic, "")
		delete(n.jobs, "1.srv")
		n.begin("1.srv")
		if u := n.do(hostapi.EventEpilogue, "1.srv").Usage; u.MemBytes == nil || *u.MemBytes > mib {
			t.Errorf("usage: %+v", u)
		}
	})
}

func TestBeginRefused(t *testing.T) {
	tests := []struct {
		name string
		edit func(*config.File)
		req  func(*hostapi.Request)
		kind hostapi.Kind
		text string
	}{
		{"more cpus than there are", nil, asks("ncpus=5"), kindHeld, "ncpus requested (5) exceeds ncpus available (4)"},
		{"the same of a MoM that chose this node itself", nil, func(r *hostapi.Request) {
			asks("ncpus=5")(r)
			r.MoM = &hostapi.ProcessID{PID: os.Getpid(), StartTime: 1}
		}, hostapi.KindJob, "ncpus requested (5) exceeds ncpus available (4)"},
		{"more cpus than are free", nil, asks("ncpus=4"), hostapi.KindBusy,
			"ncpus requested (4) exceeds ncpus available (3); held: cpu 0 by job 9.srv"},
		{"more memory than there is", nil, asks("ncpus=1", "mem=17gb"), kindHeld,
			"mem requested (17825792kb) exceeds mem available (16777216kb)"},
		{"no number", nil, asks("ncpus=x"), hostapi.KindJob, "ncpus=x"},
		{"no size", nil, asks("vmem=banana"), hostapi.KindJob, "vmem=banana"},
		{"no size of huge pages", nil, asks("hpmem_2mb=many"), hostapi.KindJob, "hpmem_2mb=many"},
		{"no boolean", nil, asks("oom_group=perhaps"), hostapi.KindJob,
			"resource_list oom_group=perhaps: neither true nor false"},
		{"too few pids", nil, asks("pids=0"), hostapi.KindJob, "resource_list pids=0: not a number of 1 or more"},
		{"no exec_vnode", nil, func(r *hostapi.Request) { r.Job.ExecVnode = "(node1:ncpus=1" }, hostapi.KindJob,
			"exec_vnode"},
		{"another host's", nil, func(r *hostapi.Request) { r.Job.ExecVnode = "(node7:ncpus=1)" }, hostapi.KindNode,
			"no chunk on this host"},
		{"not a job id", nil, func(r *hostapi.Request) { r.Job.ID = "../1" }, hostapi.KindJob, "../1"},
	}
	for _, f := range fakes {
		for _, tt := range tests {
			t.Run(f.name+"/"+tt.name, func(t *testing.T) {
				n, k := fakeNode(t, f.boot, func(c *config.File) { c.Memory.ReservePercent = 0 })
				n.do(hostapi.EventBegin, "9.srv")
				k.ResetJournal()
				out, err := n.event(hostapi.EventBegin, "1.srv", tt.req)
				if kind, text := refusal(out, err); kind != tt.kind || !strings.Contains(text, tt.text) {
					t.Errorf("%q of kind %q, want %q of kind %q", text, kind, tt.text, tt.kind)
				}
				n.want("9.srv")
				for _, op := range k.Journal() {
					if strings.Contains(op.Path, "/1.srv") {
						t.Errorf("done all the same: %s", op)
					}
				}
			})
		}
	}
}

// steps lists what an event did to the cgroups of 1.srv, without the concurrent work of its watch.
func steps(k *kernfstest.Kernel) []kernfstest.Op {
	return slices.DeleteFunc(k.Journal(), func(op kernfstest.Op) bool {
		return !strings.Contains(op.Path, "/1.srv") || strings.HasSuffix(op.Path, "cgroup.event_control") ||
			op.Op == "setxattr" && strings.HasPrefix(op.Value, "trusted.hookhost.mem_peak=")
	})
}

// TestBeginFails makes each step of begin fail in turn. Nothing is left if the step can be undone.
// In some cases the undo fails as well, as if the hook had been killed there. Begin can then be
// repeated, and the sweep removes what is left.
func TestBeginFails(t *testing.T) {
	for _, f := range fakes {
		n, k := fakeNode(t, f.boot, nil)
		n.devices = gpus(1)
		ask := asks("ncpus=2", "mem=64mb", "vmem=64mb", "pids=20", "ngpus=1")
		k.ResetJournal()
		n.do(hostapi.EventBegin, "1.srv", ask)
		ops := steps(k)
		n.do(hostapi.EventAbort, "1.srv")
		if len(ops) < 5 {
			t.Fatalf("%s: begin did only %v", f.name, ops)
		}
		for _, op := range ops {
			fail := func(t *testing.T) (*node, *kernfstest.Kernel, func()) {
				n, k := fakeNode(t, f.boot, nil)
				n.devices = gpus(1)
				heal := k.Fail(op.Op, op.Path, unix.EIO)
				return n, k, heal
			}
			begin := func(t *testing.T, n *node) {
				t.Helper()
				_, err := n.event(hostapi.EventBegin, "1.srv", ask)
				if hostapi.KindOf(err) != hostapi.KindNode || !errors.Is(err, unix.EIO) {
					t.Errorf("error %v of kind %q", err, hostapi.KindOf(err))
				}
			}
			name := strings.ReplaceAll(strings.Fields(op.String())[0]+" "+op.Path, "/", " ")
			t.Run(f.name+"/"+name, func(t *testing.T) {
				n, _, heal := fail(t)
				begin(t, n)
				n.want()
				heal()
				n.do(hostapi.EventBegin, "1.srv", ask)
			})
			t.Run(f.name+"/killed at "+name, func(t *testing.T) {
				n, k, heal := fail(t)
				stuck := k.Fail("rmdir", "1.srv", unix.EIO)
				begin(t, n)
				heal()
				stuck()
				n.reboot()
				n.do(hostapi.EventBegin, "1.srv", ask)
			})
			t.Run(f.name+"/swept after "+name, func(t *testing.T) {
				n, k, heal := fail(t)
				stuck := k.Fail("rmdir", "1.srv", unix.EIO)
				begin(t, n)
				heal()
				stuck()
				n.restart()
				if op.Op == "setxattr" { // without a mark it stays until the job's end
					n.want("1.srv")
					n.do(hostapi.EventEnd, "1.srv")
				}
				n.want()
			})
		}
	}
}

func TestBeginAfterAlarm(t *testing.T) {
	n, _ := fakeNode(t, kernfstest.NewHybrid, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	req := &hostapi.Request{Event: hostapi.EventBegin, Node: testNode, Job: n.job("1.srv")}
	if out, err := n.sendCtx(ctx, req); out != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("%+v, %v", out, err)
	}
	n.want()
	unlock, err := n.lock(t.Context())
	must.NoError(t, err)
	defer unlock()
	ctx, cancel = context.WithTimeout(t.Context(), 1e6)
	defer cancel()
	if _, err := n.sendCtx(ctx, req); hostapi.KindOf(err) != hostapi.KindBusy {
		t.Errorf("with the table locked: %v of kind %q", err, hostapi.KindOf(err))
	}
	ctx, cancel = context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := n.sendCtx(ctx, req); hostapi.KindOf(err) != hostapi.KindBusy || ctx.Err() != nil {
		t.Errorf("with the table locked: %v of kind %q, the alarm's is %v; want it to give up before",
			err, hostapi.KindOf(err), ctx.Err())
	}
	n.want()
}

// A node whose kernel has neither cpusets nor a memory controller works if the configuration
// requires neither.
func TestBeginWithoutControllers(t *testing.T) {
	for _, f := range fakes {
		t.Run(f.name, func(t *testing.T) {
			off := func(c *config.File) { c.Cpuset.Enabled, c.Memory.Enabled = false, false }
			k := f.boot(kernfstest.Without("cpuset", "memory"))
			roots := k.Roots()
			if roots.Cgroup.Exists("cgroup.subtree_control") {
				must.NoError(t, roots.Cgroup.Write("cgroup.subtree_control", "+cpu +pids"))
			}
			n := newNode(t, node{start: spawning(k)}, roots, cgroup.Options{Signal: k.Signal}, off)
			out := n.do(hostapi.EventBegin, "1.srv", asks("ncpus=1", "mem=64mb", "vmem=64mb"))
			want := []string{
				"mem=65536kb is not enforced: [memory] is not enabled on this host",
				"vmem=65536kb is not enforced: this kernel cannot",
			}
			must.Equal(t, "notes", want, out.Notes)
			if _, claimed := out.ResourcesUsed["mem"]; claimed {
				t.Errorf("resources_used: %v", out.ResourcesUsed)
			}
			n.launch("1.srv")
			out = n.do(hostapi.EventEpilogue, "1.srv")
			u := out.Usage
			if u.MemBytes != nil || u.MemSource != "" || u.MemLimitBytes != nil || u.CPUTSeconds == nil ||
				u.Kill.Stragglers != 1 {
				t.Errorf("usage: %+v", u)
			}
			if _, claimed := out.ResourcesUsed["mem"]; claimed {
				t.Errorf("resources_used: %v", out.ResourcesUsed)
			}
			n.do(hostapi.EventEnd, "1.srv")
			n.want()
		})
	}
	_, err := open(
		testPolicy(t, nil),
		kernfstest.NewHybrid(kernfstest.Without("memory", "pids")).Roots(),
		cgroup.Options{},
		nil,
	)
	if hostapi.KindOf(err) != hostapi.KindNode ||
		err.Error() != "[memory] is enabled, but this kernel offers no memory controller" {
		t.Errorf("with memory enabled: %v", err)
	}
}

// A hook that has run out of descriptors does not mistake another job for gone, whichever open
// fails.
func TestBeginGivesNothingOfAJobThatCannotBeOpened(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		n.do(hostapi.EventBegin, "1.srv", asks("ncpus=4"))
		for skip := range 20 {
			heal := k.FailNth("open", "", unix.EMFILE, skip)
			if out, err := n.event(hostapi.EventBegin, "2.srv", asks("ncpus=1")); err == nil && !out.Reject {
				t.Errorf("after %d opens: cpus %s, which are 1.srv's", skip, n.cpus("2.srv"))
			}
			heal()
		}
	})
}
