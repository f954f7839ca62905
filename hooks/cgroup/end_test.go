package main

import (
	"context"
	"errors"
	"fmt"
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

// The host may die with an epilogue's answer, or the hook in the middle of the epilogue. The
// repeated epilogue has the same report.
func TestEpilogueAgain(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		n.begin("1.srv")
		pid := n.launch("1.srv")
		k.Burn(pid, 3*time.Second)
		k.Charge(pid, kernfstest.Memory{Anon: 8 * mib})
		before := n.job("1.srv").State
		first := n.do(hostapi.EventEpilogue, "1.srv")
		n.job("1.srv").State = before
		n.reboot()
		again := n.do(hostapi.EventEpilogue, "1.srv")
		if first.Usage.Kill.Signal != "SIGKILL" || again.Usage.Kill.Signal != "none" {
			t.Errorf("kill %+v, again %+v", first.Usage.Kill, again.Usage.Kill)
		}
		if s := again.Usage.Series; s == nil || len(s.Times) == 0 { // the points at the time of the second epilogue
			t.Errorf("series again: %+v", s)
		}
		first.Usage.Kill, again.Usage.Kill = nil, nil
		first.Usage.Series, again.Usage.Series = nil, nil
		if diff := cmp.Diff(first.Usage, again.Usage); diff != "" || *again.Usage.CPUTSeconds != 3 {
			t.Errorf("usage: %+v\n-first +again:\n%s", again.Usage, diff)
		}
		n.do(hostapi.EventEnd, "1.srv")
		n.want()
	})
}

// A caller that did not get the answer sends the epilogue again. The host has the report, and MoM
// needs the usage.
func TestReportedEpilogueAgain(t *testing.T) {
	weights := func(c *config.File) {
		c.Billing.Weights = map[string]float64{"ncpus": 1}
		c.Billing.ResourcesUsed = true
	}
	for _, dies := range []bool{false, true} {
		t.Run(fmt.Sprintf("hook dies=%v", dies), func(t *testing.T) {
			onFakes(t, weights, func(t *testing.T, n *node, k *kernfstest.Kernel) {
				const id = "1.srv"
				n.begin(id, func(req *hostapi.Request) { req.Job.MotherSuperior = true })
				pid := n.launch(id)
				k.Burn(pid, 3*time.Second)
				k.Charge(pid, kernfstest.Memory{Anon: 8 * mib})
				first := n.do(hostapi.EventEpilogue, id, after(time.Hour))
				if dies {
					n.restart()
				}
				again := n.do(hostapi.EventEpilogue, id, after(time.Hour))
				must.Equal(t, "cput", "00:00:03", again.ResourcesUsed["cput"])
				must.Equal(t, "mem", "8192kb", again.ResourcesUsed["mem"])
				must.Equal(t, "billing", "1.000000", again.ResourcesUsed["billing"])
				must.Equal(t, "resources_used", first.ResourcesUsed, again.ResourcesUsed)
				first.Usage.Kill, first.Usage.Series = nil, nil // the host has these
				must.Equal(t, "usage", first.Usage, again.Usage)
				if len(again.Notes) > 0 || again.State != nil {
					t.Errorf("notes %q, state %s", again.Notes, again.State)
				}
				n.do(hostapi.EventEnd, id, after(time.Hour))
				n.want()
			})
		})
	}
}

func TestEndWithoutEpilogue(t *testing.T) {
	for _, e := range []hostapi.Event{hostapi.EventEnd, hostapi.EventAbort} {
		t.Run(string(e), func(t *testing.T) {
			onFakes(t, nil, func(t *testing.T, n *node, k *kernfstest.Kernel) {
				n.do(hostapi.EventBegin, "1.srv")
				k.Burn(n.launch("1.srv"), time.Second)
				out := n.do(e, "1.srv")
				if out.Usage == nil || *out.Usage.CPUTSeconds != 1 || out.Usage.Kill.Stragglers != 1 ||
					out.ResourcesUsed["cput"] != "00:00:01" {
					t.Errorf("%+v", out.Usage)
				}
				n.want()
			})
		})
	}
}

// A process that enters a cgroup between epilogue and end is killed.
func TestEndKillsLatecomers(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
		n.do(hostapi.EventBegin, "1.srv")
		enter := n.launches("1.srv")
		n.do(hostapi.EventEpilogue, "1.srv")
		pid := n.start(t, enter)
		n.do(hostapi.EventEnd, "1.srv")
		n.want()
		if n.lives(pid) {
			t.Error("the process lives")
		}
	})
}

// If the host has lost a job's state, it is read from the cgroup. If that has none either, the
// kernel and the job's request are used.
func TestEpilogueWithoutState(t *testing.T) {
	for _, record := range []bool{true, false} {
		t.Run(fmt.Sprintf("record=%v", record), func(t *testing.T) {
			onFakes(t, nil, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
				n.do(hostapi.EventBegin, "1.srv", asks("ncpus=2", "mem=64mb"))
				n.launch("1.srv")
				if !record {
					must.NoError(t, n.cgroup("1.srv").SetJobMark(cgroup.JobMark{}))
				}
				n.restart()
				n.job("1.srv").State = nil
				out := n.do(hostapi.EventEpilogue, "1.srv")
				u := out.Usage
				if u.CPUs != "0-1" || u.Mems != "0-1" || u.NCPUs != 2 || *u.MemLimitBytes != 64*mib ||
					u.Kill.Stragglers != 1 {
					t.Errorf("usage %+v", u)
				}
				if out.ResourcesUsed["ncpus"] != "2" {
					t.Errorf("resources_used %v", out.ResourcesUsed)
				}
				n.job("1.srv").State = []byte("not JSON")
				n.do(hostapi.EventEnd, "1.srv")
				n.want()
			})
		})
	}
}

func TestKillReport(t *testing.T) {
	tests := []struct {
		name      string
		grace     time.Duration
		processes int
		want      hostapi.KillReport
	}{
		{"nothing left", 0, 0, hostapi.KillReport{Signal: "none"}},
		{"nothing left, with a grace", time.Second, 0, hostapi.KillReport{Signal: "none"}},
		{"at once", 0, 2, hostapi.KillReport{Signal: "SIGKILL", Stragglers: 2}},
		{"gone within the grace", time.Minute, 2, hostapi.KillReport{Signal: "SIGTERM", Stragglers: 2}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			grace := func(c *config.File) { c.Cgroup.KillGrace = config.Duration(tt.grace) }
			onFakes(t, grace, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
				n.do(hostapi.EventBegin, "1.srv")
				for range tt.processes {
					n.launch("1.srv")
				}
				got := *n.do(hostapi.EventEpilogue, "1.srv").Usage.Kill
				if (got.Seconds > 0) != (tt.processes > 0) || got.Seconds > 5 {
					t.Errorf("%f seconds", got.Seconds)
				}
				if got.Seconds = 0; got != tt.want {
					t.Errorf("%+v, want %+v", got, tt.want)
				}
				n.do(hostapi.EventEnd, "1.srv")
			})
		})
	}
}

// If a process does not die, every step is still tried and the report has what is known. Later
// everything succeeds.
func TestEndStuck(t *testing.T) {
	short := func(c *config.File) { c.Cgroup.KillTimeout = config.Duration(20 * time.Millisecond) }
	onFakes(t, short, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		n.do(hostapi.EventBegin, "1.srv")
		pid := n.launch("1.srv")
		k.Burn(pid, time.Second)
		k.Stick(pid)
		for _, e := range []hostapi.Event{hostapi.EventEpilogue, hostapi.EventEnd} {
			out, err := n.event(e, "1.srv")
			if hostapi.KindOf(err) != hostapi.KindNode || !strings.Contains(err.Error(), "(job) D") {
				t.Errorf("%s: %v of kind %q", e, err, hostapi.KindOf(err))
			}
			if out.Usage == nil || *out.Usage.CPUTSeconds != 1 || out.Usage.Kill.Stragglers != 1 {
				t.Errorf("%s: usage %+v", e, out.Usage)
			}
			if len(out.Notes) != 1 || !strings.Contains(out.Notes[0], "processes are left after") {
				t.Errorf("%s: notes %q", e, out.Notes)
			}
		}
		k.Unstick(pid)
		n.policy.Cgroup.KillTimeout = config.Duration(10 * time.Second) // for what can die
		n.do(hostapi.EventEnd, "1.srv")                                 // the host sends it again
		n.want()
	})
}

// After the alarm the signal is still sent, and nothing is recorded about the steps that failed.
func TestEndAfterAlarm(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
		n.do(hostapi.EventBegin, "1.srv")
		pid := n.launch("1.srv")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		job := *n.job("1.srv")
		_, err := n.sendCtx(ctx, &hostapi.Request{Event: hostapi.EventEpilogue, Node: testNode, Job: &job})
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if n.lives(pid) {
			t.Error("the process lives")
		}
		n.do(hostapi.EventEpilogue, "1.srv")
		n.do(hostapi.EventEnd, "1.srv")
		n.want()
	})
}

// The grace period leaves time for SIGKILL before the alarm.
func TestGraceBeforeAlarm(t *testing.T) {
	edit := func(c *config.File) {
		c.Cgroup.KillGrace, c.Cgroup.KillTimeout = config.Duration(time.Hour), config.Duration(20*time.Second)
	}
	n, k := fakeNode(t, kernfstest.NewHybrid, edit)
	n.do(hostapi.EventBegin, "1.srv")
	pid := n.launch("1.srv")
	k.Stick(pid)
	ctx, cancel := context.WithTimeout(t.Context(), 21*time.Second)
	defer cancel()
	time.AfterFunc(2*time.Second, func() { k.Unstick(pid) })
	job := *n.job("1.srv")
	out, err := n.sendCtx(ctx, &hostapi.Request{Event: hostapi.EventEpilogue, Node: testNode, Job: &job})
	if err != nil || out.Usage.Kill.Seconds > 10 {
		t.Errorf("%+v, %v", out.Usage.Kill, err)
	}
	n.do(hostapi.EventEnd, "1.srv")
}

// A job with ncpus=0 gets enough cpu time to die of SIGTERM within its grace period.
func TestGraceLeavesAJobTheCPUTimeToDie(t *testing.T) {
	edit := func(c *config.File) { c.Cgroup.KillGrace = config.Duration(time.Hour) }
	onFakes(t, edit, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		n.do(hostapi.EventBegin, "1.srv", asks("ncpus=0"))
		pid := n.launch("1.srv")
		k.Stick(pid) // SIGTERM ends the process when it is released
		j, raised := n.cgroup("1.srv"), make(chan bool, 1)
		go func() {
			defer k.Unstick(pid)
			for range 300 {
				if l, err := j.Limits("cpu"); err == nil && l.CPUShares > 900 && l.Quota == 0 {
					raised <- true
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
			raised <- false
		}()
		n.do(hostapi.EventEpilogue, "1.srv")
		if !<-raised {
			t.Error("in its grace the job has no more cpu time than before")
		}
		n.do(hostapi.EventEnd, "1.srv")
	})
}

// TestEndFails makes each step of end fail in turn. The event can be repeated.
func TestEndFails(t *testing.T) {
	for _, f := range fakes {
		n, k := fakeNode(t, f.boot, nil)
		n.do(hostapi.EventBegin, "1.srv")
		n.do(hostapi.EventEpilogue, "1.srv")
		k.ResetJournal()
		n.do(hostapi.EventEnd, "1.srv")
		ops := steps(k)
		if len(ops) == 0 {
			t.Fatal("end did nothing")
		}
		for _, op := range ops {
			t.Run(f.name+"/"+op.Op+" "+strings.ReplaceAll(op.Path, "/", " "), func(t *testing.T) {
				n, k := fakeNode(t, f.boot, nil)
				n.do(hostapi.EventBegin, "1.srv")
				n.do(hostapi.EventEpilogue, "1.srv")
				heal := k.Fail(op.Op, op.Path, unix.EIO)
				record := n.job("1.srv")
				_, err := n.event(hostapi.EventEnd, "1.srv")
				if hostapi.KindOf(err) != hostapi.KindNode || !errors.Is(err, unix.EIO) {
					t.Errorf("error %v of kind %q", err, hostapi.KindOf(err))
				}
				n.want("1.srv")
				heal()
				n.jobs["1.srv"] = record
				n.do(hostapi.EventEnd, "1.srv")
				n.want()
			})
		}
	}
}
