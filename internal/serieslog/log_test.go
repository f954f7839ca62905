package serieslog

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/report"
	"github.com/hookhost/hookhost/internal/series"
)

// opened is a Log with what it has called failed with.
type opened struct {
	*Log
	t   *testing.T
	mu  sync.Mutex
	all []string
}

func open(t *testing.T, dir string, b Bounds) *opened {
	t.Helper()
	o := &opened{t: t}
	o.Log = Open(dir, func() Bounds { return b }, func(err error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.all = append(o.all, err.Error())
	})
	return o
}

func (o *opened) wait() {
	o.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	must.NoError(o.t, o.Close(ctx))
}

func (o *opened) failures(n int) {
	o.t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.all) != n {
		o.t.Errorf("%d failures were told, want %d: %q", len(o.all), n, o.all)
	}
}

var (
	plenty = Bounds{Age: time.Hour, Size: 1 << 30}
	begun  = time.Date(2026, 3, 1, 12, 0, 0, 123e6, time.UTC)
)

// finished is a job of host n1 that started some time after begun, and its report.
func finished(t *testing.T, job string, after time.Duration, points int) (*report.Report, series.Job, json.RawMessage) {
	t.Helper()
	start := begun.Add(after)
	s := &hostapi.Series{Columns: map[string]hostapi.Column{}}
	for i := range points {
		s.Times = append(s.Times, start.Unix()+int64(i))
		s.Columns[hostapi.ColumnCPU] = append(s.Columns[hostapi.ColumnCPU], float64(i%7))
	}
	r := &report.Report{Job: job, Start: &start, Hosts: map[string]*hostapi.HostUsage{"n1": {NCPUs: 2}}}
	text, err := json.Marshal(r)
	must.NoError(t, err)
	return r, series.Job{"n1": {Host: s}}, text
}

// want checks the series that a report is joined with; nil for none.
func want(t *testing.T, text json.RawMessage, s series.Job) {
	t.Helper()
	r, err := report.FromArchive(text)
	must.NoError(t, err)
	if diff := cmp.Diff(s["n1"].Host, r.Hosts["n1"].Series, cmpopts.EquateNaNs()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestReportIsJoinedWithTheSeriesOfItsOwnRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "series")
	l := open(t, dir, plenty)
	first, s, text := finished(t, "12.srv", 0, 100)
	l.Add(first, s)
	want(t, l.Join(text), s) // written or not
	l.wait()
	want(t, l.Join(text), s)
	joined, err := Join(dir, text)
	must.NoError(t, err)
	want(t, joined, s)

	second, _, again := finished(t, "12.srv", time.Second, 0)
	want(t, l.Join(again), nil)
	_, s, _ = finished(t, "12.srv", time.Second, 50)
	l.Add(second, s)
	want(t, l.Join(again), s)
	l.wait()
	want(t, l.Join(again), s)
	want(t, l.Join(text), nil)
	l.failures(0)
	for name, mode := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, "12.srv.json.gz"): 0o600} {
		info, err := os.Stat(name)
		must.NoError(t, err)
		if info.Mode().Perm() != mode {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
	}
}

func TestSeriesStayWithinAgeAndSize(t *testing.T) {
	dir := t.TempDir()
	const most = 64 * block
	l := open(t, dir, Bounds{Age: time.Hour, Size: most})
	names := func() (list []string) {
		files, err := os.ReadDir(dir)
		must.NoError(t, err)
		for _, f := range files {
			list = append(list, f.Name())
		}
		return list
	}
	for i := range 300 {
		r, s, _ := finished(t, fmt.Sprintf("%d.srv", i), 0, 10)
		l.Add(r, s)
		l.wait()
		// The clock of files is coarser than this loop.
		at := time.Now().Add(time.Duration(i-300) * time.Second)
		must.NoError(t, os.Chtimes(pathOf(dir, r.Job), at, at))
		if n := len(names()); n*block > most {
			t.Fatalf("%d files of %d bytes", n, block)
		}
	}
	if n := len(names()); n < 48 {
		t.Errorf("only %d files are left", n)
	}
	for i := range 10 { // the newest
		if _, err := os.Stat(pathOf(dir, fmt.Sprintf("%d.srv", 299-i))); err != nil {
			t.Error(err)
		}
	}
	old := time.Now().Add(-2 * time.Hour)
	for _, name := range names() {
		must.NoError(t, os.Chtimes(filepath.Join(dir, name), old, old))
	}
	half := filepath.Join(dir, ".hookhost-1.tmp") // of a daemon that was killed
	must.NoError(t, os.WriteFile(half, nil, 0o600))
	must.NoError(t, os.Chtimes(half, old, old))
	other := filepath.Join(dir, "README")
	must.NoError(t, os.WriteFile(other, nil, 0o600))
	must.NoError(t, os.Chtimes(other, old, old))
	next := open(t, dir, plenty) // the first write of a process looks
	r, s, _ := finished(t, "1000.srv", 0, 10)
	next.Add(r, s)
	next.wait()
	if diff := cmp.Diff([]string{"1000.srv.json.gz", "README"}, names()); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	none := open(t, dir, Bounds{Age: time.Hour})
	none.Add(r, s)
	none.wait()
	if diff := cmp.Diff([]string{"README"}, names()); diff != "" {
		t.Errorf("files where none are to be (-want +got):\n%s", diff)
	}
	l.failures(0)
	next.failures(0)
	none.failures(0)
}

// A full disk costs the series of the jobs that end meanwhile. The first of them is told of.
func TestFullDiskCostsTheSeriesAlone(t *testing.T) {
	kernfstest.NeedRoot(t)
	dir := t.TempDir()
	must.NoError(t, unix.Mount("hookhost-test", dir, "tmpfs", 0, "size=32k"))
	defer func() { must.NoError(t, unix.Unmount(dir, 0)) }()
	l := open(t, dir, plenty)
	fill := filepath.Join(dir, "fill")
	if err := os.WriteFile(fill, make([]byte, 64<<10), 0o600); err == nil {
		t.Fatal("the disk takes more than it has")
	}
	for i := range 5 {
		r, s, text := finished(t, fmt.Sprintf("%d.srv", i), 0, 300)
		l.Add(r, s)
		l.wait()
		want(t, l.Join(text), nil)
	}
	l.failures(1)
	files, err := os.ReadDir(dir)
	must.NoError(t, err)
	if len(files) != 1 {
		t.Errorf("left: %v", files)
	}
	must.NoError(t, os.Remove(fill))
	r, s, text := finished(t, "7.srv", 0, 300)
	l.Add(r, s)
	l.wait()
	want(t, l.Join(text), s)
	l.failures(1)
}

func TestDamagedSeriesCostsOnlyItself(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, plenty)
	r, s, text := finished(t, "12.srv", 0, 100)
	l.Add(r, s)
	l.wait()
	whole, err := os.ReadFile(pathOf(dir, "12.srv"))
	must.NoError(t, err)
	for i, cut := range []int{0, 5, len(whole) / 2, len(whole) - 1} {
		must.NoError(t, os.WriteFile(pathOf(dir, "12.srv"), whole[:cut], 0o600))
		for range 3 {
			want(t, l.Join(text), nil)
		}
		if len(l.all) > i+1 {
			t.Errorf("cut at %d: told each time: %q", cut, l.all)
		}
		if joined, err := Join(dir, text); err == nil || string(joined) != string(text) {
			t.Errorf("cut at %d: %v", cut, err)
		}
	}
}

func TestSeveralDamagedSeriesAreToldOnceEach(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, plenty)
	for _, id := range []string{"12.srv", "13.srv"} {
		must.NoError(t, os.WriteFile(pathOf(dir, id), []byte("no gzip"), 0o600))
	}
	for range 3 {
		for _, id := range []string{"12.srv", "13.srv"} {
			_, _, text := finished(t, id, 0, 1)
			want(t, l.Join(text), nil)
		}
	}
	l.failures(2)
}

// A disk that hangs does not have the daemon fill its memory.
func TestJobsBeyondThoseThatWaitLoseTheirSeries(t *testing.T) {
	l := open(t, t.TempDir(), plenty)
	held := make(chan struct{})
	l.bounds = func() Bounds { <-held; return plenty }
	r, s, _ := finished(t, "12.srv", 0, 10)
	for range mostWait + 10 {
		l.Add(r, s)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if err := l.Close(ctx); err == nil {
		t.Error("it has written while the disk hung")
	}
	close(held)
	l.wait()
	l.failures(1)
}

func BenchmarkAdd(b *testing.B) {
	l := Open(b.TempDir(), func() Bounds { return plenty }, func(err error) { b.Error(err) })
	s := &hostapi.Series{Columns: map[string]hostapi.Column{}}
	for i := range series.MostPoints {
		s.Times = append(s.Times, begun.Unix()+30*int64(i))
		for j, name := range []string{"cpu", "rss_bytes", "cache_bytes", "pids", "read_bytes_per_second",
			"write_bytes_per_second", "cpu_pressure", "memory_pressure", "io_pressure"} {
			s.Columns[name] = append(s.Columns[name], float64((i*i*(j+3))%1009)/7)
		}
	}
	r := &report.Report{Job: "12.srv", Start: &begun}
	for b.Loop() {
		l.Add(r, series.Job{"n1": {Host: s}})
		must.NoError(b, l.Close(context.Background()))
	}
	info, err := os.Stat(pathOf(l.dir, "12.srv"))
	must.NoError(b, err)
	b.ReportMetric(float64(info.Size()), "bytes")
}
