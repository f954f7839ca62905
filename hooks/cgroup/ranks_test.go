package main

import (
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/proc"
	"github.com/hookhost/hookhost/internal/rank"
)

func perTask(c *config.File) { c.MPI.PerTask = true }

func TestSubgroupIsNamedAfterWorldAndRank(t *testing.T) {
	for name, want := range map[string][2]int{"rank.0": {1, 0}, "rank.17": {1, 17}, "rank.2.0": {2, 0},
		"rank.11.12": {11, 12}} {
		if w, n, ok := parseGroupName(name); !ok || [2]int{w, n} != want || groupName(w, n) != name {
			t.Errorf("%s: %d, %d, %v; want %v", name, w, n, ok, want)
		}
	}
	for _, name := range []string{"", "main", "rank", "rank.", "rank.x", "rank.1.3", "rank.01", "rank.2.3.4", "rank.2.",
		"ranks.3"} {
		if _, _, ok := parseGroupName(name); ok {
			t.Errorf("%q is a rank's", name)
		}
	}
	groups := rankGroups{}
	for _, tt := range []struct {
		key  rank.Key
		want string
	}{
		{rank.Key{World: "", Rank: 3}, "rank.3"}, {rank.Key{World: "b", Rank: 3}, "rank.2.3"},
		{rank.Key{World: "b", Rank: 4}, "rank.2.4"}, {rank.Key{World: "", Rank: 4}, "rank.4"},
		{rank.Key{World: "c", Rank: 0}, "rank.3.0"},
	} {
		got := groups.name(tt.key)
		if got != tt.want {
			t.Errorf("%v: %s, want %s", tt.key, got, tt.want)
		}
		groups[tt.key] = rankGroup{name: got, rank: rank.Found{Key: tt.key}}
	}
	delete(groups, rank.Key{World: "b", Rank: 3})
	delete(groups, rank.Key{World: "b", Rank: 4})
	if got := groups.name(rank.Key{World: "d", Rank: 9}); got != "rank.2.9" {
		t.Errorf("a world that is gone leaves its number: %s", got)
	}
}

func TestNextLook(t *testing.T) {
	for since, want := range map[time.Duration]time.Duration{
		0: time.Second, 990 * time.Millisecond: 2 * time.Second, 1010 * time.Millisecond: 2 * time.Second,
		5 * time.Second:  2 * time.Second,
		32 * time.Second: 29 * time.Second, 61 * time.Second: 0, 24 * time.Hour: 0,
	} {
		s := state{RanksFrom: sinceBoot() - since.Microseconds()}
		s.PerTask = true
		if got := s.nextLook(); math.Abs((got - want).Seconds()) > 0.1 {
			t.Errorf("%v after a launch: the next look is in %v, want %v", since, got, want)
		}
	}
	for _, s := range []state{{}, {RanksFrom: 1}, {JobMark: cgroup.JobMark{Assigned: cgroup.Assigned{PerTask: true}}}} {
		if got := s.nextLook(); got != 0 {
			t.Errorf("%+v: %v", s, got)
		}
	}
	if again := (&state{}).scheduleLook(); again != 0 {
		t.Errorf("without per_task: %v", again)
	}
}

// ompi returns the variables of a rank of Open MPI.
func ompi(world string, rank int) kernfstest.Attributes {
	return kernfstest.Attributes{Comm: fmt.Sprintf("r%d", rank),
		Environ: []string{"PATH=/bin", fmt.Sprintf("OMPI_COMM_WORLD_RANK=%d", rank), "PMIX_NAMESPACE=" + world}}
}

// forkAs is like fork, for a child that then starts a program.
func forkAs(t *testing.T, k *kernfstest.Kernel, of int, a kernfstest.Attributes) int {
	t.Helper()
	pid := fork(t, k, of)
	k.SetProcess(pid, a)
	return pid
}

// wantSubgroups checks in which subgroup each process is; "" means none.
func (n *node) wantSubgroups(id string, want map[int]string) {
	n.t.Helper()
	got := map[int]string{}
	for pid := range want {
		name, _, err := n.cgroup(id).SubgroupOf(pid)
		must.NoError(n.t, err)
		got[pid] = name
	}
	must.Equal(n.t, "ranks of processes", want, got)
}

// report sends periodic and returns its report on the job.
func (n *node) report(id string) *hostapi.JobUpdate {
	n.t.Helper()
	u := n.do(hostapi.EventPeriodic, "").Jobs[id]
	if u == nil {
		n.t.Fatalf("periodic tells nothing of job %s", id)
	}
	return u
}

// ranksOf describes the ranks in a report.
func ranksOf(u *hostapi.HostUsage) (list []string) {
	for _, r := range u.Ranks {
		list = append(list, fmt.Sprintf("%s/%d %s", r.World, r.Rank, r.Comm))
	}
	return list
}

// A job's ranks are found after they were forked, along with what they forked, and are counted
// separately to the end.
func TestRanksAreFoundAndCountedApart(t *testing.T) {
	onFakes(t, perTask, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		const id = "1.srv"
		n.begin(id, asks("ncpus=1", "mem=1gb"))
		shell := n.start(t, nil)
		out := n.do(hostapi.EventLaunch, id, withPID(shell))
		if out.CallAgain != time.Second {
			t.Errorf("launch: call again in %v", out.CallAgain)
		}
		second := n.start(t, nil)
		if out := n.do(hostapi.EventAttach, id, withPID(second)); out.CallAgain != time.Second {
			t.Errorf("attach: call again in %v", out.CallAgain)
		}
		u := n.report(id)
		if len(u.Usage.Ranks) != 0 || u.CallAgain < time.Second/2 || u.CallAgain > 2*time.Second {
			t.Errorf("without a rank: %v, call again in %v", u.Usage.Ranks, u.CallAgain)
		}
		orted := forkAs(t, k, shell, kernfstest.Attributes{Comm: "orted"})
		zero, one := forkAs(t, k, orted, ompi("a", 0)), forkAs(t, k, orted, ompi("a", 1))
		bare := forkAs(t, k, one, kernfstest.Attributes{Environ: []string{}}) // env -i
		// an MPI program that a rank starts belongs to the rank
		inner := forkAs(t, k, one, ompi("inner", 7))
		// a value that is not a number is ignored
		last := forkAs(t, k, inner, kernfstest.Attributes{Environ: []string{"PMI_RANK=nine"}})
		u = n.report(id)
		n.wantSubgroups(id, map[int]string{shell: "", second: "", orted: "", zero: "rank.0", one: "rank.1",
			bare: "rank.1", inner: "rank.1", last: "rank.1"})
		must.Equal(t, "ranks", []string{"a/0 r0", "a/1 r1"}, ranksOf(u.Usage))
		if got := n.inside(id); len(got) != 8 {
			t.Errorf("%d processes in the job, want 8", len(got))
		}
		// A child of a rank starts inside, whatever its variables say.
		n.wantSubgroups(id, map[int]string{forkAs(t, k, zero, ompi("b", 0)): "rank.0"})
		// Attaching the session once more leaves ranks where they are.
		n.do(hostapi.EventAttach, id, withPID(zero))
		n.wantSubgroups(id, map[int]string{zero: "rank.0"})

		k.Burn(zero, 3*time.Second)
		k.Burn(last, 5*time.Second)
		k.Charge(one, kernfstest.Memory{Anon: 100 * mib})
		k.Charge(shell, kernfstest.Memory{Anon: 50 * mib})
		u = n.report(id)
		for _, r := range u.Usage.Ranks {
			cput, peak := []float64{3, 5}[r.Rank], []int64{0, 100 * mib}[r.Rank]
			if *r.CPUTSeconds != cput || *r.MemPeakBytes != peak || *r.OOMKills != 0 ||
				r.PID != []int{zero, one}[r.Rank] {
				t.Errorf("rank %d: %+v, cput %v, peak %v", r.Rank, r, *r.CPUTSeconds, *r.MemPeakBytes)
			}
		}
		if *u.Usage.CPUTSeconds != 8 || *u.Usage.CgroupPeakBytes != 150*mib {
			t.Errorf("the job's: cput %v, peak %v", *u.Usage.CPUTSeconds, *u.Usage.CgroupPeakBytes)
		}
		if n.state(id).PerTask != true {
			t.Error("the record does not say it")
		}

		// A new hook continues with the ranks that it finds.
		n.restart()
		two := forkAs(t, k, orted, ompi("a", 2))
		if u = n.report(id); len(u.Usage.Ranks) != 3 {
			t.Errorf("after a restart: %v", ranksOf(u.Usage))
		}
		n.wantSubgroups(id, map[int]string{zero: "rank.0", two: "rank.2"})

		// The next program in the same job.
		other := forkAs(t, k, orted, ompi("b", 0))
		n.report(id)
		n.wantSubgroups(id, map[int]string{other: "rank.2.0"})
		if out := n.do(hostapi.EventEpilogue, id); len(out.Usage.Ranks) != 4 || out.Usage.Kill.Stragglers != 11 {
			t.Errorf("epilogue: ranks %v, kill %+v", ranksOf(out.Usage), out.Usage.Kill)
		}
		n.do(hostapi.EventEnd, id)
		n.want()
		if len(n.table) != 0 {
			t.Errorf("kept of an ended job: %v", n.table)
		}
	})
}

// The subgroups of ended ranks are removed after the ranks were reported, and no sooner.
func TestRanksEnd(t *testing.T) {
	onFakes(t, perTask, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		const id = "1.srv"
		n.begin(id, asks("ncpus=1", "mem=64mb", "oom_group=false"))
		shell := n.launch(id)
		var pids []int
		for rank := range 3 {
			pids = append(pids, forkAs(t, k, shell, ompi("a", rank)))
		}
		hydra := forkAs(t, k, shell, kernfstest.Attributes{Environ: []string{"PMI_RANK=0", "PMI_SIZE=1"}})
		n.report(id)
		n.wantSubgroups(id, map[int]string{pids[0]: "rank.0", pids[1]: "rank.1", pids[2]: "rank.2", hydra: "rank.2.0"})
		k.Burn(pids[0], 2*time.Second)
		k.Burn(hydra, 2*time.Second)
		if killed := k.Charge(pids[1], kernfstest.Memory{Anon: 65 * mib}); !slices.Equal(killed, pids[1:2]) {
			t.Fatalf("killed %v", killed)
		}
		k.Exit(pids[0])
		k.Exit(hydra)
		names := func() (list []string) {
			subgroups, err := n.cgroup(id).Subgroups()
			must.NoError(t, err)
			for _, s := range subgroups {
				list = append(list, s.Name)
			}
			return list
		}
		if u := n.report(id); len(u.Usage.Ranks) != 4 || *u.Usage.Ranks[1].CPUTSeconds != 2 || *u.Usage.OOMKills != 1 {
			t.Errorf("when they have ended: %v", ranksOf(u.Usage))
		}
		if got := names(); len(got) != 4 {
			t.Errorf("cgroups %q were left before they were told of", got)
		}
		for range 2 {
			if u := n.report(id); *u.Usage.OOMKills != 1 || *u.Usage.CPUTSeconds != 4 {
				t.Errorf("usage of the job: %+v", u.Usage)
			}
			// rank.0 is gone. rank.1 holds the count of kills, and rank.2 is alive. rank.2.0 is
			// hydra's, in a world without a name, and the next program may reuse it.
			must.Equal(t, "cgroups", []string{"rank.1", "rank.2", "rank.2.0"}, names())
		}
		again := forkAs(t, k, shell, kernfstest.Attributes{Environ: []string{"PMI_RANK=0", "PMI_SIZE=1"}})
		k.Burn(again, time.Second)
		n.report(id)
		k.Burn(again, time.Second)
		u := n.report(id).Usage
		if r := u.Ranks[0]; r.World != "" || r.PID != again || *r.CPUTSeconds != 3 {
			t.Errorf("the next program without a name: %+v", r)
		}
	})
}

// The setting at a job's begin counts. Without it nothing is created or reported.
func TestRanksSetting(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		const id = "1.srv"
		n.begin(id)
		pid := n.start(t, nil)
		out := n.do(hostapi.EventLaunch, id, withPID(pid))
		k.SetProcess(pid, ompi("a", 0))
		perTask(&n.policy.File)
		u := n.report(id)
		if out.CallAgain != 0 || u.CallAgain != 0 || u.Usage.Ranks != nil ||
			strings.Contains(string(n.job(id).State), "rank") {
			t.Errorf("launch %+v, periodic %+v", out, u)
		}
		n.wantSubgroups(id, map[int]string{pid: ""})

		n.begin("2.srv")
		n.jobs["2.srv"].State = nil // the host lost its record, but the cgroup's mark has the setting
		second := n.launch("2.srv")
		k.SetProcess(second, ompi("a", 0))
		n.policy.MPI.PerTask = false
		if u := n.report("2.srv"); u.Usage.Ranks != nil { // hook mpi reports them now
			t.Errorf("periodic: %v", ranksOf(u.Usage))
		}
		n.wantSubgroups("2.srv", map[int]string{second: "rank.0"})
		if out := n.do(hostapi.EventEpilogue, "2.srv"); len(out.Usage.Ranks) != 1 {
			t.Errorf("epilogue: %v", ranksOf(out.Usage))
		}
	})
}

// A user who makes many processes look like ranks does not get more cgroups than the node can bear.
func TestRanksMany(t *testing.T) {
	onFakes(t, perTask, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		const id = "1.srv"
		n.begin(id)
		shell := n.launch(id)
		for rank := range n.mostRanks() + 5 {
			forkAs(t, k, shell, ompi("a", rank))
		}
		for range 2 {
			if u := n.report(id); len(u.Usage.Ranks) != n.mostRanks() {
				t.Errorf("%d ranks, want %d", len(u.Usage.Ranks), n.mostRanks())
			}
		}
	})
}

// The line about a kill ends with the rank that was hit.
func TestRanksOOM(t *testing.T) {
	onFakes(t, perTask, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		const id = "1.srv"
		n.begin(id, asks("ncpus=1", "mem=64mb", "oom_group=false"))
		shell := n.launch(id)
		one, two := forkAs(t, k, shell, ompi("a", 1)), forkAs(t, k, shell, ompi("a", 2))
		n.report(id)
		n.kmsg = func() (io.ReadCloser, error) {
			return io.NopCloser(&records{
				fmt.Sprintf("6,1,%d,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),"+
					"task_memcg=%s/rank.1,task=r1,pid=%d,uid=0\n", sinceBoot(), n.cgroup(id).MemoryPath(), one),
				fmt.Sprintf("3,2,%d,-;Memory cgroup out of memory: Killed process %d (r1) total-vm:1kB\n", sinceBoot(),
					one),
			}), nil
		}
		line := fmt.Sprintf("Cgroup mem limit exceeded: Killed process %d (r1) total-vm:1kB (rank 1)", one)
		if killed := k.Charge(one, kernfstest.Memory{Anon: 65 * mib}); len(killed) != 1 {
			t.Fatalf("killed %v", killed)
		}
		n.recorded(id, 1)
		if got := n.report(id); !cmp.Equal(got.JobStderr, []string{line}) || len(got.Usage.Ranks) != 2 ||
			*got.Usage.Ranks[0].OOMKills != 1 {
			t.Errorf("told %q, %+v; want %q", got.JobStderr, got.Usage.Ranks, line)
		}
		// The kernel's counters show the rank if its log has lost the line.
		n.unwatch(id)
		if killed := k.Charge(two, kernfstest.Memory{Anon: 65 * mib}); len(killed) != 1 {
			t.Fatalf("killed %v", killed)
		}
		out := n.do(hostapi.EventEpilogue, id)
		want := []string{line, "Cgroup mem limit exceeded: and 1 more of the job's processes (rank 2)"}
		if !cmp.Equal(out.JobStderr, want) || !cmp.Equal(out.Notes, want) {
			t.Errorf("epilogue: %q, want %q", out.JobStderr, want)
		}
	})
}

// hangs is a /proc in which the memory maps of some processes are held until the test allows it. So
// their environments cannot be read, and read counts who waits.
type hangs struct {
	*kernfs.FS
	pids []int
	read *atomic.Int32
	let  chan struct{}
}

func (h hangs) Mkdir(name string, _ fs.FileMode) error { return h.FS.Mkdir(name) }

func (h hangs) OpenFile(name string, flag int) (kernfs.File, error) {
	holds := func(pid int) bool {
		return slices.Contains([]string{fmt.Sprintf("%d/environ", pid), fmt.Sprintf("%d/clear_refs", pid)}, name)
	}
	if slices.ContainsFunc(h.pids, holds) {
		h.read.Add(1)
		<-h.let
	}
	return h.FS.OpenFile(name, flag)
}

// A process that hangs prevents neither the others from being found nor the event from ending.
func TestRanksHang(t *testing.T) {
	n, k := fakeNode(t, kernfstest.NewV2, perTask)
	const id = "1.srv"
	n.begin(id)
	shell := n.launch(id)
	stuck, other := forkAs(t, k, shell, ompi("a", 0)), forkAs(t, k, shell, ompi("a", 1))
	let := make(chan struct{})
	n.roots.Proc = kernfs.New(hangs{n.roots.Proc, []int{stuck}, new(atomic.Int32), let}, "/proc")
	n.environs = proc.NewEnvirons(n.roots.Proc)
	for range 2 {
		n.report(id)
		n.wantSubgroups(id, map[int]string{stuck: "", other: "rank.1"})
	}
	close(let)
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		n.report(id)
		if name, _, err := n.cgroup(id).SubgroupOf(stuck); err != nil || name == "rank.0" || time.Now().After(end) {
			break
		}
	}
	n.wantSubgroups(id, map[int]string{stuck: "rank.0", other: "rank.1"})
}

// The jobs of one user make an exechost_periodic wait for a few seconds, however many they are, and
// take no time from another user's.
func TestRanksThatHangInManyJobsOfAUserDelayNoPeriodic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, k := fakeNode(t, kernfstest.NewV2, perTask)
		var stuck []int
		for _, id := range []string{"1.srv", "2.srv", "3.srv"} {
			n.begin(id, ownedBy(1001))
			shell := n.launch(id)
			stuck = append(stuck, forkAs(t, k, shell, ompi("a", 0)), forkAs(t, k, shell, ompi("a", 1)))
		}
		n.begin("9.srv", ownedBy(1002))
		other := forkAs(t, k, n.launch("9.srv"), ompi("a", 0))
		h := hangs{n.roots.Proc, stuck, new(atomic.Int32), make(chan struct{})}
		n.roots.Proc = kernfs.New(h, "/proc")
		n.environs = proc.NewEnvirons(n.roots.Proc)
		began := time.Now()
		n.report("9.srv")
		if took := time.Since(began); took > searchTime+2*time.Second || h.read.Load() == 0 {
			t.Errorf("%d environments took %v", h.read.Load(), took)
		}
		n.wantSubgroups("9.srv", map[int]string{other: "rank.0"})
		close(h.let)
	})
}
