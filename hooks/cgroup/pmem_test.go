package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/proc/proctest"
)

func TestBoundsOfAProcessAreTheJobsOwn(t *testing.T) {
	job := &hostapi.Job{ResourceList: hostapi.Resources{"pmem": "100mb", "pvmem": "0kb"}}
	if a, err := askOf(job, testNode); err != nil || a.pmem != 100<<20 || a.pvmem != 0 {
		t.Errorf("%v, %v, %v", a.pmem, a.pvmem, err)
	}
	if _, err := askOf(&hostapi.Job{ResourceList: hostapi.Resources{"pvmem": "much"}}, testNode); err == nil {
		t.Error("no error for pvmem=much")
	}
}

// No process may map more than pvmem either. RLIMIT_AS ensures that for launched processes, and
// sampling for the others.
func TestKernelPvmem(t *testing.T) {
	n := realNode(t, func(c *config.File) { c.Memory.ManageRlimitAS = false })
	n.do(hostapi.EventBegin, "1.srv", asks("ncpus=1", "mem=200mb", "pvmem=1mb"))
	startProgram(t, n.launches("1.srv"), "/bin/sleep", "1000")
	n.wantKilled(`^=>> PBS: job killed: pvmem \d+kb exceeded limit 1024kb$`)
}

// A process that is about to start a program may still have the memory of its parent. So a single
// sample kills nothing.
func TestKernelBoundIsExceededTwice(t *testing.T) {
	n := bareNode(t)
	n.do(hostapi.EventBegin, "1.srv", asks("ncpus=1", "mem=200mb"))
	startProgram(t, n.launches("1.srv"), "/bin/sleep", "1000")
	const small = 1 << 10
	for name, b := range map[string]memAmounts{"mem": {mem: small}, "pmem": {pmem: small}, "pvmem": {pvmem: small}} {
		s := &processSampler{follower: n.follower(n.cgroup("1.srv"), nil)}
		for round := range 2 {
			var now memAmounts
			must.Eventually(t, "the memory is known", func() (known bool) {
				var err error
				now, known, err = s.read(b)
				must.NoError(t, err)
				return known
			})
			s.compareAll(now, b, true)
			must.Equal(t, fmt.Sprintf("%s exceeded in sample %d", name, round), round, len(s.excesses))
		}
	}
}

// wantKilled waits until the job is killed, and checks the reason in its epilogue.
func (n *node) wantKilled(text string) {
	n.t.Helper()
	n.awaitDeath("1.srv")
	out := n.do(hostapi.EventEpilogue, "1.srv")
	if len(out.JobStderr) != 1 || !regexp.MustCompile(text).MatchString(out.JobStderr[0]) {
		n.t.Errorf("stderr %q, want %s", out.JobStderr, text)
	}
	n.do(hostapi.EventEnd, "1.srv")
	n.want()
}

// Several processes may together exceed pmem if each holds less.
func TestKernelPmemOfEach(t *testing.T) {
	n := realNode(t, nil)
	n.begin("1.srv", asks("ncpus=1", "mem=500mb", "pmem=120mb"))
	for range 3 {
		a := startActor(t, n.launches("1.srv"), "keep", fmt.Sprint(60*mib))
		a.stdin.Close()
	}
	n.staysAlive("1.srv")
}

// The memory of a process whose first thread has ended counts.
func TestMemoryWithoutFirstThread(t *testing.T) {
	procfs, err := kernfs.Open("/proc")
	must.NoError(t, err)
	p := proctest.StartHeadless(t, nil)
	f, err := footprintOf(procfs, []int{p.PID})
	if err != nil || f.largest <= 0 || f.widest <= f.largest || f.resident != f.largest {
		t.Errorf("%+v, %v", f, err)
	}
	if held := sharesOf(t, procfs, f); held <= 0 || held > f.resident {
		t.Errorf("held %d of %+v", held, f)
	}
}

func samplerOf(procfs *kernfs.FS) *processSampler {
	return &processSampler{follower: &follower{h: &hook{roots: kernfs.Roots{Proc: procfs}}}}
}

// sharesOf returns the shares of processes.
func sharesOf(t *testing.T, procfs *kernfs.FS, of footprint) (held int64) {
	t.Helper()
	s := samplerOf(procfs)
	must.Eventually(t, "the shares are read", func() (known bool) {
		var err error
		held, known, err = s.held(of, 0)
		must.NoError(t, err)
		return known
	})
	return held
}

// A job whose memory map is held delays no sample. After half a minute its figures in status count.
// Many processes whose maps are slow are not one that is held. The files that hang are pipes here,
// which nobody writes to.
func TestHeldMemoryMapDelaysNoSample(t *testing.T) {
	dir := t.TempDir()
	rollup := func(pid string) string { return filepath.Join(dir, pid, "smaps_rollup") }
	all := footprint{dirs: []string{"7", "8"}, resident: 1 << 20}
	for _, pid := range all.dirs {
		must.NoError(t, os.Mkdir(filepath.Join(dir, pid), 0o755), unix.Mkfifo(rollup(pid), 0o600),
			os.WriteFile(filepath.Join(dir, pid, "status"), []byte("RssAnon:\t100 kB\nRssShmem:\t20 kB\n"), 0o600))
	}
	procfs, err := kernfs.Open(dir)
	must.NoError(t, err)
	s := samplerOf(procfs)
	answer := func(pid string) {
		f, err := os.OpenFile(rollup(pid), os.O_WRONLY, 0)
		must.NoError(t, err)
		fmt.Fprint(f, "Pss_Anon: 50 kB\nPss_Shmem: 10 kB\n")
		must.NoError(t, f.Close())
	}
	isKnown := func() bool {
		held, known, err := s.held(all, 0)
		if held != 240<<10 || err != nil {
			t.Errorf("held %d, %v", held, err)
		}
		return known
	}
	for range 2 {
		if isKnown() {
			t.Error("known at once")
		}
	}
	reading := s.shares
	must.Eventually(t, "the first file is begun", func() bool { return reading.since.Load() > 0 })
	reading.since.Add(-int64(longShares))
	if !isKnown() {
		t.Error("a map that is held for long exempts a job")
	}
	answer("7")
	must.Eventually(t, "the next process has time, too", func() bool { return !isKnown() })
	answer("8")
	must.Receive(t, "the shares", reading.done)
	if held, known, err := s.held(all, 0); held != 120<<10 || !known || err != nil || s.shares != nil {
		t.Errorf("held %d, %v, %v", held, known, err)
	}
	if reading.spent <= 0 {
		t.Errorf("it took %v of a cpu", reading.spent)
	}
	isKnown() // begins to read
	reading = s.shares
	s.held(all, all.resident)
	for range 2 {
		last := s.shares
		answer("7")
		answer("8")
		must.Receive(t, "the shares", last.done)
		if last == reading && isKnown() {
			t.Error("shares of a time before the job held less count")
		}
	}
}

// While mem is not known, pmem and pvmem count, and the samples of mem before and after that are in
// a row.
func TestProcessBoundsWithoutShares(t *testing.T) {
	over := memAmounts{mem: 3, pmem: 2, pvmem: 2}
	for _, tt := range []struct {
		name   string
		bounds memAmounts
		known  []bool // of each sample; the last one exceeds the bound
	}{
		{"mem", memAmounts{mem: 2}, []bool{false, true, false, true}},
		{"pmem", memAmounts{mem: 2, pmem: 1}, []bool{false, false}},
		{"pvmem", memAmounts{mem: 2, pvmem: 1}, []bool{true, false}},
	} {
		s := samplerOf(nil)
		s.excesses = make(chan excess, 1)
		for i, known := range tt.known {
			s.compareAll(over, tt.bounds, known)
			must.Equal(t, fmt.Sprintf("excesses of %s in sample %d", tt.name, i), i/(len(tt.known)-1), len(s.excesses))
		}
		must.Equal(t, "excess", tt.name, (<-s.excesses).what)
	}
}

// Reading shares in the background takes no more of a cpu than samples do. The job is over its
// bound, but has a minute to end.
func TestSharesCountAsPartOfASample(t *testing.T) {
	n := bareNode(t, func(c *config.File) { c.Cgroup.KillGrace = config.Duration(time.Minute) })
	if n.hook.tree.Has("memory") {
		kernfstest.Elsewhere(t, "the kernel limits memory on a node with v2 alone: make test")
	}
	n.do(hostapi.EventBegin, "1.srv", asks("ncpus=1", "mem=1mb"))
	for range 4 { // each ignores SIGTERM before it enters the job
		n.launches("1.srv")(startActor(t, nil, "ignore").child.PID)
	}
	read := &shares{done: make(chan struct{}), sum: 1, spent: time.Minute}
	close(read.done)
	s := &processSampler{follower: n.follower(n.cgroup("1.srv"), nil), shares: read}
	if next := s.Sample(); next.After+next.Slack < perSample*time.Minute {
		t.Errorf("the next sample is %+v", next)
	}
	_, err := n.cgroup("1.srv").Kill(t.Context()) // without the minute
	must.NoError(t, err)
	n.do(hostapi.EventEpilogue, "1.srv")
	n.do(hostapi.EventEnd, "1.srv")
}

// bareNode is this machine without controllers, which is what the v2 tree of a hybrid machine
// offers.
func bareNode(t testing.TB, edits ...func(*config.File)) *node {
	kernfstest.NeedV2(t)
	return realNodeOf(t, cgroup.ModeV2, func(c *config.File) {
		byRSS(c)
		c.Cpuset.Enabled, c.CPU.Enabled = false, false
		for _, edit := range edits {
			edit(c)
		}
	})
}

// Without a memory controller the processes' own figures count. Shared memory counts once, and page
// cache does not count.
func TestKernelRSSWithoutController(t *testing.T) {
	n := bareNode(t)
	n.do(hostapi.EventBegin, "1.srv", asks("ncpus=1", "mem=130mb"))
	enter := n.launches("1.srv")
	a := startActor(t, enter, "hold", fmt.Sprint(60*mib), os.Args[0])
	n.staysAlive("1.srv")
	held := sharesOf(t, n.roots.Proc, footprint{dirs: []string{fmt.Sprint(a.child.PID)}, resident: 1 << 40})
	if held < 60*mib || held > 90*mib {
		t.Errorf("held %d MiB", held/mib)
	}
	b := startActor(t, enter, "keep", fmt.Sprint(90*mib))
	b.stdin.Close()
	n.wantKilled(`^=>> PBS: job killed: mem 1\d{5}kb exceeded limit 133120kb$`)
}

// startProgram starts a program that ends with the test.
func startProgram(t testing.TB, enter func(pid int), path string, args ...string) {
	t.Helper()
	proctest.Start(t, &exec.Cmd{Path: path, Args: append([]string{path}, args...)}, enter)
}

// BenchmarkSample measures one sample of a job with 100 processes: with pmem, and without a memory
// controller.
func BenchmarkSample(b *testing.B) {
	const large = 1 << 40
	for _, bb := range []struct {
		name   string
		node   func() *node
		bounds memAmounts
	}{
		{"pmem of 100", func() *node { return realNode(b, byRSS) }, memAmounts{pmem: large}},
		{"no controller, 100", func() *node { return bareNode(b) }, memAmounts{mem: large}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			n := bb.node()
			n.do(hostapi.EventBegin, "1.srv", asks("ncpus=1"))
			enter := n.launches("1.srv")
			for range 100 {
				startProgram(b, enter, "/bin/sleep", "1000")
			}
			s := &processSampler{follower: n.follower(n.cgroup("1.srv"), nil)}
			for b.Loop() {
				if _, _, err := s.read(bb.bounds); err != nil {
					b.Fatal(err)
				}
			}
			n.do(hostapi.EventEpilogue, "1.srv")
			n.do(hostapi.EventEnd, "1.srv")
		})
	}
}

// BenchmarkSampling measures what it costs to follow many idle jobs, as the part of one cpu that
// this process uses. The jobs of "page cache" hold more page cache than their mem. The last row has
// 10 processes in each job instead of 100, and requests pmem.
func BenchmarkSampling(b *testing.B) {
	for _, bb := range []struct {
		name            string
		jobs, processes int
		mem             string
		edit            func(*config.File)
	}{
		{"by the kernel", 100, 1, "mem=64mb", nil},
		{"by rss", 100, 1, "mem=64mb", byRSS},
		{"by rss, page cache", 100, 1, "mem=1mb", byRSS},
		{"pmem", 100, 10, "pmem=64mb", nil},
	} {
		b.Run(bb.name, func(b *testing.B) {
			n := realNode(b, bb.edit)
			for i := range bb.jobs {
				id := fmt.Sprintf("%d.srv", 100+i)
				n.do(hostapi.EventBegin, id, asks("ncpus=0", bb.mem))
				enter := n.launches(id)
				for range bb.processes {
					startProgram(b, enter, "/bin/sleep", "1000")
				}
			}
			time.Sleep(3 * time.Second) // until the short pauses at the start are over
			const while = 5 * time.Second
			for b.Loop() {
				before := cpuTime(b)
				time.Sleep(while)
				b.ReportMetric(100*float64(cpuTime(b)-before)/float64(while), "%cpu")
			}
			for id := range n.jobs {
				n.do(hostapi.EventEpilogue, id)
				n.do(hostapi.EventEnd, id)
			}
		})
	}
}

// BenchmarkSeries measures what the series of 200 jobs with 20 processes cost over five minutes, as
// the part of one cpu that this process uses. "none" is the same without series. The jobs are idle,
// and nobody asks for their points. A run takes a quarter of an hour.
func BenchmarkSeries(b *testing.B) {
	const jobs, processes, while = 200, 20, 5 * time.Minute
	for name, interval := range map[string]time.Duration{"every 30 s": 30 * time.Second, "none": 0} {
		b.Run(name, func(b *testing.B) {
			n := realNode(b, func(f *config.File) { f.Series.Interval = config.Duration(interval) })
			for i := range jobs {
				id := fmt.Sprintf("%d.srv", 100+i)
				n.do(hostapi.EventBegin, id, asks("ncpus=0", "mem=16mb"))
				enter := n.launches(id)
				for range processes {
					startProgram(b, enter, "/bin/sleep", "10000")
				}
			}
			time.Sleep(time.Minute) // until the pauses of the watches are long
			for b.Loop() {
				before := cpuTime(b)
				time.Sleep(while)
				b.ReportMetric(100*float64(cpuTime(b)-before)/float64(while), "%cpu")
			}
			for id := range n.jobs {
				n.do(hostapi.EventEpilogue, id)
				n.do(hostapi.EventEnd, id)
			}
		})
	}
}

// cpuTime returns the cpu time that this process has used so far.
func cpuTime(b *testing.B) time.Duration {
	var ru unix.Rusage
	must.NoError(b, unix.Getrusage(unix.RUSAGE_SELF, &ru))
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}
