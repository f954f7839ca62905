package reports

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/report"
)

// Last returns the report, with its series, of the newest run of a job whose owner may admits, or
// nil. An id may have been used twice, for jobs of two owners. The newest run has the highest run
// count of those that ended on the last day with one. A clock may have been set back, so the day
// before counts, too. Last fails with a *DamageError if that report is damaged.
func (s *Store) Last(ctx context.Context, job string, may func(uid int) bool) (found *report.Report, err error) {
	days, err := s.days()
	if err != nil {
		return nil, err
	}
	of := func(n Name) bool { return n.Job == inName(job) && may(n.UID) }
	for i, day := range slices.Backward(days) {
		from := i
		if i > 0 && days[i-1] == dayBefore(day) {
			from--
		}
		err := s.exclusively(ctx, func() (err error) {
			found, err = s.lastOf(days[from:i+1], job, of)
			return err
		})
		if err != nil || found != nil {
			return found, err
		}
	}
	return nil, nil
}

// lastOf is Last for one or two days. It returns nil if there is nothing on the last of them.
func (s *Store) lastOf(days []string, job string, of func(Name) bool) (*report.Report, error) {
	var files []file
	for _, day := range slices.Backward(days) {
		some, err := s.files(day, "."+inName(job)+".", of)
		if err != nil {
			return nil, err
		}
		if len(some) == 0 && len(files) == 0 {
			return nil, nil
		}
		files = append(some, files...)
	}
	slices.SortStableFunc(files, func(a, b file) int { return a.runCount() - b.runCount() })
	for _, f := range slices.Backward(files) {
		r, err := readWhole(f)
		switch {
		case errors.Is(err, fs.ErrNotExist): // retention has removed it meanwhile
		case err != nil:
			return nil, &DamageError{Dir: s.dir, Files: []string{f.String()}}
		case r.Job == job: // the ids of two jobs may begin with the same 128 bytes
			return r, nil
		}
	}
	return nil, nil
}

// Query chooses reports.
type Query struct {
	report.Filter
	May   func(uid int) bool // owners to include; gets -1 for an unknown owner
	Skip  func(Name) bool    // excludes reports; may be nil
	Pause func()             // called before a report is read; may be nil
}

// All calls yield with the JSON of each report that a query matches, without its series, until
// yield returns false. Reports that are written meanwhile may or may not be included. Damaged ones
// are left out; a *DamageError names those that All encountered. All ends with ctx, even between
// two reports.
func (s *Store) All(ctx context.Context, q Query, yield func(json.RawMessage) bool) error {
	days, err := s.days()
	if err != nil {
		return err
	}
	choice := choiceOf(q)
	newest := q.Limit > 0
	if newest {
		slices.Reverse(days)
	}
	l := &listing{store: s, choice: choice, left: q.Limit, yield: yield, damage: &DamageError{Dir: s.dir}}
	for _, day := range days {
		if !choice.hasDay(day) {
			continue
		}
		var files []file
		err := s.exclusively(ctx, func() (err error) {
			files, err = s.files(day, choice.inName(), choice.has)
			return err
		})
		if err != nil {
			return err
		}
		if newest {
			slices.Reverse(files)
		}
		if more, err := l.pass(ctx, files); err != nil || !more {
			return errors.Join(err, l.damaged())
		}
	}
	return l.damaged()
}

// listing is a query for many reports, in progress.
type listing struct {
	store  *Store
	choice choice
	left   int // how many more reports may follow, in a query with a limit
	yield  func(json.RawMessage) bool
	damage *DamageError
	reader gzip.Reader
}

// pass yields the reports of some files, and reports whether more may follow.
func (l *listing) pass(ctx context.Context, files []file) (more bool, err error) {
	for _, f := range files {
		if l.choice.Pause != nil {
			l.choice.Pause()
		}
		var text json.RawMessage
		var matches bool
		err := l.store.exclusively(ctx, func() (err error) {
			if text, err = readBare(&l.reader, f); err == nil {
				matches, err = l.choice.matches(f.Name, text)
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				l.damage.Files = append(l.damage.Files, f.String())
			}
			return nil
		})
		if err != nil {
			return false, err
		}
		if !matches {
			continue
		}
		l.left--
		if !l.yield(text) || l.left == 0 {
			return false, nil
		}
	}
	return true, nil
}

func (l *listing) damaged() error {
	if len(l.damage.Files) == 0 {
		return nil
	}
	return l.damage
}

// file is a report's file.
type file struct {
	Name
	path  string // where it was found
	moved string // where Drain moves it if it waits
}

// open opens the file for reading, wherever it is by now.
func (f file) open() (*os.File, error) {
	const flags = os.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK
	r, err := os.OpenFile(f.path, flags, 0)
	if errors.Is(err, fs.ErrNotExist) {
		r, err = os.OpenFile(f.moved, flags, 0)
	}
	return r, err
}

// places returns the directories with reports. Drain moves files from the first to the second, so
// a reader in this order misses none.
func (s *Store) places() []string { return []string{s.waiting, s.dir} }

// days returns the days with reports, in order.
func (s *Store) days() ([]string, error) {
	var days []string
	for _, dir := range s.places() {
		names, err := namesIn(dir)
		if err != nil {
			return nil, err
		}
		days = append(days, names...)
	}
	days = slices.DeleteFunc(days, func(name string) bool { return !isDay(name) })
	slices.Sort(days)
	return slices.Compact(days), nil
}

// dayBefore returns the name of the day before.
func dayBefore(day string) string {
	t, err := time.Parse(dayFormat, day)
	if err != nil {
		return ""
	}
	return t.AddDate(0, 0, -1).Format(dayFormat)
}

func isDay(name string) bool {
	_, err := time.Parse(dayFormat, name)
	return err == nil
}

// files returns the reports of a day that chosen accepts and whose names contain a text, oldest
// first.
func (s *Store) files(day, containing string, chosen func(Name) bool) ([]file, error) {
	var files []file
	for _, dir := range s.places() {
		names, err := namesIn(filepath.Join(dir, day))
		if err != nil {
			return nil, err
		}
		for _, text := range names {
			if !strings.Contains(text, containing) {
				continue
			}
			if n, ok := parseName(text); ok && chosen(n) {
				files = append(files, file{n, filepath.Join(dir, day, text), filepath.Join(s.dir, day, text)})
			}
		}
	}
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(filepath.Base(a.path), filepath.Base(b.path)) })
	// Drain copies a waiting report before it removes the original.
	return slices.CompactFunc(files, func(a, b file) bool { return a.Name == b.Name }), nil
}

// namesIn returns the names in a directory, or none if it is missing. Another process may remove
// the directory once it is open.
func namesIn(dir string) (names []string, err error) {
	d, err := os.Open(dir)
	if err == nil {
		defer d.Close()
		names, err = d.Readdirnames(-1)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return names, err
}
