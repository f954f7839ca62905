package serieslog

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hookhost/hookhost/internal/disk"
)

// A sweep lists the directory, which may have 100,000 files. So it comes with the first write of a
// process, then after an hour, or when a part of Bounds.Size was written. Each sweep leaves as much
// free, so that the files stay within Bounds.Size.
const (
	sweepAgain = time.Hour
	freePart   = 16
)

// block is the part of a disk that a small file takes.
const block = 4 << 10

// onDisk is what a file of so many bytes takes.
func onDisk(size int64) int64 { return (size + block - 1) / block * block }

// sweepIfDue removes what is too much, if it is time to look for that. The writer alone calls it.
func (l *Log) sweepIfDue() error {
	b := l.bounds()
	if !l.swept.IsZero() && time.Since(l.swept) < sweepAgain && l.written <= b.Size/freePart {
		return nil
	}
	l.swept, l.written = time.Now(), 0
	if err := sweep(l.dir, b, l.swept); err != nil {
		return fmt.Errorf("remove old series: %w", err)
	}
	return nil
}

// sweep removes files that are older than the bounds allow, and then the oldest ones until there is
// room for more. The rest of a write that was cut off goes too. All is tried whatever fails.
func sweep(dir string, b Bounds, now time.Time) error {
	errs := []error{disk.RemoveUnfinished(dir, time.Minute)}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, err)
	}
	type file struct {
		name  string
		since time.Time
		size  int64
	}
	var files []file
	total := int64(0)
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), suffix) || !e.Type().IsRegular() {
			continue
		}
		info, err := e.Info()
		if err != nil { // it has gone
			continue
		}
		files = append(files, file{e.Name(), info.ModTime(), onDisk(info.Size())})
		total += onDisk(info.Size())
	}
	slices.SortFunc(files, func(a, b file) int {
		return cmp.Or(a.since.Compare(b.since), strings.Compare(a.name, b.name))
	})
	for _, f := range files {
		if now.Sub(f.since) <= b.Age && total <= b.Size-b.Size/freePart {
			break
		}
		if err := os.Remove(filepath.Join(dir, f.name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
			continue
		}
		total -= f.size
	}
	return errors.Join(errs...)
}
