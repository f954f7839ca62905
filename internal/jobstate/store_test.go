package jobstate

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/must"
)

func sample(id string) *Record {
	seconds, mem := 12.5, int64(64<<20)
	const boot = "c2d6a1f0-0000-4000-8000-000000000000"
	return &Record{
		Job: &hostapi.Job{
			ID: id, Name: "train", Owner: hostapi.Owner{User: "alice", UID: 1000, GID: 1000},
			ExecVnode:    "(h:ncpus=2:mem=65536kb)",
			ResourceList: hostapi.Resources{"ncpus": "2", "mem": "64mb", "walltime": "00:10:00"},
		},
		Phase:    hostapi.PhaseRunning,
		Begun:    time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
		Launched: Moment{Wall: time.Date(2026, 3, 1, 12, 0, 1, 5, time.UTC), Boot: boot, Mono: 77 * time.Second},
		Hosts: map[string]*hostapi.HostUsage{
			"h": {CPUs: "0-1", Mems: "0", NCPUs: 2, CPUTSeconds: &seconds, MemBytes: &mem},
		},
	}
}

// open returns the store in dir, which reports no failure.
func open(t testing.TB, dir string) *Store {
	t.Helper()
	s, err := Open(dir, func(err error) { t.Error(err) })
	must.NoError(t, err)
	return s
}

func put(t testing.TB, s *Store, recs ...*Record) {
	t.Helper()
	for _, r := range recs {
		must.NoError(t, s.Update(r.Job.ID, func(*Record) (*Record, error) { return r, nil }))
	}
}

func equal(t testing.TB, what string, got, want any) {
	t.Helper()
	must.Equal(t, what, want, got)
}

var errStop = errors.New("stop")

func TestRecordsAreThereAfterARestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "jobs")
	s := open(t, dir)
	equal(t, "empty store", s.List(), []*Record(nil))
	a, b := sample("10.srv"), sample("9[1].srv")
	put(t, s, a, b)
	for _, s := range []*Store{s, open(t, dir)} {
		equal(t, "both", s.List(), []*Record{a, b})
		equal(t, "one", s.Get("9[1].srv"), b)
		equal(t, "of ids", s.GetAll([]string{"9[1].srv", "11.srv", "10.srv"}), []*Record{b, a})
		equal(t, "unknown", s.Get("11.srv"), (*Record)(nil))
	}
	remove := func(*Record) (*Record, error) { return nil, nil }
	for range 2 { // the second time there is nothing to delete
		must.NoError(t, s.Update("10.srv", remove))
		equal(t, "after delete", open(t, dir).List(), []*Record{b})
	}
	for name, perm := range map[string]os.FileMode{dir: os.ModeDir | 0o700, s.path("9[1].srv"): 0o600} {
		st, err := os.Stat(name)
		must.NoError(t, err)
		equal(t, "mode of "+name, st.Mode(), perm)
	}
}

func TestUpdateThatFailsChangesNothing(t *testing.T) {
	s := open(t, t.TempDir())
	put(t, s, sample("1.srv"))
	for _, tt := range []struct {
		name, id string
		fn       func(*Record) (*Record, error)
	}{
		{"fn fails", "1.srv", func(r *Record) (*Record, error) { r.Phase = hostapi.PhaseExiting; return r, errStop }},
		{"bad id", "../1", func(*Record) (*Record, error) { return sample("../1"), nil }},
		{"no id", "", func(*Record) (*Record, error) { return sample(""), nil }},
		{"other job", "1.srv", func(*Record) (*Record, error) { return sample("2.srv"), nil }},
		{"no job", "1.srv", func(*Record) (*Record, error) { return &Record{}, nil }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := s.Update(tt.id, tt.fn); err == nil {
				t.Error("no error")
			}
			equal(t, "records", s.List(), []*Record{sample("1.srv")})
		})
	}
}

func TestChangeChangesTheJobsThatItCan(t *testing.T) {
	s := open(t, t.TempDir())
	put(t, s, sample("1.srv"), sample("2.srv"), sample("3.srv"))
	err := s.Change([]string{"3.srv", "../x", "2.srv", "1.srv", "4.srv"}, func(rec *Record) {
		if rec.Phase = hostapi.PhaseSuspended; rec.Job.ID == "2.srv" {
			rec.Job = nil
		}
	})
	if err == nil || !strings.Contains(err.Error(), "../x") || !strings.Contains(err.Error(), "without a job") {
		t.Errorf("error %v, want those of ../x and of job 2", err)
	}
	first, third := sample("1.srv"), sample("3.srv")
	first.Phase, third.Phase = hostapi.PhaseSuspended, hostapi.PhaseSuspended
	equal(t, "records", s.List(), []*Record{first, sample("2.srv"), third})
}

func TestUnchangedRecordIsNotWritten(t *testing.T) {
	s := open(t, t.TempDir())
	put(t, s, sample("1.srv"))
	must.NoError(t, os.Remove(s.path("1.srv")))
	put(t, s, sample("1.srv"))
	if _, err := os.Stat(s.path("1.srv")); err == nil {
		t.Error("written")
	}
}

func TestDamagedFileCostsItsOwnJobTheRecord(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	put(t, s, sample("1.srv"), sample("2.srv"), sample("3.srv"), sample("4.srv"))
	for id, content := range map[string]string{"1.srv": "", "2.srv": `{"job":{"job_id":"7.srv"}}`, "4.srv": "{}"} {
		must.NoError(t, os.WriteFile(s.path(id), []byte(content), 0o600))
	}
	must.NoError(t, os.Mkdir(s.path("5.srv"), 0o700))
	must.NoError(t, os.WriteFile(s.path("6.srv")+fresh, []byte("half"), 0o600))
	failures := 0
	after, err := Open(dir, func(error) { failures++ })
	must.NoError(t, err)
	equal(t, "failures", failures, 4)
	equal(t, "records", after.List(), []*Record{sample("3.srv")})
	if _, err := os.Stat(s.path("2.srv") + damaged); err != nil {
		t.Error(err)
	}
	equal(t, "after another restart", open(t, dir).List(), []*Record{sample("3.srv")})
}

// A file that cannot be read for now is no damaged one.
func TestFileThatCannotBeReadEndsTheStart(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "1.srv.json")
	must.NoError(t, os.Symlink(file, file)) // as good as a disk or a table of files that fails
	if _, err := Open(dir, func(error) {}); !errors.Is(err, unix.ELOOP) {
		t.Errorf("Open: %v", err)
	}
	if _, err := os.Lstat(file); err != nil {
		t.Error(err)
	}
}

// block keeps a record from being written until clear is called.
func block(t *testing.T, s *Store, id string) (clear func()) {
	t.Helper()
	inTheWay := s.path(id) + fresh
	must.NoError(t, os.MkdirAll(inTheWay+"/x", 0o700))
	return func() { must.NoError(t, os.RemoveAll(inTheWay)) }
}

func TestRecordThatCannotBeWrittenIsInForceAndIsWrittenLater(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "jobs")
	failures := 0
	s, err := Open(dir, func(error) { failures++ })
	must.NoError(t, err)
	put(t, s, sample("1.srv"))
	clear := block(t, s, "2.srv")
	put(t, s, sample("2.srv"))
	put(t, s, sample("3.srv"))
	equal(t, "failures", failures, 1)
	equal(t, "in memory", len(s.List()), 3)
	equal(t, "in files", len(open(t, dir).List()), 2)
	clear()
	put(t, s, sample("4.srv"))
	equal(t, "in files, later", open(t, dir).List(), s.List())
}

// A daemon that dies while its disk is full leaves no record of a phase that is over.
func TestFileOfAnEarlierPhaseDoesNotOutliveAWriteThatFails(t *testing.T) {
	for name, change := range map[string]func(*Record){
		"begins":    func(r *Record) { r.Begun = time.Time{} },
		"suspended": func(r *Record) { r.Phase = hostapi.PhaseSuspended },
	} {
		dir := t.TempDir()
		s, err := Open(dir, func(error) {})
		must.NoError(t, err)
		earlier, later := sample("1.srv"), sample("1.srv")
		change(earlier)
		put(t, s, earlier)
		clear := block(t, s, "1.srv")
		later.Notes = []string{"runs"}
		put(t, s, later)
		if there := open(t, dir).Get("1.srv"); there != nil {
			t.Errorf("%s: in files: %+v", name, there)
		}
		equal(t, name+": in memory", s.List(), []*Record{later})
		clear()
		put(t, s, sample("2.srv"))
		equal(t, name+": in files, later", open(t, dir).Get("1.srv"), later)

		block(t, s, "1.srv")
		latest := sample("1.srv")
		latest.Notes = []string{"as before"}
		put(t, s, latest)
		equal(t, name+": a write of the same phase", open(t, dir).Get("1.srv"), later)
		latest.Phase = hostapi.PhaseExiting
		put(t, s, latest)
		equal(t, name+": a job that ends", open(t, dir).Get("1.srv"), later)
		must.NoError(t, os.RemoveAll(s.path("1.srv")+fresh))
	}
}

func TestHalfWrittenFilesAreRemovedAtTheStart(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	put(t, s, sample("1.srv"))
	half := []string{s.path("1.srv") + fresh, s.path("7.srv") + fresh, s.seriesPath("7.srv") + fresh}
	for _, path := range half {
		must.NoError(t, os.WriteFile(path, []byte("half"), 0o600))
	}
	equal(t, "records", len(open(t, dir).List()), 1)
	for _, path := range half {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestDirectoryThatSomebodyRemovedIsMadeAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "jobs")
	s := open(t, dir)
	must.NoError(t, os.Remove(dir))
	put(t, s, sample("1.srv"))
	equal(t, "in files", open(t, dir).List(), s.List())
}

func TestDirectoryThatOthersCanWriteToIsRefused(t *testing.T) {
	for _, perm := range []uint32{0o777, 0o770, 0o1777} {
		dir := filepath.Join(t.TempDir(), "jobs")
		must.NoError(t, os.Mkdir(dir, 0o700))
		must.NoError(t, unix.Chmod(dir, perm))
		if _, err := Open(dir, func(error) {}); err == nil {
			t.Errorf("mode %04o: no error", perm)
		}
	}
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	must.NoError(t, os.Symlink(dir, link))
	if _, err := Open(link, func(error) {}); err == nil {
		t.Error("symbolic link: no error")
	}
	if os.Geteuid() != 0 {
		return
	}
	must.NoError(t, os.Chown(dir, 65534, 65534))
	if _, err := Open(dir, func(error) {}); err == nil {
		t.Error("directory of another user: no error")
	}
}

func TestJobNumbersDoNotRepeat(t *testing.T) {
	dir := t.TempDir()
	next := func() uint64 {
		t.Helper()
		n, err := NextNumber(dir)
		must.NoError(t, err)
		return n
	}
	equal(t, "first", next(), uint64(1))
	equal(t, "second", next(), uint64(2))
	must.NoError(t, os.WriteFile(filepath.Join(dir, "job-number"), []byte("?"), 0o600))
	if n := next(); n < uint64(time.Now().Unix()) {
		t.Errorf("%d after damage", n)
	}
}

func BenchmarkUpdate(b *testing.B) {
	s := open(b, b.TempDir())
	put(b, s, sample("1.srv"))
	for b.Loop() {
		err := s.Update("1.srv", func(r *Record) (*Record, error) { r.Suspended++; return r, nil })
		must.NoError(b, err)
	}
}

func BenchmarkList500(b *testing.B) {
	s := open(b, b.TempDir())
	for i := range 500 {
		put(b, s, sample(string(rune('1'+i/100))+string(rune('0'+i/10%10))+string(rune('0'+i%10))+".srv"))
	}
	for b.Loop() {
		s.List()
	}
}

// A process that does not hold the lock may count, so nothing is set aside.
func TestCountOfRecordsChangesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "jobs")
	if n, err := Count(dir); n != 0 || err != nil {
		t.Errorf("without a directory: %d, %v", n, err)
	}
	put(t, open(t, dir), sample("1.x"))
	bad := filepath.Join(dir, "2.x.json")
	for _, path := range []string{bad, filepath.Join(dir, "1.x.json.new")} {
		must.NoError(t, os.WriteFile(path, []byte("rubbish"), 0o600))
	}
	if n, err := Count(dir); n != 2 || err != nil {
		t.Errorf("%d, %v, want 2 records", n, err)
	}
	if _, err := os.Lstat(bad); err != nil {
		t.Error(err)
	}
}
