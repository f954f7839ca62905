package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// lives is a node whose jobs come and go, and what should be there.
type lives struct {
	*node
	k    *kernfstest.Kernel
	live map[string]*life
}

// life is a job that has begun and not ended.
type life struct {
	ncpus, ngpus    int
	mem             int64
	pids            []int // that live
	stuck           []int // of them, in the kernel
	suspended, over bool
	resumed         bool // its cpus may be another's since
	attached        int  // at the most
	used            [6]float64
	rewatched       bool // what a watch had no time to note died with it
	killed          bool // for memory
}

const (
	lifeCPUs = 4
	lifeGPUs = 3
	lifeMem  = 16 * gib
)

// checkTB is a rapid.T as a testing.TB. The methods of rapid.T are above those of the test around.
type (
	checkTB struct {
		*rapid.T
		around
	}
	around    struct{ outermost }
	outermost struct{ testing.TB }
)

// TestJobsStayApartWhateverHappens has events, processes, failing kernel calls and crashes of the
// hook in any order, and compares kernel and model after each. A failure is made as short as it can
// be. -rapid.seed repeats it, and -rapid.checks and -rapid.steps ask for more.
func TestJobsStayApartWhateverHappens(t *testing.T) {
	onEachFake(t, func(t *testing.T, boot func(...kernfstest.Option) *kernfstest.Kernel) {
		t.Parallel()
		rapid.Check(t, func(r *rapid.T) {
			tb := checkTB{r, around{outermost{t}}}
			n, k := fakeNode(tb, boot, func(c *config.File) { c.Memory.ReservePercent = 0 })
			n.devices = gpus(lifeGPUs)
			l := &lives{node: n, k: k, live: map[string]*life{}}
			r.Cleanup(l.finishAll)
			r.Repeat(map[string]func(*rapid.T){
				"":            func(*rapid.T) { l.check() },
				"begin":       l.beginJob,
				"begin again": l.beginJob,
				"launch":      l.launchJob,
				"attach":      l.attach,
				"fork":        l.fork,
				"exit":        l.exit,
				"stick":       l.stick,
				"unstick":     l.unstick,
				"use":         l.use,
				"exceed":      l.exceed,
				"suspend":     l.suspend,
				"resume":      l.resume,
				"resize":      l.resize,
				"epilogue":    l.epilogue,
				"end":         l.end,
				"periodic":    l.periodic,
				"stale list":  l.staleList,
				"restart":     l.restartHook,
				"lost record": l.loseRecord,
			})
		})
	})
}

// pick returns a job that is as asked for, or has the action skipped.
func (l *lives) pick(r *rapid.T, is func(*life) bool) (id string, j *life) {
	var ids []string
	for _, id := range slices.Sorted(maps.Keys(l.live)) {
		if is(l.live[id]) {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		r.SkipNow()
	}
	id = rapid.SampledFrom(ids).Draw(r, "job")
	return id, l.live[id]
}

func isRunning(j *life) bool { return !j.over && !j.suspended }

func (l *lives) pickProcess(r *rapid.T) (j *life, pid int) {
	_, j = l.pick(r, func(j *life) bool { return isRunning(j) && len(j.pids) > 0 })
	return j, rapid.SampledFrom(j.pids).Draw(r, "pid")
}

// Trouble of an event: a call of the kernel fails, or the hook dies at one.
const (
	fails = "fails"
	dies  = "dies"
)

// trouble sends an event, with trouble or without. A hook that died has a successor then.
func (l *lives) trouble(r *rapid.T, send func() error) (what string, err error) {
	switch what = rapid.SampledFrom([]string{"", "", "", fails, dies}).Draw(r, "trouble"); what {
	case fails:
		ops := []string{"write", "mkdir", "rmdir", "setxattr", "open", "read", "getxattr"}
		op := rapid.SampledFrom(ops).Draw(r, "call")
		defer l.k.FailNth(op, "", unix.EIO, rapid.IntRange(0, 10).Draw(r, "calls before"))()
	case dies:
		heal := l.k.FailFrom(unix.EIO, rapid.IntRange(0, 30).Draw(r, "calls before"))
		err = send()
		heal()
		l.restartHook(r)
		return what, err
	}
	return what, send()
}

// again is trouble of an event that has to succeed in the end.
func (l *lives) again(r *rapid.T, e hostapi.Event, id string, edit ...func(*hostapi.Request)) (out *hostapi.Outcome) {
	what, err := l.trouble(r, l.sends(e, id, &out, edit...))
	if what == dies || what == fails && err != nil {
		return l.do(e, id, edit...)
	}
	must.NoError(l.t, err)
	return out
}

// sends is event, for trouble.
func (l *lives) sends(e hostapi.Event, id string, out **hostapi.Outcome, edit ...func(*hostapi.Request)) func() error {
	return func() (err error) {
		*out, err = l.event(e, id, edit...)
		return err
	}
}

func (l *lives) askFor(r *rapid.T) (want life, edit func(*hostapi.Request)) {
	want = life{
		ncpus: rapid.IntRange(0, lifeCPUs+1).Draw(r, "ncpus"),
		ngpus: rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(r, "ngpus"),
		mem:   rapid.SampledFrom([]int64{64 * mib, 128 * mib, 6 * gib}).Draw(r, "mem"),
	}
	return want, asks(fmt.Sprintf("ncpus=%d", want.ncpus), fmt.Sprintf("mem=%d", want.mem),
		fmt.Sprintf("ngpus=%d", want.ngpus))
}

// fits is how an event that asks for so much is to be answered.
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
		l.want(slices.Sorted(maps.Keys(l.live))...) // it has undone what it did
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
	if rapid.Bool().Draw(r, "the hook moves it") {
		pid := l.k.Spawn()
		l.again(r, hostapi.EventLaunch, id, withPID(pid))
		j.pids = append(j.pids, pid)
		return
	}
	j.pids = append(j.pids, l.start(l.t, l.again(r, hostapi.EventLaunch, id).Join))
}

// attach takes in a session of two. A third process has left it and stays outside.
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

// stick has a process neither die nor stop, as one that waits for a dead disk.
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
	if j.over { // SIGKILL has waited
		j.pids = nil
	}
}

func isStuck(j *life) bool { return len(j.stuck) > 0 }

// gone is a job whose place is free before its end.
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

// charge has a process use memory, for which the kernel may kill some of its job.
func (l *lives) charge(j *life, pid int, m kernfstest.Memory) {
	if isStuck(j) { // such a process is killed and lives
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
	id, j := l.pick(r, func(j *life) bool { return isRunning(j) && !isStuck(j) }) // else it takes seconds
	j.suspended = true                                                            // whatever the hook says
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
		r.SkipNow() // refused where the job's cpuset is a v1 hierarchy: TestResizeToAndFromNoCPUs...
	}
	expected := l.fits(id, want)
	before, mark := l.limitsNow(id), l.state(id).JobMark
	var out *hostapi.Outcome
	what, err := l.trouble(r, l.sends(hostapi.EventResize, id, &out, edit))
	if what == dies {
		out, err = l.event(hostapi.EventResize, id, edit)
	}
	l.confineDevices(id)
	if err == nil {
		j.ncpus, j.ngpus, j.mem = want.ncpus, want.ngpus, want.mem
		edit(&hostapi.Request{Job: l.jobs[id]}) // as the host notes it
	}
	switch {
	case err == nil && (expected == "" || l.anyResumed()): // those that share go on to
	case err == nil:
		l.t.Fatalf("resize of %s, with %+v", id, want)
	case what == dies: // MoM requeues the job, which is withheld what was to come until then: see regrant
		l.release(j)
		l.do(hostapi.EventEnd, id)
		delete(l.live, id)
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

// confineDevices does what the hook devices does after a resize: what a job gives up is free then.
func (l *lives) confineDevices(id string) {
	if !l.cgroup(id).Exists() {
		return
	}
	if g := l.granted(id); g != nil && len(g.Leaving) > 0 {
		g.Leaving = nil
		must.NoError(l.t, g.Mark(l.cgroup(id)))
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
	if what == dies { // its answer is lost
		l.job(id).State = state
	}
	if what == dies || err != nil {
		out = l.do(hostapi.EventEpilogue, id)
	}
	j.over, j.pids = true, nil
	if out.Usage != nil {
		l.measured(id, out.Usage)
		if j.killed && (out.Usage.OOMKills == nil || *out.Usage.OOMKills == 0) {
			l.t.Fatalf("%s ran out of memory, and its epilogue does not say so", id)
		}
	}
}

// failsToEnd sends an event of a job's end in vain: a process of the job stays, and all it holds.
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

// staleList is a periodic whose list is from before all jobs began.
func (l *lives) staleList(*rapid.T) {
	l.do(hostapi.EventPeriodic, "", func(r *hostapi.Request) { r.JobList = nil })
}

func (l *lives) restartHook(*rapid.T) {
	l.restart()
	for id, j := range l.live {
		j.rewatched = true
		l.confineDevices(id)
	}
}

// loseRecord restarts the hook of a host that has lost its record of a job.
func (l *lives) loseRecord(r *rapid.T) {
	id, j := l.pick(r, isRunning)
	delete(l.jobs, id)
	l.reboot()
	out := l.do(hostapi.EventStartup, "")
	l.align(out)
	if u := out.Jobs[id]; u == nil || u.Begin == nil {
		l.t.Fatalf("startup does not report %s, whose record is lost", id)
	}
	job := *out.Jobs[id].Begin.Job
	job.Phase = hostapi.PhaseRunning
	l.jobs[id], j.rewatched = &job, true
}

// measured checks that no counter of a job has become less. mem is sampled, and begins anew with
// each hook.
func (l *lives) measured(id string, u *hostapi.HostUsage) {
	j := l.live[id]
	if j == nil {
		l.t.Fatalf("usage of %s, which does not live", id)
	}
	if u == nil {
		return
	}
	float := func(n *int64) *float64 {
		if n == nil {
			return nil
		}
		return new(float64(*n))
	}
	for i, now := range []*float64{
		u.CPUTSeconds, float(u.CgroupPeakBytes), float(u.PidsPeak), float(u.MajorFaults), float(u.OOMKills),
		float(u.MemBytes),
	} {
		if now == nil || i == 5 && j.rewatched {
			continue
		}
		if *now < j.used[i] {
			l.t.Fatalf("counter %d of %s: %g after %g", i, id, *now, j.used[i])
		}
		j.used[i] = *now
	}
	if u.NCPUs != j.ncpus || u.ProcessesAttached > j.attached {
		l.t.Fatalf("%s has %d cpus and %d attached, want %d and %d", id, u.NCPUs, u.ProcessesAttached, j.ncpus,
			j.attached)
	}
}

// check compares what is with what should be.
func (l *lives) check() {
	l.want(slices.Sorted(maps.Keys(l.live))...)
	var alive []int
	for id, j := range l.live {
		alive = append(alive, j.pids...)
		l.checkInside(id, j)
		if j.over {
			continue
		}
		l.checkLimits(id, j)
		if frozen, err := l.cgroup(id).Frozen(); err != nil || frozen != j.suspended {
			l.t.Fatalf("%s is frozen: %v, %v", id, frozen, err)
		}
	}
	slices.Sort(alive)
	if pids := l.k.Pids(); !slices.Equal(pids, alive) {
		l.t.Fatalf("processes %v live, want %v", pids, alive)
	}
	l.checkApart()
}

// checkInside finds each process of the job, and no other, in all its directories.
func (l *lives) checkInside(id string, j *life) {
	join := l.cgroup(id).Join()
	for _, dir := range dirsOf(&hostapi.Join{CgroupDir: join.CgroupDir, Tasks: join.Tasks}) {
		text, err := l.roots.Cgroup.ReadFile(dir + "/cgroup.procs")
		must.NoError(l.t, err)
		inside := strings.Fields(string(text))
		for _, pid := range j.pids {
			if !slices.Contains(inside, strconv.Itoa(pid)) {
				l.t.Fatalf("process %d of %s is not in %s", pid, id, dir)
			}
		}
		if strings.HasSuffix(dir, "/"+id) && len(inside) > len(j.pids) { // else that of jobs without cpus
			l.t.Fatalf("%s has processes %v, want %v", dir, inside, j.pids)
		}
	}
}

// checkLimits finds the limits in force that were asked for and noted.
func (l *lives) checkLimits(id string, j *life) {
	now, s := l.limitsNow(id), l.state(id)
	if now.CPUs.Len() != j.ncpus || now.Mem == nil || *now.Mem != j.mem {
		l.t.Fatalf("%s has cpus %q and mem %v, want %+v", id, now.CPUs, now.Mem, *j)
	}
	if s.Limits == nil || s.NCPUs != j.ncpus || s.Limits.CPUs.String() != now.CPUs.String() {
		l.t.Fatalf("%s was granted %+v, which the kernel has as %+v", id, s.Granted, now)
	}
	devices := 0
	if g := l.granted(id); g != nil {
		devices = len(g.Devices) + len(g.Coming) + len(g.Leaving)
	}
	if devices != j.ngpus {
		l.t.Fatalf("%s holds %d devices, want %d", id, devices, j.ngpus)
	}
}

// checkApart finds nothing granted twice. A suspended job's cpus and memory may be another's, and
// its cpus still when it runs on.
func (l *lives) checkApart() {
	var cpus kernfs.IDSet
	held := map[string]string{}
	var mem int64
	for id, j := range l.live {
		if j.gone() {
			continue
		}
		if g := l.granted(id); g != nil {
			for _, d := range g.Devices {
				if held[d.ID] != "" {
					l.t.Fatalf("%s and %s have %s", id, held[d.ID], d.ID)
				}
				held[d.ID] = id
			}
		}
		if j.suspended || j.resumed {
			continue
		}
		now := l.limitsNow(id)
		if twice := cpus.Intersect(now.CPUs); !twice.IsEmpty() {
			l.t.Fatalf("cpus %s of %s are another's", twice, id)
		}
		cpus = cpus.Union(now.CPUs)
		mem += *now.Mem
	}
	if mem > lifeMem {
		l.t.Fatalf("jobs were granted %d bytes", mem)
	}
}

// finishAll ends what is left, and finds nothing of it in the hook.
func (l *lives) finishAll() {
	for id, j := range l.live {
		l.release(j)
		l.do(hostapi.EventEnd, id)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.watches)+len(l.owned)+len(l.turns.taken)+len(l.charts)+len(l.unsettled)+len(l.resizing)+len(l.ranks) != 0 {
		l.t.Errorf("of ended jobs the hook has watches %v, names %v, turns %v, charts %v, sizes %v", l.watches, l.owned,
			l.turns.taken, l.charts, l.resizing)
	}
}
