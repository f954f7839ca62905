package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
)

// walker sends random events about a few jobs and compares what is with what should be.
type walker struct {
	*node
	k   *kernfstest.Kernel
	rnd *rand.Rand
	log []string

	live map[string]*walked
}

// walked is a job that has begun and not ended.
type walked struct {
	ncpus     int
	pids      []int // that should live
	over      bool  // epilogue was sent
	cput, mem float64
	rewatched bool // what a watch had no time to keep died with it
	attached  int
}

// TestRandomWalkKeepsJobsApart takes a few hundred random steps, among them crashes of the hook,
// and checks after each. Exactly the jobs that live have cgroups. Their cpus are disjoint and as
// many as asked for, and their processes live until epilogue. Their usage never becomes less (for
// mem, as long as one hook watches).
func TestRandomWalkKeepsJobsApart(t *testing.T) {
	for _, f := range fakes {
		for seed := range uint64(4) {
			t.Run(fmt.Sprintf("%s/%d", f.name, seed), func(t *testing.T) {
				n, k := fakeNode(t, f.boot, nil)
				w := &walker{node: n, k: k, rnd: rand.New(rand.NewPCG(seed, 0)), live: map[string]*walked{}}
				for range 300 {
					w.step()
					w.check()
					if t.Failed() {
						t.Fatalf("after %v", w.log)
					}
				}
			})
		}
	}
}

func (w *walker) step() {
	id := fmt.Sprintf("%d.srv", w.rnd.IntN(5))
	steps := []func(id string){
		w.beginJob, w.launchJob, w.attach, w.use,
		w.periodic, w.epilogue, w.end, w.crash, w.staleList,
	}
	steps[w.rnd.IntN(len(steps))](id)
}

func (w *walker) note(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf(format, args...))
}

func (w *walker) beginJob(id string) {
	if w.live[id] != nil {
		return
	}
	ncpus := w.rnd.IntN(4)
	w.note("begin %s ncpus=%d", id, ncpus)
	free := 4
	for _, j := range w.live {
		if !j.over {
			free -= j.ncpus
		}
	}
	out, err := w.event(hostapi.EventBegin, id, asks(fmt.Sprintf("ncpus=%d", ncpus), "mem=64mb"))
	switch {
	case ncpus > free:
		if hostapi.KindOf(err) != hostapi.KindBusy {
			w.t.Errorf("begin %s with %d cpus free: %v", id, free, err)
		}
	case err != nil || out.Reject:
		w.t.Errorf("begin %s: %+v, %v", id, out, err)
	default:
		w.live[id] = &walked{ncpus: ncpus}
	}
}

func (w *walker) launchJob(id string) {
	if j := w.live[id]; j != nil && !j.over {
		w.note("launch %s", id)
		j.pids = append(j.pids, w.node.launch(id))
	}
}

func (w *walker) attach(id string) {
	if j := w.live[id]; j != nil && !j.over {
		w.note("attach %s", id)
		pid := w.k.Spawn()
		child := fork(w.t, w.k, pid)
		w.do(hostapi.EventAttach, id, withPID(child))
		j.pids = append(j.pids, pid, child)
		j.attached += 2
	}
}

func (w *walker) use(id string) {
	if j := w.live[id]; j != nil && len(j.pids) > 0 {
		pid := j.pids[w.rnd.IntN(len(j.pids))]
		w.note("use %s", id)
		w.k.Burn(pid, time.Duration(w.rnd.IntN(3000))*time.Millisecond)
		w.k.Charge(pid, kernfstest.Memory{Anon: w.rnd.Int64N(mib), File: w.rnd.Int64N(mib)})
	}
}

func (w *walker) periodic(string) {
	w.note("periodic")
	for id, u := range w.do(hostapi.EventPeriodic, "").Jobs {
		w.measured(id, u.Usage)
	}
}

// staleList is a periodic whose list is from before all jobs began.
func (w *walker) staleList(string) {
	w.note("periodic with an old list")
	w.do(hostapi.EventPeriodic, "", func(r *hostapi.Request) { r.JobList = nil })
}

func (w *walker) epilogue(id string) {
	j := w.live[id]
	if j == nil {
		return
	}
	w.note("epilogue %s", id)
	before := w.job(id).State
	if told := w.state(id).Ended; told {
		if out := w.do(hostapi.EventEpilogue, id); out.Usage != nil {
			w.t.Errorf("epilogue %s told twice: %+v", id, out.Usage)
		}
		return
	}
	if u := w.do(hostapi.EventEpilogue, id).Usage; u == nil || u.Kill.Stragglers != len(j.pids) {
		w.t.Errorf("epilogue %s: usage %+v, want %d stragglers", id, u, len(j.pids))
	} else {
		w.measured(id, u)
	}
	if w.rnd.IntN(4) == 0 { // the answer is lost
		w.note("lost")
		w.job(id).State, j.rewatched = before, true
	}
	for _, pid := range j.pids {
		if w.lives(pid) {
			w.t.Errorf("epilogue %s: process %d lives", id, pid)
		}
	}
	j.over, j.pids = true, nil
}

func (w *walker) end(id string) {
	w.note("end %s", id)
	out := w.do(hostapi.EventEnd, id)
	if j := w.live[id]; j != nil && out.Usage != nil {
		w.measured(id, out.Usage)
	}
	delete(w.live, id)
}

func (w *walker) crash(string) {
	w.note("crash")
	w.restart()
	for _, j := range w.live {
		j.rewatched = true
	}
}

// measured checks that no counter of a job has become less.
func (w *walker) measured(id string, u *hostapi.HostUsage) {
	j := w.live[id]
	if j == nil {
		w.t.Errorf("usage of %s, which does not live", id)
		return
	}
	if u.MemBytes != nil && !j.rewatched {
		mem := float64(*u.MemBytes)
		if mem < j.mem {
			w.t.Errorf("mem of %s: %.0f after %.0f", id, mem, j.mem)
		}
		j.mem = mem
	}
	if *u.CPUTSeconds < j.cput || u.ProcessesAttached != j.attached || u.NCPUs != j.ncpus {
		w.t.Errorf("usage of %s: %f s after %f s, %d attached, want %d, %d cpus, want %d", id, *u.CPUTSeconds, j.cput,
			u.ProcessesAttached, j.attached, u.NCPUs, j.ncpus)
	}
	j.cput = *u.CPUTSeconds
}

func (w *walker) check() {
	w.t.Helper()
	w.want(slices.Sorted(maps.Keys(w.live))...)
	var taken kernfs.IDSet
	for id, j := range w.live {
		l, err := w.cgroup(id).Limits()
		if err != nil {
			w.t.Error(err)
			continue
		}
		if l.CPUs.Len() != j.ncpus || !j.over && !taken.Intersect(l.CPUs).IsEmpty() {
			w.t.Errorf("%s has cpus %q, want %d apart from %q", id, l.CPUs, j.ncpus, taken)
		}
		if !j.over { // else its place may be another's
			taken = taken.Union(l.CPUs)
		}
		if inside := w.inside(id); !slices.Equal(inside, slices.Sorted(slices.Values(j.pids))) {
			w.t.Errorf("%s has processes %v, want %v", id, inside, j.pids)
		}
	}
}
