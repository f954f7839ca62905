package cgroup

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
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

// TestPeakBesideFiles: the peak is what the job holds, without the files that it reads at the same
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
			want := *own.Anon + touched + readBuffer
			d, _ := j.with("memory")
			must.Eventually(t, "the watcher to see it", func() bool {
				p, _, err := d.loadPeak()
				return err == nil && p.used >= want*97/100
			})
			reader.end(t)
			toucher.end(t)
			reader.gone(t)
			toucher.gone(t)
			u, err := j.Usage()
			must.NoError(t, err)
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

// A mark that cannot be read may have a greater peak than the one that is to be stored.
func TestPeakIsNotLoweredIfItsMarkCannotBeRead(t *testing.T) {
	k := kernfstest.NewV2()
	j := newJob(t, fakeTree(t, k), testJob, Limits{})
	must.NoError(t, j.NoteMemPeak(30<<20))
	heal := k.FailNth("getxattr", "", unix.EIO, 0)
	err := j.NoteMemPeak(20 << 20)
	heal()
	wantError(t, err, unix.EIO)
	u, err := j.Usage()
	must.NoError(t, err)
	must.Equal(t, "peak", int64(30<<20), *u.MemPeak)
}

// TestWatchAgain: a peak is kept when its watcher ends.
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
	must.Eventually(t, "the peak", func() bool { p, _, _ := d.loadPeak(); return p.used >= want })
	stop()
	a.end(t)
	a.gone(t)
	watch(t, j, nil)
	if u, err = j.Usage(); err != nil {
		t.Fatal(err)
	}
	between(t, "peak", u.MemPeak, want, want+want/20)
}

// TestRemoveWatched: the events that a watcher registered delay neither the removal nor the
// watcher's return. It takes the best of five tries, because other programs may use the cpus.
func TestRemoveWatched(t *testing.T) {
	_, tree := needMemory(t)
	for range 5 {
		took := removeWatched(t, newJob(t, tree, testJob, Limits{}))
		t.Logf("removed in %v", took)
		if took <= 200*time.Millisecond {
			return
		}
	}
	t.Error("each removal took more than 200 ms")
}

// removeWatched returns how long the removal of a job takes that has a watcher.
func removeWatched(t *testing.T, j *Job) (took time.Duration) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- j.Watch(context.Background(), func(int64) {}, nil) }()
	a := startActor(t, j.Join())
	a.touch(t, 30<<20)
	time.Sleep(2 * registerAfter)
	a.end(t)
	a.gone(t)
	start := time.Now()
	must.NoError(t, j.Remove(soon(t)))
	took = time.Since(start)
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * SamplePause):
		t.Error("the watcher does not notice that the cgroup is gone")
	}
	return took
}

// A watch samples often when it begins and when memory runs out. After that, onMemory decides how
// often.
func TestWatchPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tree := fakeTree(t, kernfstest.NewV2())
		j := newJob(t, tree, testJob, Limits{})
		pause := SamplePause
		var looks []time.Time
		start := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- j.Watch(ctx, func(int64) {}, func(int64) time.Duration {
				looks = append(looks, time.Now())
				return pause
			})
		}()
		during := func(d time.Duration, least, most int) {
			t.Helper()
			synctest.Wait()
			before := len(looks)
			time.Sleep(d)
			synctest.Wait()
			if n := len(looks) - before; n < least || n > most {
				t.Errorf("%d samples in %v, want %d to %d", n, d, least, most)
			}
		}
		during(200*time.Millisecond, 4, 5)
		during(time.Minute, 59, 82)
		pause = 100 * time.Millisecond
		during(2*SamplePause, 10, 28)
		during(10*time.Second, 99, 135)
		if first := looks[0].Sub(start); first > 0 {
			t.Errorf("the first sample is %v late", first)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// BenchmarkWatchGrowing measures what it costs to watch a job that grows for a while, as cpu time
// of this process.
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

func FuzzParsePeak(f *testing.F) {
	f.Add("1 2")
	f.Add("")
	f.Add("1")
	f.Add("1 2 3")
	f.Add("-1 2")
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
