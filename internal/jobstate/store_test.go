package jobstate

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

func TestUpdate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	s := store(t, dir)
	ctx := t.Context()

	equal(t, "empty store", list(t, s), []*Record(nil))
	if _, err := os.Stat(s.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("reading made %s: %v", s.path, err)
	}
	a, b := sample("10.srv"), sample("9[1].srv")
	put(t, s, a, b)
	equal(t, "both", list(t, store(t, dir)), []*Record{a, b})

	got, err := s.Get(ctx, "9[1].srv")
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "one", got, b)
	if got, err := s.Get(ctx, "11.srv"); got != nil || err != nil {
		t.Errorf("get of an unknown job: %v, %v", got, err)
	}

	err = s.Update(ctx, "10.srv", func(r *Record) (*Record, error) { r.Phase = PhaseExiting; return r, errStop })
	if !errors.Is(err, errStop) {
		t.Errorf("update whose function failed: %v", err)
	}
	equal(t, "after a failed update", list(t, s), []*Record{a, b})

	remove := func(*Record) (*Record, error) { return nil, nil }
	for range 2 { // the second time there is nothing to delete
		if err := s.Update(ctx, "10.srv", remove); err != nil {
			t.Fatal(err)
		}
		equal(t, "after delete", list(t, s), []*Record{b})
	}

	for name, perm := range map[string]os.FileMode{dir: os.ModeDir | 0o700, s.path: 0o600, s.path + ".lock": 0o600} {
		st, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "mode of "+name, st.Mode(), perm)
	}
}

func TestUpdateUnchangedWritesNothing(t *testing.T) {
	s := store(t, t.TempDir())
	put(t, s, sample("1.srv"))
	before := readFile(t, s.path)
	put(t, s, sample("1.srv"))
	if string(readFile(t, s.path)) != string(before) {
		t.Error("an unchanged record was written")
	}
}

func TestUpdateRejects(t *testing.T) {
	s := store(t, t.TempDir())
	for _, tt := range []struct {
		name, id string
		rec      *Record
	}{
		{"bad id", "../1", sample("../1")},
		{"no id", "", sample("")},
		{"other job", "1.srv", sample("2.srv")},
		{"no job", "1.srv", &Record{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := s.Update(t.Context(), tt.id, func(*Record) (*Record, error) { return tt.rec, nil }); err == nil {
				t.Error("no error")
			}
			equal(t, "records", list(t, s), []*Record(nil))
		})
	}
}

func TestPanicOfCallerIsNoDamage(t *testing.T) {
	s := store(t, t.TempDir())
	put(t, s, sample("1.srv"))
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		s.Update(t.Context(), "1.srv", func(*Record) (*Record, error) { panic("mine") })
	}()
	equal(t, "records", list(t, s), []*Record{sample("1.srv")})
}

func TestOpenRefusesSharedDirectory(t *testing.T) {
	for _, perm := range []os.FileMode{0o777, 0o770, 0o1777} {
		dir := filepath.Join(t.TempDir(), "state")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := unix.Chmod(dir, uint32(perm)); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir); err == nil {
			t.Errorf("mode %04o: no error", perm)
		}
	}
}

func TestNewerVersion(t *testing.T) {
	newerSchema := func(t *testing.T, path string) {
		db, err := bbolt.Open(path, 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		err = db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(metaBucket).Put(versionKey, []byte("2")) })
		if err != nil {
			t.Fatal(err)
		}
	}
	newerFormat := func(t *testing.T, path string) {
		b := readFile(t, path)
		for _, at := range []int{0, 4096} {
			native.PutUint32(b[at+pageHeader+4:], 3)
			sumMeta(b[at:])
		}
		writeFile(t, path, b)
	}
	for name, change := range map[string]func(*testing.T, string){"schema": newerSchema, "file format": newerFormat} {
		t.Run(name, func(t *testing.T) {
			s := store(t, t.TempDir())
			put(t, s, sample("1.srv"))
			change(t, s.path)
			before := readFile(t, s.path)
			_, listErr := s.List(t.Context())
			updateErr := s.Update(t.Context(), "1.srv", func(*Record) (*Record, error) { return nil, nil })
			for _, err := range []error{listErr, updateErr} {
				var v *VersionError
				if !errors.As(err, &v) || v.What != name || !strings.Contains(err.Error(), s.path) {
					t.Errorf("error %v, want a VersionError of the %s naming %s", err, name, s.path)
				}
			}
			if string(readFile(t, s.path)) != string(before) || len(asides(t, filepath.Dir(s.path))) > 0 {
				t.Error("the file was touched")
			}
		})
	}
}

func TestNextSequence(t *testing.T) {
	dir := t.TempDir()
	for want := uint64(1); want < 5; want++ {
		n, err := store(t, dir).NextSequence(t.Context())
		if err != nil || n != want {
			t.Errorf("got %d, %v, want %d", n, err, want)
		}
	}
}

// TestProcesses has several processes change the same record: no change may get lost, no job number come twice.
func TestProcesses(t *testing.T) {
	dir := t.TempDir()
	var waits []func() []string
	for range counters {
		cmd, lines := startChild(t, "counter", dir)
		waits = append(waits, func() (told []string) {
			for lines.Scan() {
				told = append(told, lines.Text())
			}
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
			return told
		})
	}
	var drawn []int
	for _, wait := range waits {
		for _, n := range wait() {
			i, err := strconv.Atoi(n)
			if err != nil {
				t.Fatal(err)
			}
			drawn = append(drawn, i)
		}
	}
	slices.Sort(drawn)
	if got, want := len(slices.Compact(drawn)), counters*counts/10; got != want {
		t.Errorf("%d different job numbers, want %d", got, want)
	}
	rec, err := store(t, dir).Get(t.Context(), "1.srv")
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "count", *rec.ExitStatus, counters*counts)
}

func TestLockIsBounded(t *testing.T) {
	s := store(t, t.TempDir())
	put(t, s, sample("1.srv"))
	hold, err := os.Open(s.path + ".lock")
	if err != nil {
		t.Fatal(err)
	}
	defer hold.Close()
	if err := flock(int(hold.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}

	short, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	s.timeout = 20 * time.Millisecond
	for _, tt := range []struct {
		name string
		ctx  context.Context
		want error
	}{
		{"deadline", short, context.DeadlineExceeded},
		{"cancelled", gone, context.Canceled},
		{"own bound", t.Context(), context.DeadlineExceeded},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := s.List(tt.ctx)
			if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), s.path+".lock") {
				t.Errorf("error %v, want %v naming the lock", err, tt.want)
			}
		})
	}

	hold.Close()
	s.timeout = lockTimeout
	equal(t, "after the holder left", list(t, s), []*Record{sample("1.srv")})
}

func TestOtherProgramHoldsTheFile(t *testing.T) {
	s := store(t, t.TempDir())
	put(t, s, sample("1.srv"))
	db, err := bbolt.Open(s.path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.timeout = 20 * time.Millisecond
	if _, err := s.List(t.Context()); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), s.path+":") {
		t.Errorf("error %v", err)
	}
	s.timeout = lockTimeout
	go db.Close()
	equal(t, "afterwards", list(t, s), []*Record{sample("1.srv")})
}

// BenchmarkUpdate tells what one event of a job pays for its record.
func BenchmarkUpdate(b *testing.B) {
	for _, jobs := range []int{1, 100, 1000} {
		s := store(b, b.TempDir())
		for i := range jobs {
			put(b, s, sample(strconv.Itoa(i)+".srv"))
		}
		ctx, n := context.Background(), 0
		run := func(name string, op func() error) {
			b.Run(name+"/jobs="+strconv.Itoa(jobs), func(b *testing.B) {
				for b.Loop() {
					if err := op(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		run("changed", func() error {
			return s.Update(ctx, "0.srv", func(r *Record) (*Record, error) { n++; r.ExitStatus = &n; return r, nil })
		})
		run("unchanged", func() error {
			return s.Update(ctx, "0.srv", func(r *Record) (*Record, error) { return r, nil })
		})
		run("get", func() error { _, err := s.Get(ctx, "0.srv"); return err })
		run("get-first", func() error { s.vetted, s.seen.of = stamp{}, stamp{}; _, err := s.Get(ctx, "0.srv"); return err })
	}
}
