package jobstate

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"
)

const testPage = 4096

// sumMeta makes the meta page valid again after a change.
func sumMeta(page []byte) {
	m := page[pageHeader:]
	h := fnv.New64a()
	h.Write(m[:metaSize-8])
	native.PutUint64(m[metaSize-8:], h.Sum64())
}

// TestKill kills a writing process again and again. After each time the record is one version, whole, and not older
// than the last one that the writer knew to be stored.
func TestKill(t *testing.T) {
	rounds := 200
	if testing.Short() {
		rounds = 20
	}
	dir := t.TempDir()
	s := store(t, dir)
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range rounds {
		if i%4 == 0 { // the making of the file is to be hit too
			os.RemoveAll(dir)
			s = store(t, dir)
		}
		cmd, lines := startChild(t, "writer", dir)
		told := make(chan string, 1)
		go func() {
			last := ""
			for lines.Scan() {
				last = lines.Text()
			}
			told <- last
		}()
		time.Sleep(time.Duration(rnd.IntN(40_000)) * time.Microsecond) // the point is that nobody knows where it is
		cmd.Process.Kill()
		last := <-told
		cmd.Wait()

		rec, err := s.Get(t.Context(), "1.srv")
		if err != nil {
			t.Fatal(err)
		}
		if rec == nil {
			if last != "" {
				t.Fatalf("round %d: no record after version %s was stored", i, last)
			}
			continue
		}
		n := *rec.ExitStatus
		if d := cmp.Diff(version(n), rec); d != "" {
			t.Fatalf("round %d: not version %d (-want +got):\n%s", i, n, d)
		}
		if prev := fmt.Sprint((n+198)%200 + 1); last != "" && last != fmt.Sprint(n) && last != prev {
			t.Fatalf("round %d: version %d is stored, the writer told %s", i, n, last)
		}
	}
}

// TestPowerLoss rebuilds what a disk can hold when the power fails within a commit: bbolt writes pages, syncs, writes one
// meta page, syncs. Before the first sync any sectors of the pages may be there, after it any of the meta page.
func TestPowerLoss(t *testing.T) {
	s := store(t, t.TempDir())
	for i := range 20 {
		put(t, s, sample(fmt.Sprintf("%d.srv", i)))
	}
	rnd := rand.New(rand.NewPCG(3, 4))
	for round := range 12 {
		oldState, before := list(t, s), readFile(t, s.path)
		id := fmt.Sprintf("%d.srv", rnd.IntN(40))
		err := s.Update(t.Context(), id, func(r *Record) (*Record, error) {
			if r != nil && round%3 == 0 {
				return nil, nil
			}
			r = sample(id)
			r.Notes = []string{fmt.Sprint(round), strings.Repeat("x", rnd.IntN(20000))}
			return r, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		newState, after := list(t, s), readFile(t, s.path)

		for range 40 {
			disk := append(bytes.Clone(before), make([]byte, len(after)-len(before))...)
			mixSectors(rnd, disk[2*testPage:], after[2*testPage:])
			mustHold(t, disk, oldState)
		}
		for range 10 {
			disk := append(bytes.Clone(before[:2*testPage]), after[2*testPage:]...)
			for i := range 2 * testPage { // a meta page is one sector, but who says that a sector is whole
				if rnd.IntN(2) == 0 {
					disk[i] = after[i]
				}
			}
			mustHold(t, disk, oldState, newState)
		}
	}
}

func mixSectors(rnd *rand.Rand, disk, after []byte) {
	for i := 0; i < len(after); i += 512 {
		if rnd.IntN(2) == 0 {
			copy(disk[i:i+512], after[i:])
		}
	}
}

// mustHold opens a store on a file with that content and wants one of the states, without any damage found.
func mustHold(t *testing.T, disk []byte, states ...[]*Record) {
	t.Helper()
	s := store(t, t.TempDir())
	writeFile(t, s.path, disk)
	got := list(t, s)
	if !slices.ContainsFunc(states, func(want []*Record) bool { return cmp.Equal(got, want) }) {
		t.Fatalf("neither the state before nor the one after: %d records", len(got))
	}
	put(t, s, sample("99.srv"))
}

// TestDamage does to a file what disks do and asks only for this: no panic, nothing invented, everything kept.
func TestDamage(t *testing.T) {
	s := store(t, t.TempDir())
	var whole []*Record
	for i := range 30 {
		r := sample(fmt.Sprintf("%d.srv", i+10))
		r.Notes = []string{strings.Repeat("x", i*400)}
		put(t, s, r)
		whole = append(whole, r)
	}
	good := readFile(t, s.path)
	rnd := rand.New(rand.NewPCG(5, 6))
	random := func(b []byte) {
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
	}
	for at := 0; at < len(good); at += testPage {
		for name, harm := range map[string]func([]byte) []byte{
			"cut":         func(b []byte) []byte { return b[:at] },
			"cut inside":  func(b []byte) []byte { return b[:at+rnd.IntN(testPage)] },
			"zero":        func(b []byte) []byte { clear(b[at : at+testPage]); return b },
			"zero beyond": func(b []byte) []byte { clear(b[at:]); return b },
			"random":      func(b []byte) []byte { random(b[at : at+testPage]); return b },
			"sector":      func(b []byte) []byte { random(b[at+512*rnd.IntN(8):][:512]); return b },
			"header":      func(b []byte) []byte { random(b[at : at+32]); return b },
			"byte":        func(b []byte) []byte { b[at+rnd.IntN(testPage)] ^= byte(1 + rnd.IntN(255)); return b },
		} {
			t.Run(fmt.Sprintf("%s page %d", name, at/testPage), func(t *testing.T) {
				bad := harm(bytes.Clone(good))
				if at < 2*testPage && bytes.HasSuffix(bad, good[2*testPage:]) {
					// A lost meta page looks like a commit that the power cut short.
					mustHold(t, bad, whole, whole[:len(whole)-1])
					return
				}
				survives(t, bad, whole)
			})
		}
	}
}

// survives opens a store on a damaged file. Its records have to be some of whole, each of the others told as
// damaged, and a file that was set aside has to be complete.
func survives(t *testing.T, disk []byte, whole []*Record) {
	t.Helper()
	var told []string
	s, err := Open(t.TempDir(), OnDamage(func(path string, err error) { told = append(told, path) }))
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, s.path, disk)
	got := list(t, s)
	left := got
	for _, want := range whole {
		if len(left) > 0 && cmp.Equal(left[0], want) {
			left = left[1:]
		}
	}
	if len(left) > 0 {
		t.Errorf("record that nobody stored: %+v", left[0])
	}
	aside := asides(t, filepath.Dir(s.path))
	switch {
	case len(aside) == 0 && len(got)+len(told) != len(whole):
		t.Errorf("%d records and %d damaged ones, %d were stored", len(got), len(told), len(whole))
	case len(aside) == 1:
		equal(t, "told", told, aside)
		if !bytes.Equal(readFile(t, aside[0]), disk) {
			t.Error("the file set aside is not the damaged one")
		}
	case len(aside) > 1:
		t.Errorf("set aside more than once: %v", aside)
	}
	put(t, s, sample("99.srv"))
	if n := len(list(t, s)); n != len(got)+1 {
		t.Errorf("%d records after one more was stored, want %d", n, len(got)+1)
	}
}

// TestDamageWhileInUse harms the file behind the back of a store that has vetted it, so that bbolt itself meets the damage.
func TestDamageWhileInUse(t *testing.T) {
	for name, harm := range map[string]func([]byte) []byte{
		"empty":            func(b []byte) []byte { return nil },
		"cut to two pages": func(b []byte) []byte { return b[:2*testPage] },
		"cut to 5 pages":   func(b []byte) []byte { return b[:5*testPage] },
		"no meta pages":    func(b []byte) []byte { clear(b[:2*testPage]); return b },
		"no pages":         func(b []byte) []byte { clear(b[2*testPage:]); return b },
	} {
		t.Run(name, func(t *testing.T) {
			var told []error
			s, err := Open(t.TempDir(), OnDamage(func(_ string, err error) { told = append(told, err) }))
			if err != nil {
				t.Fatal(err)
			}
			for i := range 30 {
				put(t, s, sample(fmt.Sprintf("%d.srv", i)))
			}
			writeFile(t, s.path, harm(readFile(t, s.path)))
			f, err := os.Open(s.path)
			if err != nil {
				t.Fatal(err)
			}
			s.vetted = stampOf(f)
			f.Close()

			put(t, s, sample("99.srv"))
			equal(t, "records", list(t, s), []*Record{sample("99.srv")})
			if len(told) != 1 {
				t.Errorf("damage told: %v", told)
			}
		})
	}
}

func TestDamagedRecord(t *testing.T) {
	otherJob, err := encode("2.srv", sample("2.srv"))
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Replace(otherJob, []byte("train"), []byte("trais"), 1)
	for name, value := range map[string][]byte{
		"empty": {}, "text": []byte("banana"), "json": []byte(`{"sum":"00000000","record":{}}`), "other job": otherJob, "flipped bit": flipped,
	} {
		t.Run(name, func(t *testing.T) {
			var told []string
			s, err := Open(t.TempDir(), OnDamage(func(path string, err error) { told = append(told, path+" "+err.Error()) }))
			if err != nil {
				t.Fatal(err)
			}
			put(t, s, sample("1.srv"), sample("3.srv"))
			tamper := func(id string) {
				boltUpdate(t, s.path, func(tx *bbolt.Tx) error { return tx.Bucket(jobsBucket).Put([]byte(id), value) })
			}
			if name != "other job" {
				tamper("2.srv")
				equal(t, "list", list(t, s), []*Record{sample("1.srv"), sample("3.srv")})
			}
			tamper("4.srv")
			if got, err := s.Get(t.Context(), "4.srv"); got != nil || err != nil {
				t.Errorf("get: %v, %v", got, err)
			}
			tamper("5.srv")
			err = s.Update(t.Context(), "5.srv", func(r *Record) (*Record, error) {
				if r != nil {
					t.Errorf("update got %+v", r)
				}
				return sample("5.srv"), nil
			})
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "list", list(t, s), []*Record{sample("1.srv"), sample("3.srv"), sample("5.srv")})

			kept := 0
			boltUpdate(t, s.path, func(tx *bbolt.Tx) error {
				return tx.Bucket(damagedBucket).ForEach(func(_, v []byte) error {
					if bytes.Equal(v, value) {
						kept++
					}
					return nil
				})
			})
			want := 3
			if name == "other job" {
				want = 2
			}
			if kept != want || len(told) != want {
				t.Errorf("kept %d, told %q, want %d", kept, told, want)
			}
		})
	}
}

func boltUpdate(t *testing.T, path string, fn func(*bbolt.Tx) error) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Update(fn); err != nil {
		t.Fatal(err)
	}
}

func TestForeignFile(t *testing.T) {
	dir := t.TempDir()
	db, err := bbolt.Open(filepath.Join(dir, fileName), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	db.Close()
	b := readFile(t, filepath.Join(dir, fileName))
	survives(t, b, nil)
	survives(t, []byte("[jobs]\n"), nil)
}

// TestDamageMetAtOnce has many stores meet the damage at the same time; one of them sets the file aside.
func TestDamageMetAtOnce(t *testing.T) {
	dir := t.TempDir()
	put(t, store(t, dir), sample("1.srv"))
	writeFile(t, filepath.Join(dir, fileName), make([]byte, 8*testPage))
	var told sync.Map
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			s, err := Open(dir, OnDamage(func(path string, _ error) { told.Store(path, true) }))
			if err == nil {
				id := fmt.Sprintf("%d.srv", 10+i)
				err = s.Update(t.Context(), id, func(*Record) (*Record, error) { return sample(id), nil })
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := len(asides(t, dir)); n != 1 {
		t.Errorf("%d files set aside", n)
	}
	if n := len(list(t, store(t, dir))); n != 16 {
		t.Errorf("%d records, want 16", n)
	}
}

func TestJobNumbersAfterDamage(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	first, err := s.NextSequence(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, s.path, []byte("oops"))
	next, err := s.NextSequence(t.Context())
	if err != nil || next <= first+1000 {
		t.Errorf("job number %d after %d, %v", next, first, err)
	}
	if err := os.Remove(s.path); err != nil { // as a crash in the middle of setting aside leaves it
		t.Fatal(err)
	}
	if next, err = s.NextSequence(t.Context()); err != nil || next <= first+1000 {
		t.Errorf("job number %d after %d, %v", next, first, err)
	}
}

// FuzzCheck patches a good file. Whatever check lets through bbolt must be able to read and write.
func FuzzCheck(f *testing.F) {
	s := store(f, f.TempDir())
	for i := range 12 {
		put(f, s, sample(fmt.Sprintf("%d.srv", i)))
	}
	good := readFile(f, s.path)
	for page := range 8 {
		for _, at := range []int{0, 8, 10, 12, 16, 20, 24, 28, 32, 40, 48, 56} {
			f.Add([]byte{byte(page), byte(at), 0, 1, byte(page), byte(at + 1), 0, 255})
		}
	}
	f.Fuzz(func(t *testing.T, patch []byte) {
		b := bytes.Clone(good)
		for ; len(patch) >= 4; patch = patch[4:] { // page, offset (little endian), value
			at := int(patch[0])*testPage + int(patch[1]) + int(patch[2]&15)<<8
			b[at%len(b)] = patch[3]
		}
		sumMeta(b)
		sumMeta(b[testPage:])
		if check(b) != nil {
			return
		}
		path := filepath.Join(t.TempDir(), fileName)
		writeFile(t, path, b)
		d, err := openDatabase(t.Context(), path, true, func(*os.File) error { return nil })
		if err != nil {
			if d := isPanic(err); d != nil {
				t.Fatal(d)
			}
			return
		}
		defer d.close()
		err = errors.Join(
			d.records(func(string, []byte) {}),
			d.store("5.srv", make([]byte, 9000)),
			d.store("1.srv", nil),
			d.commit())
		if isPanic(err) != nil {
			t.Fatal(err)
		}
	})
}

func isPanic(err error) error {
	if err != nil && strings.Contains(err.Error(), "panic: ") {
		return err
	}
	return nil
}

func FuzzDecode(f *testing.F) {
	b, err := encode("1.srv", sample("1.srv"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"sum":"00000000","record":{}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		rec, err := decode("1.srv", b)
		if err != nil {
			if rec != nil {
				t.Error("a record beside an error")
			}
			return
		}
		again, err := encode("1.srv", rec)
		if err != nil {
			t.Fatal(err)
		}
		rec2, err := decode("1.srv", again)
		if err != nil || !cmp.Equal(rec, rec2) {
			t.Errorf("not stable: %v", err)
		}
	})
}
