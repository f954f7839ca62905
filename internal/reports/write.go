package reports

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hookhost/hookhost/internal/disk"
	"github.com/hookhost/hookhost/internal/report"
	"github.com/hookhost/hookhost/internal/series"
)

// maxWaiting bounds the space that waiting reports take in memory: some 16,000 jobs.
const maxWaiting = 64 << 20

// WaitingError means that a report is not on disk yet: it waits in memory, until Drain moves it.
type WaitingError struct {
	Path  string // of the directory
	First bool   // nothing waited before
	Cause error  // why it could not be written
}

func (e *WaitingError) Error() string { return fmt.Sprintf("%v: it waits in %s", e.Cause, e.Path) }

func (e *WaitingError) Unwrap() error { return e.Cause }

// Write writes the report of a job that has ended, with the series of its hosts, which r does not
// have. When Write returns nil, the report is on disk. Write is idempotent: a run of a job has one
// file. If a report cannot be written, it waits and the error is a *WaitingError. After any other
// error the report is stored nowhere.
func (s *Store) Write(r *report.Report, points series.Job) (err error) {
	defer func() {
		if err != nil {
			s.failures.Add(1)
			err = fmt.Errorf("write report of job %s: %w", r.Job, err)
		}
	}()
	name, err := nameOf(r)
	if err != nil {
		return err
	}
	if s.has(name) {
		return nil
	}
	content, err := s.encode(r, points)
	if err != nil {
		return err
	}
	if err := place(s.dir, name, content); err != nil {
		return s.wait(name, content, err)
	}
	s.written.Add(1)
	s.sweepIfDue(int64(len(content)))
	return nil
}

// has reports whether the named run has a report.
func (s *Store) has(n Name) bool {
	for _, dir := range s.places() {
		for _, name := range n.ofSameRun() {
			if _, err := os.Lstat(filepath.Join(dir, name.day(), name.String())); err == nil {
				return true
			}
		}
	}
	return false
}

// place writes a file with that content below dir, safely on disk.
func place(dir string, n Name, content []byte) error {
	day := filepath.Join(dir, n.day())
	path := filepath.Join(day, n.String())
	err := disk.ReplaceUnsynced(path, content, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(day, 0o700); err == nil {
			err = disk.ReplaceUnsynced(path, content, 0o600)
		}
		if err == nil {
			err = disk.SyncDir(dir)
		}
	}
	if err != nil {
		return err
	}
	// The name may come before the content: a power loss also ends the job's record.
	if err := errors.Join(fsync(path), disk.SyncDir(day)); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

func fsync(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// wait puts a report that could not be written in the waiting directory.
func (s *Store) wait(n Name, content []byte, cause error) error {
	s.waitLock.Lock()
	defer s.waitLock.Unlock()
	names, size, err := below(s.waiting)
	if err == nil && size+onDisk(int64(len(content))) > maxWaiting {
		err = fmt.Errorf("%s has %d bytes already", s.waiting, size)
	}
	if err == nil {
		err = place(s.waiting, n, content)
	}
	if err != nil {
		return errors.Join(cause, err)
	}
	return &WaitingError{Path: s.waiting, First: len(names) == 0, Cause: cause}
}

// below returns the paths of the files below a directory, and the space that they take.
func below(dir string) (paths []string, size int64, err error) {
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			paths, size = append(paths, path), size+onDisk(info.Size())
		}
		return err
	})
	return paths, size, err
}

// Drain moves the waiting reports to disk, and returns how many it moved. It stops at the first
// that cannot be written, which keeps waiting with the rest. It also removes old reports if that is
// due. So reports are also removed if the disk is full, or if no job ends on the node.
func (s *Store) Drain() (moved int, err error) {
	s.sweepIfDue(0)
	s.waitLock.Lock()
	defer s.waitLock.Unlock()
	paths, _, err := below(s.waiting)
	if err != nil {
		return 0, err
	}
	for _, path := range paths {
		name, ok := parseName(filepath.Base(path))
		if !ok {
			if err := os.Remove(path); err != nil { // the rest of an interrupted write
				return moved, err
			}
			continue
		}
		content, err := os.ReadFile(path)
		if err == nil {
			err = place(s.dir, name, content)
		}
		if err == nil {
			err = os.Remove(path)
		}
		if err != nil {
			return moved, err
		}
		s.written.Add(1)
		s.sweepIfDue(int64(len(content)))
		moved++
	}
	return moved, os.RemoveAll(s.waiting)
}
