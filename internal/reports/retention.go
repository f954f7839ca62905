package reports

import (
	"errors"
	"fmt"
	"io/fs"
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

// sweep removes reports that are older than the bounds allow, and then the oldest ones until there
// is enough room. It also removes the rest of an interrupted write. It continues after failures.
func (s *Store) sweep(b Bounds, now time.Time) error {
	days, err := namesIn(s.dir)
	errs := []error{err}
	slices.Sort(days)
	total := int64(0) // of the files, from the newest on
	for _, day := range slices.Backward(days) {
		if _, err := time.Parse(dayFormat, day); err != nil {
			continue
		}
		dir := filepath.Join(s.dir, day)
		errs = append(errs, disk.RemoveUnfinished(dir, time.Minute))
		files, err := s.files(day, "", func(Name) bool { return true })
		errs = append(errs, err)
		kept, removed := false, false
		for _, f := range slices.Backward(files) {
			path := filepath.Join(dir, f.String())
			info, err := os.Lstat(path)
			if err != nil { // it waits to be written
				continue
			}
			total += onDisk(info.Size())
			if now.Sub(f.End) <= b.Age && total <= b.Size-b.Size/freePart {
				kept = true
				continue
			}
			if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) { // another sweep may run
				errs = append(errs, err)
			}
			removed = true
		}
		if removed && !kept { // an empty directory is about to get a file
			if err := os.Remove(dir); !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}
