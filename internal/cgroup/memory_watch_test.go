package cgroup

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// needMemory returns a tree of the running kernel with a memory controller.
func needMemory(t testing.TB) (kernel, *Tree) {
	t.Helper()
	w := needKernel(t, 0)
	tree := w.newTree(t)
	if !tree.Has("memory") {
		kernfstest.Skip(t, "no memory controller")
	}
	return w, tree
}

// coldFile returns a file of n bytes that is not in the page cache.
func coldFile(t *testing.T, n int) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "data")
	f, err := os.Create(name)
	must.NoError(t, err)
	defer f.Close()
	for b := make([]byte, 1<<20); n > 0; n -= len(b) {
		if _, err := f.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	must.NoError(t, f.Sync())
	must.NoError(t, unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
	return name
}

// TestPeakBesideFiles: the peak is of what the job holds, not of the files it reads at the same
// time. The first job has room for the files. In the second the kernel has to drop them again.
func TestPeakBesideFiles(t *testing.T) {
	_, tree := needMemory(t)
	const touched, read = 50 << 20, 500 << 20
	file := coldFile(t, read)
	for _, limit := range []int64{1 << 30, 128 << 20} {
		t.Run(fmt.Sprintf("limit %d MiB", limit>>20), func(t *testing.T) {
			j := newJob(t, tree, testJob, Limits{Mem: &limit})
			watch(t, j, nil)
			reader, toucher := startActor(t, j.Join()), startActor(t, j.Join())
			own, err := j.Usage()
			must.NoError(t, err)
			done := make(chan string)
			go func() { done <- reader.ask(t, "read "+file) }()
			toucher.ask(t, fmt.Sprintf("touch %d", touched))
			<-done
			reader.end(t)
			toucher.end(t)
			reader.gone(t)
			toucher.gone(t)
			u, err := j.Usage()
			must.NoError(t, err)
			want := *own.Anon + touched + readBuffer
			t.Logf("touched %.1f MiB, peak %.1f MiB, cgroup peak %.1f MiB", mib(want), mib(*u.MemPeak),
				mib(*u.CgroupPeak))
			between(t, "peak", u.MemPeak, want*97/100, want*105/100)
			between(t, "cgroup peak", u.CgroupPeak, min(limit, read)*9/10, 1<<30)
			must.NoError(t, unix.Fadvise(openFile(t, file), 0, 0, unix.FADV_DONTNEED))
		})
	}
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }

func openFile(t *testing.T, name string) int {
	f, err := os.Open(name)
	must.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return int(f.Fd())
}

// TestWatchAgain: a peak outlives its watcher.
func TestWatchAgain(t *testing.T) {
	_, tree := needMemory(t)
	j := newJob(t, tree, testJob, Limits{})
	d, _ := j.with("memory")
	stop := watch(t, j, nil)
	a := startActor(t, j.Join())
	a.touch(t, 30<<20)
	u, err := j.Usage()
	must.NoError(t, err)
	want := *u.Anon
	must.Eventually(t, "the peak", func() bool { p, _ := d.loadPeak(); return p.used >= want })
	stop()
	a.end(t)
	a.gone(t)
	watch(t, j, nil)
	if u, err = j.Usage(); err != nil {
		t.Fatal(err)
	}
	between(t, "peak", u.MemPeak, want, want+want/20)
}

// TestRemoveWatched: the events that a watcher registered hold up neither removal nor the watcher's
// return.
func TestRemoveWatched(t *testing.T) {
	_, tree := needMemory(t)
	j := newJob(t, tree, testJob, Limits{})
	done := make(chan error, 1)
	go func() { done <- j.Watch(context.Background(), func(int64) {}, nil) }()
	a := startActor(t, j.Join())
	a.touch(t, 30<<20)
	d, _ := j.with("memory")
	must.Eventually(t, "the watcher to rest",
		func() bool { p, ok := d.loadPeak(); return ok && p.used > 30<<20 && (p.until == 0 || d.h.v2) })
	a.end(t)
	a.gone(t)
	must.Eventually(t, "the watcher to rest again",
		func() bool { p, ok := d.loadPeak(); return ok && p.all > 0 && p.until == 0 })
	start := time.Now()
	must.NoError(t, j.Remove(soon(t)))
	took := time.Since(start)
	t.Logf("removed in %v", took)
	if took > 200*time.Millisecond {
		t.Errorf("removal took %v", took)
	}
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(2 * longestRemoval):
		t.Error("the watcher does not notice that the cgroup is gone")
	}
}

// TestWatchPauses: a job that grows for long is looked at seldom, one that begins to grow often.
func TestWatchPauses(t *testing.T) {
	for _, tt := range []struct{ age, want time.Duration }{
		{0, 2 * time.Millisecond}, {closely, 2 * time.Millisecond}, {240 * time.Millisecond, 30 * time.Millisecond},
		{time.Hour, growing},
	} {
		w := &watcher{shortest: 2 * time.Millisecond, burst: time.Hour, last: &memorySample{at: time.Hour + tt.age}}
		if got := w.next(); got != tt.want {
			t.Errorf("after %v the pause is %v, want %v", tt.age, got, tt.want)
		}
	}
}

// BenchmarkWatchGrowing is what watching costs beside a job that grows for a while: cpu time of
// this process.
func BenchmarkWatchGrowing(b *testing.B) {
	_, tree := needMemory(b)
	j, err := tree.Job(testJob)
	must.NoError(b, err)
	must.NoError(b, j.Create(benchLimits()))
	b.Cleanup(func() { endJob(b, j) })
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- j.Watch(ctx, func(int64) {}, nil) }()
	a := startActor(b, j.Join())
	var before, after unix.Rusage
	must.NoError(b, unix.Getrusage(unix.RUSAGE_SELF, &before))
	start := time.Now()
	for b.Loop() {
		a.ask(b, "touch 8192")
		time.Sleep(2 * time.Millisecond)
	}
	must.NoError(b, unix.Getrusage(unix.RUSAGE_SELF, &after))
	used := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
	b.ReportMetric(100*float64(used)/float64(time.Since(start)), "%cpu")
	cancel()
	if err := <-done; err != nil {
		b.Error(err)
	}
}

func TestLevelsSurroundTheUsage(t *testing.T) {
	for _, n := range []int64{0, 1, 1<<20 - 1, 1 << 20, 63 << 20, 64<<20 + 1, 1 << 30, 1 << 40} {
		below, above := levels(n)
		if below > n || above <= n || above-below != step(below) {
			t.Errorf("levels(%d) = %d, %d", n, below, above)
		}
		if above%4096 != 0 {
			t.Errorf("level %d is not a page's", above)
		}
		if b, a := levels(above - 1); b != below || a != above {
			t.Errorf("levels(%d) = %d, %d, want %d, %d", above-1, b, a, below, above)
		}
	}
}

func TestPeakAdd(t *testing.T) {
	const m = 1 << 20
	at := func(used, file, other, peak int64, at time.Duration) *memorySample {
		return &memorySample{anon: used, file: file, other: other, peak: &peak, at: at}
	}
	first := peak{}.resumed().add(at(10*m, 5*m, m, 20*m, time.Hour))
	for _, tt := range []struct {
		name string
		from peak
		next *memorySample
		want int64
	}{
		{"no earlier sample", peak{}.resumed(), at(3*m, 0, 0, 90*m, 0), 3 * m},
		{"less than before", first, at(2*m, 5*m, m, 20*m, time.Hour+1), 10 * m},
		{"seen", first, at(30*m, 5*m, m, 36*m, time.Hour+1), 30 * m},
		{"came and went", first, at(2*m, 5*m, m, 46*m, time.Hour+1), 40 * m},
		{"files came as well", first, at(2*m, 30*m, m, 46*m, time.Hour+1), 15 * m},
		{"kernel memory came as well", first, at(2*m, 5*m, 9*m, 46*m, time.Hour+1), 32 * m},
		{"files went", first, at(2*m, 3*m, m, 46*m, time.Hour+1), 10 * m},
		{"hardly any files went", first, at(2*m, 5*m-4096, m, 46*m, time.Hour+1), 40 * m},
		{"too long ago", first, at(2*m, 5*m, m, 46*m, time.Hour+trusted+1), 10 * m},
		{"unknown", first, &memorySample{anon: 11 * m}, 11 * m},
	} {
		if got := tt.from.add(tt.next).used; got != tt.want {
			t.Errorf("%s: peak is %d, want %d", tt.name, got, tt.want)
		}
	}
}

// TestPeakAddKernel: kernel memory never counts as anonymous or shared. v1 knows the most that it
// was. On v2 it is known only at the samples. There nothing is inferred once it has fallen, nor
// what an earlier sample saw of it.
func TestPeakAddKernel(t *testing.T) {
	const m = 1 << 20
	type look struct{ used, kernel, all int64 }
	for _, tt := range []struct {
		name  string
		looks []look
		want  int64
	}{
		{"the most is known", []look{{2 * m, m, 3 * m}, {2 * m, 400 * m, 403 * m}, {3 * m, 420 * m, 422 * m}}, 3 * m},
		{"came and went beside it", []look{{2 * m, m, 3 * m}, {2 * m, 5 * m, 46 * m}}, 41 * m},
		{"fell", []look{{2 * m, 390 * m, 392 * m}, {2 * m, m, 430 * m}}, 2 * m},
		{"fell and came back", []look{{2 * m, 390 * m, 392 * m}, {2 * m, m, 392 * m}, {2 * m, 50 * m, 395 * m}}, 5 * m},
		{"hardly fell", []look{{2 * m, m, 3 * m}, {2 * m, m - 4096, 40 * m}}, 39 * m},
	} {
		p := peak{until: trusted}
		for i, l := range tt.looks {
			p = p.add(&memorySample{anon: l.used, kernel: l.kernel, peak: &l.all, at: time.Duration(i)})
		}
		if p.used != tt.want {
			t.Errorf("%s: peak is %d, want %d", tt.name, p.used, tt.want)
		}
		if again, err := parsePeak(p.String()); err != nil || again != p {
			t.Errorf("%s: %v is read as %v, %v", tt.name, p, again, err)
		}
	}
}

// TestPeakAddFaults: what came and went between two samples counts as anonymous and shared memory
// as far as page faults can have brought it. Written files, sockets and the like take none.
func TestPeakAddFaults(t *testing.T) {
	const m, page = 1 << 20, int64(4096)
	late := setAside // not counted yet
	type look struct{ used, kernel, file, all, brought int64 }
	for _, tt := range []struct {
		name  string
		looks []look
		want  int64
	}{
		{"touched and gone", []look{{2 * m, m, 0, 3 * m, 2 * m}, {2 * m, m, 0, 46 * m, 45 * m}}, 45 * m},
		{"kernel memory came and went", []look{{2 * m, m, 0, 3 * m, 2 * m}, {2 * m, m, 0, 403 * m, 2*m + 3*page}},
			2*m + 3*page + late},
		{"a file came and went", []look{{2 * m, m, 5 * m, 8 * m, 2 * m}, {2 * m, m, 5 * m, 900 * m, 2*m + 3*page}},
			2*m + 3*page + late},
		{"both at one time", []look{{2 * m, m, 0, 3 * m, 2 * m}, {2 * m, m, 0, 900 * m, 52 * m}}, 52*m + late},
		// A sample needs no faults.
		{"seen", []look{{2 * m, m, 0, 3 * m, 2 * m}, {60 * m, m, 0, 61 * m, 2 * m}}, 60 * m},
		{"from nothing", []look{{0, m, 0, 700 * m, 30 * m}}, 30*m + late},
		{"the count began anew", []look{{2 * m, m, 0, 3 * m, 90 * m}, {2 * m, m, 0, 700 * m, m}}, 2*m + late},
	} {
		p := peak{until: trusted}
		for i, l := range tt.looks {
			p = p.add(&memorySample{anon: l.used, kernel: l.kernel, file: l.file, peak: &l.all, brought: &l.brought,
				at: time.Duration(i)})
		}
		if p.used != tt.want {
			t.Errorf("%s: peak is %d, want %d", tt.name, p.used, tt.want)
		}
		if again, err := parsePeak(p.String()); err != nil || again != p {
			t.Errorf("%s: %v is read as %v, %v", tt.name, p, again, err)
		}
	}
	all, huge := int64(10), int64(2)
	size := int64(os.Getpagesize())
	if got := broughtBy(&all, &huge); got == nil || *got != 10*size+2*size/8*size {
		t.Errorf("10 faults, 2 of them huge: %v", got)
	}
	if got := broughtBy(nil, nil); got != nil {
		t.Errorf("not told: %d", *got)
	}
}

// TestPeakBesideWrittenFiles: on v2 files that are written and deleted again between two samples
// are no part of the peak, since they take no page faults.
func TestPeakBesideWrittenFiles(t *testing.T) {
	_, tree := needMemory(t)
	j := newJob(t, tree, testJob, Limits{})
	d, _ := j.with("memory")
	if !d.h.v2 {
		kernfstest.Elsewhere(t, "v1 does not tell huge page faults apart")
	}
	file := coldFile(t, 200<<20)
	look := func() (s *memorySample) {
		t.Helper()
		p, _ := d.loadPeak()
		if s = (&reader{dir: d}).sample(); s == nil {
			t.Fatal("no sample")
		}
		s.at = 0 // however late this machine is
		must.NoError(t, d.storePeak(p.add(s)))
		return s
	}
	must.NoError(t, d.storePeak(peak{until: trusted}))
	a := startActor(t, j.Join())
	before := look()
	a.ask(t, "read "+file)
	if err := os.Remove(file); err != nil { // its pages go with it
		t.Fatal(err)
	}
	after := look()
	p, _ := d.loadPeak()
	t.Logf("held %.1f and %.1f MiB, peak %.1f MiB, of all memory %.1f MiB", mib(before.used()), mib(after.used()),
		mib(p.used), mib(p.all))
	if most := max(before.used(), after.used()) + readBuffer + 8<<20 + setAside; p.used > most {
		t.Errorf("peak is %d, want %d at most", p.used, most)
	}
	a.end(t)
	a.gone(t)
}

// TestPeakBesidePageTables: what the kernel needs for mappings that hold nothing is not the job's
// memory, however it comes and goes.
func TestPeakBesidePageTables(t *testing.T) {
	_, tree := needMemory(t)
	j := newJob(t, tree, testJob, Limits{})
	watch(t, j, nil)
	var held int64
	for range 6 {
		a := startActor(t, j.Join())
		u, err := j.Usage()
		must.NoError(t, err)
		held = max(held, *u.Anon+*u.Shmem)
		if answer := a.ask(t, fmt.Sprintf("look %d", int64(50)<<30)); answer != "ok" {
			kernfstest.Skip(t, "map 50 GiB: %s", answer)
		}
		// v2 keeps no peak of kernel memory: a sample has to see it. A kernel that keeps none of
		// all memory tells neither, and nothing is inferred.
		if d, _ := j.with("memory"); d.h.v2 && tree.Has("peak") {
			must.Eventually(t, "the watcher to see the page tables",
				func() bool { p, _ := d.loadPeak(); return p.most >= 90<<20 })
		}
		a.end(t)
		a.gone(t)
	}
	u, err := j.Usage()
	must.NoError(t, err)
	t.Logf("held %.1f MiB, peak %.1f MiB, cgroup peak %.1f MiB", mib(held), mib(*u.MemPeak), mib(*u.CgroupPeak))
	between(t, "peak", u.MemPeak, 0, held+2<<20)
	if tree.Has("peak") {
		between(t, "cgroup peak", u.CgroupPeak, 100<<20, 1<<30) // a page table for every 2 MiB
	}
}

func FuzzParsePeak(f *testing.F) {
	f.Add("1 2 3 4 5 true")
	f.Add("")
	f.Add("-1 2 3 4 5")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parsePeak(text)
		if err != nil {
			if p != (peak{}) {
				t.Errorf("an error and %v", p)
			}
			return
		}
		if again, err := parsePeak(p.String()); err != nil || again != p {
			t.Errorf("%v is read as %v, %v", p, again, err)
		}
	})
}
