package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

func (l *lives) askFor(r *rapid.T) (want life, edit func(*hostapi.Request)) {
	want = life{
		ncpus: rapid.IntRange(0, lifeCPUs+1).Draw(r, "ncpus"),
		ngpus: rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(r, "ngpus"),
		mem:   rapid.SampledFrom([]int64{64 * mib, 128 * mib, 6 * gib}).Draw(r, "mem"),
	}
	return want, asks(fmt.Sprintf("ncpus=%d", want.ncpus), fmt.Sprintf("mem=%d", want.mem),
		fmt.Sprintf("ngpus=%d", want.ngpus))
}

// fits returns the expected answer to an event that requests so much.
func (l *lives) fits(id string, want life) hostapi.Kind {
	var cpus kernfs.IDSet
	gpus, mem := want.ngpus, want.mem
	for other, j := range l.live {
		if other == id || j.gone() {
			continue
		}
		gpus += j.ngpus
		if !j.suspended {
			mem += j.mem
			cpus = cpus.Union(l.limitsNow(other).CPUs)
		}
	}
	switch {
	case want.ncpus > lifeCPUs:
		return kindHeld
	case want.ncpus+cpus.Len() > lifeCPUs, gpus > lifeGPUs, mem > lifeMem:
		return hostapi.KindBusy
	}
	return ""
}

func (l *lives) beginJob(r *rapid.T) {
	id := fmt.Sprintf("%d.srv", rapid.IntRange(1, 5).Draw(r, "number"))
	if l.live[id] != nil {
		r.SkipNow()
	}
	want, edit := l.askFor(r)
	expected := l.fits(id, want)
	var out *hostapi.Outcome
	what, err := l.trouble(r, l.sends(hostapi.EventBegin, id, &out, edit))
	if what == fails && err != nil {
		l.want(slices.Sorted(maps.Keys(l.live))...) // the hook has undone what it did
		return
	}
	if what == dies {
		delete(l.jobs, id)
		if rapid.Bool().Draw(r, "undo") {
			l.do(hostapi.EventAbort, id)
			return
		}
		out, err = l.event(hostapi.EventBegin, id, edit)
	}
	if kind, text := refusal(out, err); kind != expected {
		l.t.Fatalf("begin of %s, which asks for %+v: %q %s; want %q", id, want, kind, text, expected)
	}
	if expected == "" {
		l.live[id] = &want
	}
}

func (l *lives) launchJob(r *rapid.T) {
	id, j := l.pick(r, isRunning)
	pid := l.k.Spawn()
	l.again(r, hostapi.EventLaunch, id, withPID(pid))
	j.pids = append(j.pids, pid)
}

// attach attaches a session of two processes. A third process has left the session and stays
// outside.
func (l *lives) attach(r *rapid.T) {
	id, j := l.pick(r, isRunning)
	pid := l.k.Spawn()
	child, stray := fork(l.t, l.k, pid), fork(l.t, l.k, pid)
	l.k.SetProcess(stray, kernfstest.Attributes{Session: stray})
	l.again(r, hostapi.EventAttach, id, withPID(pid))
	l.k.Exit(stray)
	j.pids = append(j.pids, pid, child)
	j.attached += 2
}

func (l *lives) fork(r *rapid.T) {
	j, pid := l.pickProcess(r)
	child := fork(l.t, l.k, pid)
	if rapid.Bool().Draw(r, "setsid") {
		l.k.SetProcess(child, kernfstest.Attributes{Session: child})
	}
	j.pids = append(j.pids, child)
}

func (l *lives) exit(r *rapid.T) {
	j, pid := l.pickProcess(r)
	if rapid.Bool().Draw(r, "zombie") {
		l.k.Zombie(pid)
	} else {
		l.k.Exit(pid)
	}
	j.lose(pid)
}

// stick makes a process neither die nor stop, as if it waited for a dead disk.
func (l *lives) stick(r *rapid.T) {
	j, pid := l.pickProcess(r)
	l.k.Stick(pid)
	if !slices.Contains(j.stuck, pid) {
		j.stuck = append(j.stuck, pid)
	}
}

func (l *lives) unstick(r *rapid.T) {
	_, j := l.pick(r, isStuck)
	l.release(j)
}

func (l *lives) release(j *life) {
	for _, pid := range j.stuck {
		l.k.Unstick(pid)
	}
	j.stuck = nil
	if j.over { // SIGKILL is pending
		j.pids = nil
	}
}

func isStuck(j *life) bool { return len(j.stuck) > 0 }

// gone reports whether the job's place is free before its end.
func (j *life) gone() bool { return j.over && !isStuck(j) }

func (j *life) lose(pids ...int) {
	dead := func(p int) bool { return slices.Contains(pids, p) }
	j.pids, j.stuck = slices.DeleteFunc(j.pids, dead), slices.DeleteFunc(j.stuck, dead)
}

func (l *lives) use(r *rapid.T) {
	j, pid := l.pickProcess(r)
	l.k.Burn(pid, time.Duration(rapid.IntRange(0, 3000).Draw(r, "ms"))*time.Millisecond)
	l.charge(j, pid, kernfstest.Memory{Anon: mib, File: mib})
}

func (l *lives) exceed(r *rapid.T) {
	j, pid := l.pickProcess(r)
	l.charge(j, pid, kernfstest.Memory{Anon: j.mem})
}

// charge makes a process use memory, for which the kernel may kill processes of its job.
func (l *lives) charge(j *life, pid int, m kernfstest.Memory) {
	if isStuck(j) { // such a process is killed but lives on
		return
	}
	killed := l.k.Charge(pid, m)
	for _, dead := range killed {
		if !slices.Contains(j.pids, dead) {
			l.t.Fatalf("process %d was killed for process %d of another job", dead, pid)
		}
	}
	j.killed = j.killed || len(killed) > 0
	j.lose(killed...)
}

func (l *lives) suspend(r *rapid.T) {
	id, j := l.pick(r, func(j *life) bool { return isRunning(j) && !isStuck(j) }) // otherwise it would take seconds
	j.suspended = true                                                            // whatever the hook answers
	l.again(r, hostapi.EventPostsuspend, id)
}

func (l *lives) resume(r *rapid.T) {
	id, j := l.pick(r, func(j *life) bool { return j.suspended && !j.over })
	l.again(r, hostapi.EventPreresume, id)
	j.suspended, j.resumed = false, true
}

func (l *lives) resize(r *rapid.T) {
	id, j := l.pick(r, isRunning)
	want, edit := l.askFor(r)
	if !l.tree.Has("cgroup2") && (want.ncpus == 0) != (j.ncpus == 0) {
		r.SkipNow() // refused if the job's cpuset is a v1 hierarchy: TestResizeToAndFromNoCPUs...
	}
	expected := l.fits(id, want)
	before, mark := l.limitsNow(id), l.state(id).JobMark
	used, _ := memUsed(l.cgroup(id))
	var out *hostapi.Outcome
	what, err := l.trouble(r, l.sends(hostapi.EventResize, id, &out, edit))
	if what == dies {
		out, err = l.event(hostapi.EventResize, id, edit)
	}
	l.confineDevices(id)
	if err == nil {
		j.ncpus, j.ngpus, j.mem = want.ncpus, want.ngpus, want.mem
		edit(&hostapi.Request{Job: l.jobs[id]}) // as the host records it
	}
	switch {
	case err == nil && (expected == "" || l.anyResumed()): // jobs that share cpus still do
	case err == nil:
		l.t.Fatalf("resize of %s, with %+v", id, want)
	case what == dies || what == fails && errors.Is(err, errNotUndone):
		// MoM requeues the job. Until then nobody gets what the job was to get.
		l.checkApart()
		l.release(j)
		l.do(hostapi.EventEnd, id)
		delete(l.live, id)
	case what == "" && expected == "" && used <= want.mem:
		l.t.Fatalf("resize of %s, with %+v: %v", id, want, err)
	default:
		if diff := cmp.Diff(before, l.limitsNow(id)); diff != "" {
			l.t.Fatalf("resize of %s failed (%v) and changed limits: %s", id, err, diff)
		}
		if diff := cmp.Diff(mark, l.state(id).JobMark); diff != "" {
			l.t.Fatalf("resize of %s failed (%v) and changed its mark: %s", id, err, diff)
		}
	}
}

func (l *lives) anyResumed() bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(l.live)), func(j *life) bool { return j.resumed })
}

// confineDevices does the work of hook devices after a resize. After that, the devices that the job
// gave up are free.
func (l *lives) confineDevices(id string) {
	if !l.cgroup(id).Exists() {
		return
	}
	if g := l.granted(id); g != nil {
		must.NoError(l.t, g.Applied(l.cgroup(id)))
	}
}

func (l *lives) epilogue(r *rapid.T) {
	id, j := l.pick(r, func(*life) bool { return true })
	if isStuck(j) {
		l.failsToEnd(hostapi.EventEpilogue, id)
		return
	}
	var out *hostapi.Outcome
	state := l.job(id).State
	what, err := l.trouble(r, l.sends(hostapi.EventEpilogue, id, &out))
	if what == dies { // the answer is lost
		l.job(id).State = state
	}
	if what == dies || what == fails && err != nil {
		out = l.do(hostapi.EventEpilogue, id)
	} else {
		must.NoError(l.t, err)
	}
	j.over, j.pids = true, nil
	if out.Usage != nil {
		l.measured(id, out.Usage)
		if what == fails { // the mark may lack the greatest sample, which the next hook needs
			j.used[memCounter] = 0
		}
		if j.killed && (out.Usage.OOMKills == nil || *out.Usage.OOMKills == 0) {
			l.t.Fatalf("%s ran out of memory, and its epilogue does not say so", id)
		}
	}
}

// failsToEnd sends an event of a job's end that fails: a process of the job remains, and the job
// still holds everything.
func (l *lives) failsToEnd(e hostapi.Event, id string) {
	timeout := &l.policy.Cgroup.KillTimeout
	had := *timeout
	*timeout = config.Duration(20 * time.Millisecond)
	_, err := l.event(e, id)
	*timeout = had
	j := l.live[id]
	if err == nil {
		l.t.Fatalf("%s of %s is accepted, and processes %v are left", e, id, j.stuck)
	}
	j.over, j.pids = true, slices.Clone(j.stuck)
}

func (l *lives) end(r *rapid.T) {
	id, j := l.pick(r, func(*life) bool { return true })
	if isStuck(j) {
		l.failsToEnd(hostapi.EventEnd, id)
		return
	}
	e := rapid.SampledFrom([]hostapi.Event{hostapi.EventEnd, hostapi.EventAbort}).Draw(r, "event")
	if out := l.again(r, e, id); out.Usage != nil {
		l.measured(id, out.Usage)
	}
	delete(l.live, id)
}

func (l *lives) periodic(r *rapid.T) {
	out := l.again(r, hostapi.EventPeriodic, "")
	l.align(out)
	for id, u := range out.Jobs {
		l.measured(id, u.Usage)
	}
}

// staleList sends a periodic with a list from before all jobs began.
func (l *lives) staleList(*rapid.T) {
	l.do(hostapi.EventPeriodic, "", func(r *hostapi.Request) { r.JobList = nil })
}

func (l *lives) restartHook(*rapid.T) {
	l.restart()
	for id := range l.live {
		l.confineDevices(id)
	}
}

// loseRecord restarts the hook after the host has lost its record of a job.
func (l *lives) loseRecord(r *rapid.T) {
	id, _ := l.pick(r, isRunning)
	delete(l.jobs, id)
	l.reboot()
	out := l.do(hostapi.EventStartup, "")
	l.background.Wait()
	l.align(out)
	if u := out.Jobs[id]; u == nil || u.Begin == nil {
		l.t.Fatalf("startup does not report %s, whose record is lost", id)
	}
	job := *out.Jobs[id].Begin.Job
	job.Phase = hostapi.PhaseRunning
	l.jobs[id] = &job
}
