package main

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// Jobs that begin concurrently get different cpus.
func TestBeginAtOnce(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
		outs := make(chan *hostapi.Outcome)
		for i := range 8 {
			go func() {
				id := fmt.Sprintf("%d.srv", i)
				out, err := n.ExecjobBegin(
					t.Context(),
					&hostapi.Request{Event: hostapi.EventBegin, Node: testNode, Job: n.job(id)},
				)
				if err != nil && hostapi.KindOf(err) != hostapi.KindBusy {
					t.Error(err)
				}
				outs <- out
			}()
		}
		var taken kernfs.IDSet
		for range 8 {
			out := <-outs
			if out == nil {
				continue
			}
			cpus, err := kernfs.ParseIDSet(out.Usage.CPUs)
			must.NoError(t, err)
			if !taken.Intersect(cpus).IsEmpty() {
				t.Errorf("%s taken twice", cpus)
			}
			taken = taken.Union(cpus)
		}
		if taken.Len() != 4 {
			t.Errorf("taken: %s, want 4 cpus", taken)
		}
		for i := range 8 {
			job := n.job(fmt.Sprintf("%d.srv", i))
			req := &hostapi.Request{Event: hostapi.EventEnd, Node: testNode, Job: job}
			_, err := n.ExecjobEnd(t.Context(), req)
			if err != nil {
				t.Error(err)
			}
		}
		n.want()
	})
}

// PBS may send a job's end only after it has given the job's place to another.
func TestBeginBeforeEndOfAnother(t *testing.T) {
	short := func(c *config.File) { c.Cgroup.KillTimeout = config.Duration(300 * time.Millisecond) }
	onFakes(t, short, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		all := asks("ncpus=4", "mem=15gb")
		n.do(hostapi.EventBegin, "1.srv", all)
		pid := n.launch("1.srv")
		k.Stick(pid)
		if _, err := n.event(hostapi.EventEpilogue, "1.srv"); err == nil {
			t.Error("epilogue with a process that does not die: no error")
		}
		if _, err := n.event(hostapi.EventBegin, "2.srv", all); hostapi.KindOf(err) != hostapi.KindBusy {
			t.Errorf("begin beside it: %v", err)
		}
		k.Unstick(pid)
		n.policy.Cgroup.KillTimeout = config.Duration(10 * time.Second) // for what can die
		n.do(hostapi.EventBegin, "2.srv", all)
		pid = n.launch("2.srv")
		n.do(hostapi.EventEnd, "1.srv")
		n.want("2.srv")
		if !n.lives(pid) {
			t.Error("the end of one job ended the other")
		}
	})
}

// TestBesideOthers begins and ends jobs while startup and periodic examine all jobs with outdated
// lists.
func TestBesideOthers(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, _ *kernfstest.Kernel) { testBesideOthers(t, n, 40) })
	t.Run("kernel", func(t *testing.T) { testBesideOthers(t, realNode(t, nil), 10) })
}

func testBesideOthers(t *testing.T, n *node, times int) {
	stop := make(chan struct{})
	var look, jobs sync.WaitGroup
	for _, e := range []hostapi.Event{hostapi.EventPeriodic, hostapi.EventStartup} {
		look.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				out, err := n.send(&hostapi.Request{Event: e, Node: testNode})
				if err != nil || len(out.Notes) > 0 {
					t.Errorf("%s: %+v, %v", e, out, err)
				}
				// This job is in the list but ends meanwhile.
				list := map[string]*hostapi.Job{"1.srv": n.job("1.srv")}
				if _, err = n.send(&hostapi.Request{Event: e, Node: testNode, JobList: list}); err != nil {
					t.Errorf("%s: %v", e, err)
				}
			}
		})
	}
	jobs.Go(func() {
		job := &hostapi.Job{ID: "1.srv", ResourceList: hostapi.Resources{"ncpus": "1", "mem": "64mb"}}
		send := func(e hostapi.Event, pid int) *hostapi.Outcome {
			req := *job
			out, err := n.send(&hostapi.Request{Event: e, Node: testNode, Job: &req, PID: pid})
			if err != nil || out.Reject {
				t.Errorf("%s: %+v, %v", e, out, err)
				return &hostapi.Outcome{}
			}
			if out.State != nil {
				job.State = out.State
			}
			return out
		}
		for range times {
			job.State = nil
			send(hostapi.EventBegin, 0)
			pid := n.start(t, func(pid int) { send(hostapi.EventLaunch, pid) })
			if out := send(hostapi.EventEpilogue, 0); out.Usage == nil || out.Usage.Kill.Stragglers != 1 {
				t.Errorf("process %d was killed before its job's epilogue: %+v", pid, out.Usage)
			}
			send(hostapi.EventEnd, 0)
		}
	})
	jobs.Wait()
	close(stop)
	look.Wait()
	n.do(hostapi.EventPeriodic, "")
	n.want()
}
