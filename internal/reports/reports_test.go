package reports

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/report"
	"github.com/hookhost/hookhost/internal/series"
)

const alice, bob = 1000, 1001

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func opened(t testing.TB, bounds Bounds) *Store {
	t.Helper()
	dir := t.TempDir()
	s := Open(filepath.Join(dir, "reports"), filepath.Join(dir, "waiting"), func() Bounds { return bounds },
		func(err error) { t.Error(err) })
	t.Cleanup(s.Close)
	return s
}

// roomy are bounds that no test of another kind meets.
var roomy = Bounds{Age: 100 * 366 * 24 * time.Hour, Size: 1 << 40}

// ended is the report of a job that ran for a minute.
func ended(job string, uid int, end time.Time, status int) *report.Report {
	start := end.Add(-time.Minute)
	return &report.Report{Job: job, Owner: "u", Start: &start, End: &end, ExitStatus: &status,
		Hosts:  map[string]*hostapi.HostUsage{"n1": {}},
		PBSJob: &hostapi.Job{ID: job, RunCount: 1, Owner: hostapi.Owner{UID: uid}}}
}

func (s *Store) put(t testing.TB, reports ...*report.Report) {
	t.Helper()
	for _, r := range reports {
		must.NoError(t, s.Write(r, nil))
	}
}

func everybody(int) bool { return true }

// listed are the jobs of a query in order.
func (s *Store) listed(t testing.TB, q Query) (jobs []string, err error) {
	t.Helper()
	if q.May == nil {
		q.May = everybody
	}
	err = s.All(t.Context(), q, func(text json.RawMessage) bool {
		r, err := report.FromArchive(text)
		must.NoError(t, err)
		jobs = append(jobs, r.Job)
		return true
	})
	return jobs, err
}

// paths are the files below a directory.
func paths(t testing.TB, dir string) []string {
	t.Helper()
	all, _, err := below(dir)
	must.NoError(t, err)
	return all
}

// A report is read back with its series, and listed without it. Its mode lets root alone read it.
func TestWrittenReportIsReadBack(t *testing.T) {
	s := opened(t, roomy)
	points := series.Job{"n1": {Host: &hostapi.Series{Times: []int64{1, 2},
		Columns: map[string]hostapi.Column{"cpu": {0, 1.5}}}}}
	r := ended("12[3].srv-1.example.org", alice, noon, 0)
	must.NoError(t, s.Write(r, points))
	s.put(t, ended("13.srv", alice, noon, 0))

	back, err := s.Last(t.Context(), r.Job, everybody)
	must.NoError(t, err)
	want, err := json.Marshal(points["n1"].Host)
	must.NoError(t, err)
	got, err := json.Marshal(back.Hosts["n1"].Series)
	must.NoError(t, err)
	must.Equal(t, "the series", string(want), string(got))
	must.NoError(t, s.All(t.Context(), Query{May: everybody}, func(text json.RawMessage) bool {
		if !json.Valid(text) || strings.Contains(string(text), "series") {
			t.Errorf("listed: %s", text)
		}
		return true
	}))
	must.NoError(t, filepath.WalkDir(s.dir, func(path string, entry fs.DirEntry, err error) error {
		must.NoError(t, err)
		info, err := entry.Info()
		must.NoError(t, err)
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return nil
	}))
	written, failures := s.Counts()
	must.Equal(t, "written", 2, int(written))
	must.Equal(t, "failures", 0, int(failures))
}

// A link in place of a report is damage: it is not followed.
func TestLinkIsNotFollowed(t *testing.T) {
	s := opened(t, roomy)
	s.put(t, ended("1.srv", alice, noon, 0))
	path := paths(t, s.dir)[0]
	must.NoError(t, os.Rename(path, s.dir+"/elsewhere"))
	must.NoError(t, os.Symlink(s.dir+"/elsewhere", path))
	var damage *DamageError
	if r, err := s.Last(t.Context(), "1.srv", everybody); !errors.As(err, &damage) {
		t.Errorf("a link: %v, %v", r, err)
	}
}

func TestRunOfAJobIsWrittenOnce(t *testing.T) {
	s := opened(t, roomy)
	first := ended("1.srv", alice, noon, 0)
	other := ended("1.srv", alice, noon, 9) // ended once more, as its daemon was killed
	later := ended("1.srv", alice, noon.Add(time.Hour), 0)
	s.put(t, first, first, other, later)
	jobs, err := s.listed(t, Query{})
	must.NoError(t, err)
	must.Equal(t, "reports", 2, len(jobs))
	r, err := s.Last(t.Context(), "1.srv", everybody)
	must.NoError(t, err)
	must.Equal(t, "the newest", later.End.String(), r.End.String())
}

func TestReportsThatCannotBeAreRefused(t *testing.T) {
	s := opened(t, roomy)
	lives := ended("1.srv", alice, noon, 0)
	lives.End = nil
	for _, r := range []*report.Report{lives, ended("../1", alice, noon, 0), ended("", alice, noon, 0)} {
		if err := s.Write(r, nil); err == nil {
			t.Errorf("job %q was written", r.Job)
		}
	}
	must.Equal(t, "files", 0, len(paths(t, s.dir)))
}

// The ids of two jobs may have the part in common that is in the name.
func TestLongIDsAreToldApart(t *testing.T) {
	s := opened(t, roomy)
	long := "1." + strings.Repeat("x", maxJob)
	s.put(t, ended(long+"a", alice, noon, 0), ended(long+"b", alice, noon.Add(time.Second), 0))
	r, err := s.Last(t.Context(), long+"a", everybody)
	must.NoError(t, err)
	must.Equal(t, "the job", long+"a", r.Job)
	r, err = s.Last(t.Context(), long+"c", everybody)
	must.NoError(t, err)
	if r != nil {
		t.Errorf("found %s", r.Job)
	}
}

func TestQueriesChooseByName(t *testing.T) {
	s := opened(t, roomy)
	day := 24 * time.Hour
	s.put(t, ended("1.x", alice, noon, 0), ended("2.x", bob, noon.Add(day), 1),
		ended("3.x", alice, noon.Add(day+time.Millisecond), 256+9), ended("4.x", bob, noon.Add(2*day), 0))
	oom := ended("5.x", alice, noon.Add(3*day), 0)
	oom.Name = "batch"
	oom.Hosts["n2"] = &hostapi.HostUsage{OOMKills: new(int64(1))}
	s.put(t, oom)
	since := func(d time.Duration) time.Time { return noon.Add(d) }
	for _, tt := range []struct {
		name string
		q    Query
		want string
	}{
		{"all", Query{}, "1.x 2.x 3.x 4.x 5.x"},
		{"newest", Query{Filter: report.Filter{Limit: 2}}, "5.x 4.x"},
		{"newest of a user", Query{Filter: report.Filter{Limit: 2, User: "1000"}}, "5.x 3.x"},
		{"user", Query{Filter: report.Filter{User: "1001"}}, "2.x 4.x"},
		{"unknown user", Query{Filter: report.Filter{User: "u"}}, "1.x 2.x 3.x 4.x 5.x"},
		{"since", Query{Filter: report.Filter{Since: since(day)}}, "2.x 3.x 4.x 5.x"},
		{"since a moment later", Query{Filter: report.Filter{Since: since(day + 1)}}, "3.x 4.x 5.x"},
		{"until", Query{Filter: report.Filter{Until: since(2 * day)}}, "1.x 2.x 3.x"},
		{"ok", Query{Filter: report.Filter{States: []string{"ok"}}}, "1.x 4.x 5.x"},
		{"failed", Query{Filter: report.Filter{States: []string{"failed"}}}, "2.x 3.x"},
		{"killed or oom", Query{Filter: report.Filter{States: []string{"killed", "oom"}}}, "3.x 5.x"},
		{"finished", Query{Filter: report.Filter{States: []string{"finished"}}}, "1.x 2.x 3.x 4.x 5.x"},
		{"host", Query{Filter: report.Filter{Host: "n2"}}, "5.x"},
		{"a number", Query{Filter: report.Filter{Job: "3"}}, "3.x"},
		{"a job", Query{Filter: report.Filter{Job: "3.x"}}, "3.x"},
		{"a job of a user", Query{Filter: report.Filter{Job: "3", User: "1001"}}, ""},
		{"no number", Query{Filter: report.Filter{Job: "x"}}, ""},
		{"a name", Query{Filter: report.Filter{Name: "BATCH", Limit: 1}}, "5.x"},
		{"own", Query{May: func(uid int) bool { return uid == bob }}, "2.x 4.x"},
		{"skipped", Query{Skip: func(n Name) bool { return n.IsOf(oom) }}, "1.x 2.x 3.x 4.x"},
	} {
		jobs, err := s.listed(t, tt.q)
		must.NoError(t, err)
		must.Equal(t, tt.name, tt.want, strings.Join(jobs, " "))
	}
}

// An id may have been given twice. Each owner sees the own job.
func TestReportsOfAnOwner(t *testing.T) {
	s := opened(t, roomy)
	s.put(t, ended("1.srv", alice, noon, 0), ended("1.srv", bob, noon.Add(time.Hour), 1))
	for uid, status := range map[int]int{alice: 0, bob: 1} {
		r, err := s.Last(t.Context(), "1.srv", func(of int) bool { return of == uid })
		must.NoError(t, err)
		must.Equal(t, "exit status", status, *r.ExitStatus)
	}
	if r, err := s.Last(t.Context(), "1.srv", func(int) bool { return false }); r != nil || err != nil {
		t.Errorf("a stranger gets %v, %v", r, err)
	}
}

// A file that is damaged, wherever that is, costs its report and no other.
func TestDamagedFileCostsItsReport(t *testing.T) {
	s := opened(t, roomy)
	s.put(t, ended("1.srv", alice, noon, 0), ended("2.srv", bob, noon.Add(time.Second), 0),
		ended("3.srv", alice, noon.Add(2*time.Second), 0))
	path := paths(t, s.dir)[1]
	whole, err := os.ReadFile(path)
	must.NoError(t, err)
	right, err := s.Last(t.Context(), "2.srv", everybody)
	must.NoError(t, err)
	harms := map[string][]byte{"empty": {}, "cut off": whole[:len(whole)/2], "text": []byte("what?")}
	for at := range whole {
		b := append([]byte(nil), whole...)
		b[at] ^= 0x41
		harms[fmt.Sprintf("byte %d", at)] = b
	}
	damages := 0
	for what, content := range harms {
		must.NoError(t, os.WriteFile(path, content, 0o600))
		var damage *DamageError
		r, err := s.Last(t.Context(), "2.srv", everybody)
		if errors.As(err, &damage) {
			damages++
		} else if !cmp.Equal(right, r) { // gzip's header has bytes that tell nothing
			t.Errorf("%q: %v, %v", what, r, err)
		}
		jobs, err := s.listed(t, Query{})
		if err != nil {
			must.Equal(t, what, "1.srv 3.srv", strings.Join(jobs, " "))
			if !strings.Contains(err.Error(), "1 damaged file: "+filepath.Base(path)) {
				t.Errorf("%q: %v", what, err)
			}
		} else if len(jobs) != 3 { // damage behind the report itself
			t.Errorf("%q: %v", what, jobs)
		}
		if _, err := s.listed(t, Query{May: func(uid int) bool { return uid == alice }}); err != nil {
			t.Errorf("%q: another's: %v", what, err)
		}
	}
	if damages < len(harms)-20 {
		t.Errorf("%d of %d were seen", damages, len(harms))
	}
}

func TestOtherFilesAreNoReports(t *testing.T) {
	s := opened(t, roomy)
	s.put(t, ended("1.srv", alice, noon, 0))
	for _, name := range []string{"notes", "2026-03-01/.hookhost-1.tmp", "2026-03-01/x.json.gz",
		"2026-03-01/20260301T120000.000Z.uid01.ok.2.srv.1-1.json.gz"} {
		must.NoError(t, os.WriteFile(filepath.Join(s.dir, name), nil, 0o600))
	}
	jobs, err := s.listed(t, Query{})
	must.NoError(t, err)
	must.Equal(t, "jobs", "1.srv", strings.Join(jobs, " "))
}

func FuzzParseName(f *testing.F) {
	f.Add("20260301T120000.000Z.uid1000.failed-oom.12[3].srv.example.org.1-1772366340000.json.gz")
	f.Add("20260301T120000.000Z.uid-1.ok.12.0-0.json.gz")
	f.Fuzz(func(t *testing.T, text string) {
		if n, ok := parseName(text); ok {
			must.Equal(t, "the name", text, n.String())
		}
	})
}

// FuzzFile: whatever a file holds, reading ends.
func FuzzFile(f *testing.F) {
	s := opened(f, roomy)
	s.put(f, ended("1.srv", alice, noon, 0))
	path := paths(f, s.dir)[0]
	whole, err := os.ReadFile(path)
	must.NoError(f, err)
	f.Add(whole)
	f.Fuzz(func(t *testing.T, content []byte) {
		path := filepath.Join(t.TempDir(), "x")
		must.NoError(t, os.WriteFile(path, content, 0o600))
		if r, err := readWhole(file{path: path, moved: path}); (r == nil) == (err == nil) {
			t.Errorf("%v, %v", r, err)
		}
	})
}

// A caller who does not read a list holds up nobody.
func TestSlowReaderOfAList(t *testing.T) {
	s := opened(t, roomy)
	s.put(t, ended("1.srv", alice, noon, 0), ended("2.srv", alice, noon, 0))
	must.NoError(t, s.All(t.Context(), Query{May: everybody}, func(json.RawMessage) bool {
		r, err := s.Last(t.Context(), "2.srv", everybody)
		must.NoError(t, err)
		s.put(t, ended("3.srv", alice, noon.Add(-time.Hour), 0))
		return r != nil
	}))
}

func TestQuestionEndsWithItsCaller(t *testing.T) {
	s := opened(t, roomy)
	s.put(t, ended("1.srv", alice, noon, 0), ended("2.srv", alice, noon, 0))
	s.reading <- struct{}{} // somebody reads
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := s.Last(ctx, "1.srv", everybody); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a job: %v", err)
	}
	if err := s.All(ctx, Query{May: everybody}, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a list: %v", err)
	}
	<-s.reading
	ctx, cancel = context.WithCancel(t.Context())
	err := s.All(ctx, Query{May: everybody}, func(json.RawMessage) bool { cancel(); return true })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a list whose caller goes away: %v", err)
	}
}

func TestReportsStayWithinAgeAndSize(t *testing.T) {
	day := 24 * time.Hour
	write := func(s *Store) {
		for i := range 10 {
			s.put(t, ended(string(rune('0'+i))+".srv", alice, noon.Add(time.Duration(i)*day), 0))
		}
		must.NoError(t, os.WriteFile(s.dir+"/2026-03-10/notes", nil, 0o600))
	}
	for _, tt := range []struct {
		name   string
		bounds Bounds
		want   string
		days   int
	}{
		{"age", Bounds{3 * day, 1 << 30}, "6.srv 7.srv 8.srv 9.srv", 4},
		{"size", Bounds{1000 * day, 4 * block * freePart / (freePart - 1)}, "6.srv 7.srv 8.srv 9.srv", 4},
		{"no room", Bounds{1000 * day, 1}, "", 1},
	} {
		s := opened(t, roomy)
		write(s)
		s.Close()
		for range 10 {
			must.NoError(t, s.sweep(tt.bounds, noon.Add(9*day)))
		}
		jobs, err := s.listed(t, Query{})
		must.NoError(t, err)
		must.Equal(t, tt.name, tt.want, strings.Join(jobs, " "))
		days, err := s.days()
		must.NoError(t, err)
		must.Equal(t, tt.name+": days", tt.days, len(days))
	}
}

// A clock that is years ahead for a moment costs a day's reports, and not all.
func TestClockThatIsAheadRemovesOneDay(t *testing.T) {
	day := 24 * time.Hour
	s := opened(t, roomy)
	for i := range 3 {
		s.put(t, ended(string(rune('0'+i))+".srv", alice, noon.Add(time.Duration(i)*day), 0))
	}
	must.NoError(t, os.Mkdir(s.dir+"/2026-01-01", 0o700)) // without reports
	must.NoError(t, os.WriteFile(s.dir+"/2026-01-01/notes", nil, 0o600))
	must.NoError(t, s.sweep(Bounds{Age: 365 * day, Size: 1 << 30}, noon.Add(4000*day)))
	must.NoError(t, s.sweep(Bounds{Age: 365 * day, Size: 1 << 30}, noon.Add(3*day)))
	jobs, err := s.listed(t, Query{})
	must.NoError(t, err)
	must.Equal(t, "jobs", "1.srv 2.srv", strings.Join(jobs, " "))
}

// The days after a report that cannot be removed are removed in spite of it.
func TestReportThatStaysDoesNotStopRetention(t *testing.T) {
	day := 24 * time.Hour
	s := opened(t, roomy)
	for i := range 3 {
		s.put(t, ended(string(rune('0'+i))+".srv", alice, noon.Add(time.Duration(i)*day), 0))
	}
	stays := paths(t, s.dir)[0]
	must.NoError(t, os.Remove(stays))
	must.NoError(t, os.MkdirAll(stays+"/full", 0o700)) // even root cannot remove it as a file
	for range 3 {
		if err := s.sweep(Bounds{Age: day, Size: 1 << 30}, noon.Add(10*day)); !errors.Is(err, unix.ENOTEMPTY) {
			t.Errorf("the sweep says %v", err)
		}
	}
	days, err := s.days()
	must.NoError(t, err)
	must.Equal(t, "days", []string{filepath.Base(filepath.Dir(stays))}, days)
}

// Whoever has the most reports loses the oldest of them. The others keep theirs.
func TestReportsOfOneOwnerDoNotPushOutOthers(t *testing.T) {
	s := opened(t, roomy)
	bob, carol := alice+1, alice+2
	at := noon
	put := func(uid, count int) {
		for range count {
			at = at.Add(time.Hour)
			s.put(t, ended("1.srv", uid, at, 0))
		}
	}
	put(bob, 3)
	put(carol, 20)
	put(alice, 40)
	must.NoError(t, s.sweep(Bounds{Age: roomy.Age, Size: 33 * block * freePart / (freePart - 1)}, at))
	left := map[int]int{}
	for _, path := range paths(t, s.dir) {
		n, _ := parseName(filepath.Base(path))
		left[n.UID]++
	}
	must.Equal(t, "reports by owner", map[int]int{bob: 3, carol: 15, alice: 15}, left)
	if r, err := s.Last(t.Context(), "1.srv", func(uid int) bool { return uid == carol }); err != nil || r == nil {
		t.Errorf("carol's newest: %v, %v", r, err)
	}
}

// The newest run of a job has the highest run count, whatever the clock did in between.
func TestNewestRunAfterTheClockWasSetBack(t *testing.T) {
	s := opened(t, roomy)
	s.put(t, ended("2.srv", alice, noon.Add(-36*time.Hour), 0)) // a day with reports before it, without the job's
	for run, end := range []time.Time{noon, noon.Add(2 * time.Hour), noon.Add(time.Hour), noon.Add(-12*time.Hour - 1)} {
		r := ended("1.srv", alice, end, run)
		r.PBSJob.RunCount = 9 + run
		s.put(t, r)
		r, err := s.Last(t.Context(), "1.srv", everybody)
		must.NoError(t, err)
		must.Equal(t, "run count", 9+run, r.PBSJob.RunCount)
	}
}

// A server that was set up anew counts from 0 again.
func TestNewestRunIsNotThatOfAnOldJobWithTheSameID(t *testing.T) {
	s := opened(t, roomy)
	for run, end := range map[int]time.Time{2: noon.Add(-48 * time.Hour), 1: noon} {
		r := ended("1.srv", alice, end, run)
		r.PBSJob.RunCount = run
		s.put(t, r)
	}
	r, err := s.Last(t.Context(), "1.srv", everybody)
	must.NoError(t, err)
	must.Equal(t, "run count", 1, r.PBSJob.RunCount)
}

// The first report of a process has old ones removed, and so has a part of the size that was
// written since.
func TestWritesRemoveOldReports(t *testing.T) {
	s := opened(t, Bounds{Age: 365 * 24 * time.Hour, Size: 64 * block})
	now := time.Now()
	s.put(t, ended("1.srv", alice, now.Add(-400*24*time.Hour), 0))
	s.Close()
	jobs, err := s.listed(t, Query{})
	must.NoError(t, err)
	must.Equal(t, "after the first", 0, len(jobs))
	for i := range 200 {
		s.put(t, ended(string(rune('0'+i%10))+".srv", alice, now.Add(time.Duration(i)*time.Second), 0))
		s.Close()
		if size := int64(len(paths(t, s.dir)) * block); size > 64*block {
			t.Fatalf("%d bytes after %d reports", size, i)
		}
	}
	jobs, err = s.listed(t, Query{})
	must.NoError(t, err)
	if len(jobs) < 50 {
		t.Errorf("%d reports are left", len(jobs))
	}
}

func BenchmarkWrite(b *testing.B) {
	times, points := make([]int64, series.MostPoints), make(hostapi.Column, series.MostPoints)
	for i := range times {
		times[i], points[i] = int64(i)*30, float64(i)*1.2345
	}
	columns := map[string]hostapi.Column{}
	for _, name := range []string{"cpu", "rss_bytes", "tasks", "a", "b", "c", "d", "e", "f"} {
		columns[name] = points
	}
	for name, of := range map[string]series.Job{"bare": nil,
		"series": {"n1": {Host: &hostapi.Series{Times: times, Columns: columns}}}} {
		b.Run(name, func(b *testing.B) {
			s, i := opened(b, roomy), 0
			for b.Loop() {
				i++
				must.NoError(b, s.Write(ended("1.srv", alice, noon.Add(time.Duration(i)*time.Millisecond), 0), of))
			}
		})
	}
}

func TestNamesSayWhatTheReportSays(t *testing.T) {
	r := ended("12[3].srv", alice, noon.In(time.FixedZone("", 3600)), 0)
	r.Hosts["n1"].OOMKills = new(int64(2))
	n, err := nameOf(r)
	must.NoError(t, err)
	const want = "20260301T120000.000Z.uid1000.ok-oom.12[3].srv.1-1772366340000.json.gz"
	must.Equal(t, "the name", want, n.String())
	back, ok := parseName(want)
	must.Equal(t, "parsed", true, ok)
	must.Equal(t, "", "", cmp.Diff(n, back))
	must.Equal(t, "day", "2026-03-01", n.day())
}

// Old reports go even where no job ends and no report can be written.
func TestDrainRemovesOldReports(t *testing.T) {
	s := opened(t, roomy)
	s.put(t, ended("1.srv", alice, noon, 0))
	next := Open(s.dir, s.waiting, func() Bounds { return Bounds{Age: time.Hour, Size: 1 << 40} }, s.failed)
	_, err := next.Drain()
	must.NoError(t, err)
	next.Close()
	jobs, err := next.listed(t, Query{})
	must.NoError(t, err)
	must.Equal(t, "jobs", 0, len(jobs))
}

// While reports are listed, another process may remove the last one of a day, and the day.
func TestDayIsRemovedWhileItIsRead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "2026-03-01")
	done := make(chan error)
	go func() {
		var err error
		for range 2000 {
			err = errors.Join(err, os.Mkdir(dir, 0o755), os.Remove(dir))
		}
		done <- err
	}()
	for {
		select {
		case err := <-done:
			must.NoError(t, err)
			return
		default:
			_, err := namesIn(dir)
			must.NoError(t, err)
		}
	}
}

// A list that was made before Drain moved a waiting report still reads that report.
func TestReportIsReadWhereDrainHasMovedIt(t *testing.T) {
	s := opened(t, roomy)
	r := ended("1.srv", alice, noon, 0)
	name, err := nameOf(r)
	must.NoError(t, err)
	content, err := s.encode(r, nil)
	must.NoError(t, err)
	must.NoError(t, place(s.waiting, name, content))
	files, err := s.files(name.day(), "", func(Name) bool { return true })
	must.NoError(t, err)
	moved, err := s.Drain()
	must.NoError(t, err)
	must.Equal(t, "moved", 1, moved)
	got, err := readWhole(files[0])
	must.NoError(t, err)
	must.Equal(t, "job", "1.srv", got.Job)
}
