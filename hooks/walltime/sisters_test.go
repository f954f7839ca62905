package main

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/must"
)

// A job's first host has the others told of what it sends to all of the job, and of nothing else.
func TestSignalElsewhere(t *testing.T) {
	n := newNode(t, 0, nil)
	for _, tt := range []struct {
		name, execVnode, head string
		others                bool
		spread                bool
	}{
		{"several hosts", "(n1:ncpus=1)+(n2:ncpus=3)", "", false, true},
		{"one host", "(n1:ncpus=1)+(n1:ncpus=3)", "", false, false},
		{"another host's job", "(n2:ncpus=1)+(n1:ncpus=3)", "n2", true, false},
		{"a name that is not this host's", "(n3:ncpus=1)+(n2:ncpus=3)", "", false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			job := &hostapi.Job{ID: "1.srv", MotherSuperior: !tt.others, ExecVnode: tt.execVnode,
				ResourceList: hostapi.Resources{"walltime": "600",
					"walltime_signal": "USR1@300+B:INT@200+rtmin+3@100+@50"}}
			req := &hostapi.Request{Event: hostapi.EventBegin, Node: "n1", Job: job, MoM: &hostapi.ProcessID{PID: 1},
				Head: tt.head}
			if tt.head != "" {
				req.MoM = nil
			}
			out, err := n.ExecjobBegin(t.Context(), req)
			must.NoError(t, err)
			if *out.WalltimeLimit != 600*time.Second || (out.CallAtElapsed == 0) != (tt.head != "") || out.AskSisters {
				t.Errorf("%+v", out)
			}
			j, err := n.tree.Job(job.ID)
			must.NoError(t, err)
			must.NoError(t, j.Create(cgroup.Limits{}))
			defer j.Remove(t.Context())
			child, _ := n.start(j, 1, "ignore")
			n.jobs[job.ID] = job
			job.State = out.State
			for _, at := range []struct {
				elapsed int
				want    string
			}{{300, "USR1"}, {400, ""}, {500, "RTMIN+3"}, {550, ""}, {600, "TERM"}, {630, ""}} {
				if at.want == "RTMIN+3" || at.want == "USR1" { // its process catches none of them
					child.Signal(unix.SIGKILL)
					child.Wait(t.Context())
					child, _ = n.start(j, 1, "ignore")
				}
				want := at.want
				if !tt.spread {
					want = ""
				}
				if got := n.at(time.Duration(at.elapsed)*time.Second, job.ID)[job.ID].SignalSisters; got != want {
					t.Errorf("at %d: %q, want %q", at.elapsed, got, want)
				}
			}
			child.Signal(unix.SIGKILL)
			child.Wait(t.Context())
		})
	}
}

// On another host the job's processes get the signal that its first host names, and nothing by this
// host's own clock.
func TestSignalFromHead(t *testing.T) {
	everywhere(t, func(t *testing.T, mode cgroup.Mode) {
		n := newNode(t, mode, nil)
		j := n.begin("1.srv", nil)
		file := filepath.Join(t.TempDir(), "signals")
		_, pids := n.start(j, 3, "shell", file, "stop", "daemon|sleep")
		must.Eventually(t, "one is stopped",
			func() bool { return n.stopped(pids[0]) || n.stopped(pids[1]) || n.stopped(pids[2]) })
		must.Eventually(t, "who started the daemon has ended",
			func() bool { left, err := j.Processes(); return err == nil && len(left) == 3 })
		job := &hostapi.Job{ID: "1.srv"}
		preterm := func(signal string) {
			t.Helper()
			if _, err := n.ExecjobPreterm(t.Context(),
				&hostapi.Request{Event: hostapi.EventPreterm, Head: "n1", Job: job, Signal: signal}); err != nil {
				t.Errorf("%s: %v", signal, err)
			}
		}
		preterm("")
		preterm("CONT")
		must.Eventually(t, "none is stopped",
			func() bool { return !n.stopped(pids[0]) && !n.stopped(pids[1]) && !n.stopped(pids[2]) })
		if got := content(t, file); got != "" {
			t.Errorf("without a signal, and by SIGCONT, it got %s", got)
		}
		must.NoError(t, j.Suspend(t.Context()))
		preterm("TERM")
		if frozen, err := j.Frozen(); err != nil || !frozen {
			t.Errorf("a suspended job was thawed: %v", err)
		}
		must.NoError(t, j.Thaw(t.Context()))
		must.Eventually(t, "only what catches SIGTERM is left",
			func() bool { left, err := j.Processes(); return err == nil && len(left) == 1 })
		must.Eventually(t, "it has noted SIGTERM", func() bool { return content(t, file) == "SIGTERM" })
		preterm("TERM")
		must.Eventually(t, "it has noted another", func() bool { return content(t, file) == "SIGTERM SIGTERM" })
		if _, err := n.ExecjobPreterm(t.Context(), &hostapi.Request{Event: hostapi.EventPreterm, Job: job,
			Signal: "STOP"}); hostapi.KindOf(err) != hostapi.KindJob {
			t.Errorf("SIGSTOP: %v", err)
		}
		job.ID = "2.srv" // which has no cgroup
		preterm("TERM")
	})
}

// A job's limit of cput is for all its hosts together. The use of the others is asked for when the
// job may have reached its limit, not at its other calls.
func TestCPUTOfHosts(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	at := place{cpus: 2, otherCPUs: 6, spread: true}
	p := testPolicy(nil)
	for _, limit := range []time.Duration{time.Second, 100 * time.Second, time.Hour} {
		for range 100 {
			st := stateFor(&hostapi.Request{MoM: &hostapi.ProcessID{PID: 1}})
			job := &hostapi.Job{ResourceList: hostapi.Resources{"cput": fmt.Sprint(int(limit.Seconds())),
				"walltime": "24:00:00", "walltime_signal": "@86350+@86300+@86000+@85000+@80000"}}
			if _, err := st.follow(p, job, at); err != nil {
				t.Fatal(err)
			}
			var elapsed, own, others, told time.Duration
			asked, looks := 0, 0
			for st.Stage == running {
				if st.Next <= elapsed {
					t.Fatalf("at %v the next look is at %v", elapsed, st.Next)
				}
				own += time.Duration(float64(st.Next-elapsed) * 2 * random.Float64())
				others += time.Duration(float64(st.Next-elapsed) * 6 * random.Float64())
				elapsed = st.Next
				if st.asks() {
					told = others
					asked++
				}
				used := own + told
				f := facts{Elapsed: elapsed, CPU: &used, CPUs: 8, Alive: 1, Up: 100 * time.Hour,
					Stale: elapsed < st.Look}
				st.progress, _ = p.step(st.Limits, st.progress, f)
				if looks++; looks > 300 {
					t.Fatalf("%d looks", looks)
				}
			}
			if used := own + others; used < limit || used > limit+tolerance(limit) {
				t.Errorf("limit %v: ended at %v", limit, used)
			}
			if asked == 0 || limit == time.Hour && asked == looks {
				t.Errorf("limit %v: the others were asked %d times, in %d looks", limit, asked, looks)
			}
		}
	}
}

func TestCpusElsewhere(t *testing.T) {
	for _, tt := range []struct {
		execVnode string
		cpus      int
		bad       bool
	}{
		{"", 0, false},
		{"(n1:ncpus=4)", 0, false},
		{"(n1:ncpus=4)+(n1:ncpus=4)", 0, false},
		{"(n1:ncpus=4)+(n2:ncpus=3)+(n3[0]:ncpus=1+n3[1]:ncpus=2)", 6, false},
		{"(n1.x:ncpus=4)+(n2:mem=1kb)+(n2:ncpus=0)", 2, false},
		{"(n4:ncpus=4)+(n2:ncpus=1)", 0, true},
		{"n1:ncpus=4)+(", 0, true},
	} {
		cpus, err := cpusElsewhere(&hostapi.Job{ExecVnode: tt.execVnode}, "n1")
		if cpus != tt.cpus || (err != nil) != tt.bad {
			t.Errorf("%s: %d, %v", tt.execVnode, cpus, err)
		}
	}
}
