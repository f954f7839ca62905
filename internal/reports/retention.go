package reports

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/disk"
)

// A sweep checks each file, of which there may be 100,000. So it runs with the first report of a
// process, then after an hour, or when a part of Bounds.Size was written. Each sweep leaves that
// part free, so that the files stay within Bounds.Size.
const (
	sweepAgain = time.Hour
	freePart   = 16
)

// block is the disk space that a small file takes.
const block = 4 << 10

// onDisk returns the disk space that a file of this size takes.
func onDisk(size int64) int64 { return (size + block - 1) / block * block }

// sweepIfDue removes excess reports in the background, if it is time to check. size is the amount
// just written.
func (s *Store) sweepIfDue(size int64) {
	s.sweepLock.Lock()
	defer s.sweepLock.Unlock()
	s.since += onDisk(size)
	b := s.bounds()
	if !s.swept.IsZero() && time.Since(s.swept) < sweepAgain && s.since <= b.Size/freePart {
		return
	}
	s.swept, s.since = time.Now(), 0
	s.sweeps.Go(func() {
		if err := s.sweep(b, time.Now()); err != nil {
			s.failed(fmt.Errorf("remove old reports: %w", err))
		}
	})
}

// sweep removes reports that are older than the bounds allow, and then as many as must go for there
// to be enough room. It also removes the rest of an interrupted write. It continues after failures.
//
// By age it removes reports of one day only, the oldest. So a clock that is years ahead for an hour
// costs a day, and not all. To make room it removes the oldest reports of the owners with the most.
// So one owner's short jobs do not push out the others'.
func (s *Store) sweep(b Bounds, now time.Time) error {
	names, err := namesIn(s.dir)
	errs := []error{err}
	days := slices.DeleteFunc(names, func(name string) bool { return !isDay(name) })
	slices.Sort(days)
	for _, day := range days {
		some, err := s.prune(day, func(n Name, _ int64) bool { return now.Sub(n.End) > b.Age })
		errs = append(errs, err)
		if some {
			break
		}
	}
	slices.Reverse(days)
	has := map[int]int64{}
	for _, day := range days {
		_, err := s.prune(day, func(n Name, size int64) bool { has[n.UID] += size; return false })
		errs = append(errs, err)
	}
	most := share(has, b.Size-b.Size/freePart)
	clear(has)
	for _, day := range days {
		_, err := s.prune(day, func(n Name, size int64) bool { has[n.UID] += size; return has[n.UID] > most })
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// share returns how much of size each owner may have who has more than that. has is what they have
// now. The others have less, so there is more for these.
func share(has map[int]int64, size int64) int64 {
	owners := int64(len(has))
	for _, n := range slices.Sorted(maps.Values(has)) {
		if n > size/owners {
			return size / owners
		}
		size, owners = size-n, owners-1
	}
	return math.MaxInt64
}

// prune removes the reports of a day that are in excess, newest first, and then the directory if it
// is empty. some is true if there were reports.
func (s *Store) prune(day string, excess func(n Name, size int64) bool) (some bool, err error) {
	dir := filepath.Join(s.dir, day)
	errs := []error{disk.RemoveUnfinished(dir, time.Minute)}
	files, err := s.files(day, "", func(Name) bool { return true })
	errs = append(errs, err)
	kept, removed := false, false
	for _, f := range slices.Backward(files) {
		path := filepath.Join(dir, f.String())
		info, err := os.Lstat(path)
		if err != nil { // it waits to be written
			continue
		}
		if !excess(f.Name, onDisk(info.Size())) {
			kept = true
			continue
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) { // another sweep may run
			errs = append(errs, err)
			continue
		}
		removed = true
	}
	if removed && !kept { // an empty directory is about to get a file
		if err := os.Remove(dir); !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return kept || removed, errors.Join(errs...)
}
