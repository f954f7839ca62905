package ledger

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"time"
)

// maxBacklog bounds the backlog, which is in memory: some 40,000 jobs.
const maxBacklog = 64 << 20

// WaitingError says that an entry is not in the ledger yet: it is in the backlog. Drain moves it.
type WaitingError struct {
	Path  string // of the backlog
	First bool   // nothing waited before
	Cause error  // why it could not be written
}

func (e *WaitingError) Error() string { return fmt.Sprintf("%v: it waits in %s", e.Cause, e.Path) }

func (e *WaitingError) Unwrap() error { return e.Cause }

// OpenWithBacklog is Open for a ledger whose entries wait in the file backlog while they cannot be
// written. The backlog has the form of a ledger, and is to be on another file system. Readers find
// its entries as those of the ledger.
func OpenWithBacklog(path, backlog string) *Ledger {
	l := Open(path)
	l.backlog = Open(backlog)
	l.backlog.maxSize = math.MaxInt64 // a rotation would lose entries
	return l
}

// waits reports whether a path is that of the backlog.
func (l *Ledger) waits(path string) bool { return l.backlog != nil && l.backlog.path == path }

// wait puts an entry that could not be written in the backlog.
func (l *Ledger) wait(ctx context.Context, e Entry, since time.Time, cause error) error {
	info, err := os.Lstat(l.backlog.path)
	switch {
	case err == nil && info.Size()+int64(len(e.Report)) > maxBacklog:
		return errors.Join(cause, fmt.Errorf("append job %s to %s: it has %d bytes already", e.Job, l.backlog.path,
			info.Size()))
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return errors.Join(cause, err)
	}
	first := err != nil
	if err := l.backlog.put(ctx, e, since); err != nil {
		return errors.Join(cause, err)
	}
	return &WaitingError{Path: l.backlog.path, First: first, Cause: cause}
}

// Drain moves the entries of the backlog to the ledger, each once, and returns how many there were.
// After an error all that were not moved wait on. The error is a *DamageError when lines of the
// backlog were damaged, which are lost.
func (l *Ledger) Drain(ctx context.Context) (moved int, err error) {
	if l.backlog == nil {
		return 0, nil
	}
	path := l.backlog.path
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	unlock, err := l.backlog.lock(ctx)
	if err != nil {
		return 0, err
	}
	defer unlock()
	f, err := open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	damage, number := &DamageError{Path: path}, 0
	for line, err := range lines(f, 0) {
		if err != nil {
			return moved, err
		}
		number++
		e, err := parseLine(line.text)
		if err != nil {
			damage.add(damaged{1, []DamagedLine{{Line: number, Job: jobNamed(line.text)}}}, path)
			continue
		}
		// The attempt before it waited may have left it in the ledger.
		if err := l.put(ctx, e, e.Time.Add(-2*lockTimeout)); err != nil {
			return moved, err
		}
		moved++
	}
	return moved, errors.Join(os.Remove(path), damage.orNil())
}

// run tells the runs of jobs apart, by hashes.
type run struct {
	job uint64
	key uint32
}

// movedOf returns the runs that are in the ledger and may still be in its backlog, as Drain removes
// that at last. files are all of the ledger.
func movedOf(files []*view) map[run]bool {
	if len(files) == 0 || !files[0].waits {
		return nil
	}
	waiting := map[run]bool{}
	for _, e := range files[0].entries {
		waiting[run{e.job, e.key}] = true
	}
	moved := map[run]bool{}
	for _, v := range files[1:] {
		for _, e := range v.entries {
			if r := (run{e.job, e.key}); waiting[r] {
				moved[r] = true
			}
		}
	}
	return moved
}
