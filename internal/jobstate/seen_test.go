package jobstate

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// locked runs fn while another process, as far as flock(2) knows, has the lock of s.
func locked(t *testing.T, s *Store, fn func(ctx context.Context)) {
	t.Helper()
	f, err := openLock(s.path + ".lock")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	fn(ctx)
}

// What is known of the file needs no lock; what is not, does.
func TestGetOfWhatWasSeen(t *testing.T) {
	s := store(t, t.TempDir())
	put(t, s, sample("1.srv"))
	put(t, s, sample("2.srv"))
	if _, err := s.Get(context.Background(), "1.srv"); err != nil {
		t.Fatal(err)
	}
	locked(t, s, func(ctx context.Context) {
		for _, id := range []string{"1.srv", "2.srv"} {
			rec, err := s.Get(ctx, id)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "record", rec, sample(id))
			rec.Notes = append(rec.Notes, "the caller's") // which nobody else sees
		}
		if _, err := s.Get(ctx, "3.srv"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a job that was never looked for: %v", err)
		}
	})
	remove(t, s, "1.srv")
	if rec, err := s.Get(context.Background(), "1.srv"); rec != nil || err != nil {
		t.Errorf("a record that was deleted: %v %v", rec, err)
	}
}

func remove(t *testing.T, s *Store, id string) {
	t.Helper()
	if err := s.Update(context.Background(), id, func(*Record) (*Record, error) { return nil, nil }); err != nil {
		t.Fatal(err)
	}
}

// Two stores of one file write in turn, many times within one tick of the kernel's clock, texts of one length: each sees at once what
// the other has written.
func TestSeenByTwo(t *testing.T) {
	dir := t.TempDir()
	a, b := store(t, dir), store(t, dir)
	put(t, a, sample("1.srv"))
	for i := range 500 {
		a, b = b, a
		want := strconv.Itoa(100 + i%2)
		err := a.Update(context.Background(), "1.srv", func(r *Record) (*Record, error) { r.Notes = []string{want}; return r, nil })
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []*Store{a, b} {
			if rec, err := s.Get(context.Background(), "1.srv"); err != nil || rec.Notes[0] != want {
				t.Fatalf("round %d: %v %v, want %s", i, rec, err, want)
			}
		}
	}
}

// Who asks while a transaction writes gets what it has written: a timer that it has set may be the one that asks.
func TestSeenWaitsForTheWriter(t *testing.T) {
	s := store(t, t.TempDir())
	put(t, s, sample("1.srv"))
	ctx := context.Background()
	if _, err := s.Get(ctx, "1.srv"); err != nil {
		t.Fatal(err)
	}
	read := make(chan *Record, 1)
	err := s.Update(ctx, "1.srv", func(r *Record) (*Record, error) {
		go func() {
			rec, err := s.Get(ctx, "1.srv")
			if err != nil {
				t.Error(err)
			}
			read <- rec
		}()
		time.Sleep(20 * time.Millisecond) // time to read too early
		r.Notes = []string{"new"}
		return r, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if rec := <-read; rec == nil || len(rec.Notes) != 1 || rec.Notes[0] != "new" {
		t.Errorf("read while it was written: %+v", rec)
	}
}

// A transaction of which nothing came leaves nothing behind.
func TestSeenAfterFailure(t *testing.T) {
	s := store(t, t.TempDir())
	put(t, s, sample("1.srv"))
	broken := errors.New("no")
	err := s.UpdateAll(context.Background(), []string{"1.srv", "2.srv"}, func(id string, r *Record) (*Record, error) {
		if r != nil {
			r.Notes = []string{"never"}
		}
		return r, broken
	})
	if !errors.Is(err, broken) {
		t.Fatal(err)
	}
	rec, err := s.Get(context.Background(), "1.srv")
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "record", rec, sample("1.srv"))
}

// Whatever somebody else does to the file is seen: it is taken away, and an older one is put in its place.
func TestSeenIsOfOneFile(t *testing.T) {
	var told []error
	s, err := Open(t.TempDir(), OnDamage(func(_ string, err error) { told = append(told, err) }))
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, sample("1.srv"))
	old := readFile(t, s.path)
	put(t, s, sample("2.srv"))
	for _, id := range []string{"1.srv", "2.srv"} {
		if rec, err := s.Get(context.Background(), id); rec == nil || err != nil {
			t.Fatal(rec, err)
		}
	}
	if err := os.Rename(s.path, s.path+".away"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if rec, err := s.Get(context.Background(), "1.srv"); rec != nil || err != nil {
			t.Errorf("without a file: %v %v", rec, err)
		}
	}
	if len(told) != 1 || !errors.Is(told[0], fs.ErrNotExist) {
		t.Errorf("told of a file that was removed: %v", told)
	}
	writeFile(t, s.path, old)
	if rec, err := s.Get(context.Background(), "2.srv"); rec != nil || err != nil {
		t.Errorf("a job that the old file has not: %v %v", rec, err)
	}
	if rec, err := s.Get(context.Background(), "1.srv"); rec == nil || err != nil {
		t.Errorf("a job that it has: %v %v", rec, err)
	}
}

// Where times are whole seconds, or cannot be set, the file is read each time.
func TestSeenNeedsTimes(t *testing.T) {
	s := store(t, t.TempDir())
	put(t, s, sample("1.srv"))
	whole := unix.NsecToTimespec(time.Now().Truncate(time.Second).UnixNano())
	if err := unix.UtimesNanoAt(unix.AT_FDCWD, s.path, []unix.Timespec{whole, whole}, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(context.Background(), "1.srv"); err != nil {
		t.Fatal(err)
	}
	locked(t, s, func(ctx context.Context) {
		if _, err := s.Get(ctx, "1.srv"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("read without the lock: %v", err)
		}
	})
}
