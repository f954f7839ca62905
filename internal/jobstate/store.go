// Package jobstate holds what the host knows of the jobs that live on this node: one Record a job.
//
// The memory of the daemon is the truth. A JSON file for each job lies beside it for the daemon's
// restart, in a directory that ends with the boot, as the jobs do. A file is written whole and
// renamed, and never fsynced: SIGKILL of the daemon loses nothing, since the kernel has the file.
package jobstate

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/series"
)

const (
	suffix  = ".json"
	fresh   = ".new"     // of a file that is being written
	damaged = ".damaged" // of a file that does not parse
)

// Store holds the records of a node's live jobs, and is safe for concurrent use. A directory is
// one process's at a time: that of the daemon which holds the lock of the cgroup prefix.
type Store struct {
	dir    string
	failed func(error)

	mu      sync.Mutex
	records map[string][]byte // by job id: the record as its file has it
	unsaved map[string]stale  // by job id: the record is newer than its file

	series       map[string]series.Job // by job id: see Hosts
	seriesFailed bool                  // the last file of a series could not be written
}

// stale is the file of a record that was not saved.
type stale struct {
	text []byte // nil where there is no file
	told bool   // failed was called
}

// Open returns the store with the records that lie in dir. dir is made with mode 0700 where there
// is none. Open fails when dir is no directory, or when somebody but root and the effective user
// owns it or may write to it. Open fails too when a file cannot be read, as on a node that is out
// of descriptors. Its record may be in order, and the next start has it.
//
// failed, which may be nil, is called for each record that could not be written. Open calls it for
// each file that does not parse and is set aside as ID.json.damaged. The job of such a file is one
// whose record was lost, and the other jobs keep theirs.
func Open(dir string, failed func(error)) (*Store, error) {
	if failed == nil {
		failed = func(error) {}
	}
	s := &Store{dir: dir, failed: failed, records: map[string][]byte{}, unsaved: map[string]stale{},
		series: map[string]series.Job{}}
	if err := MakeDir(dir); err != nil {
		return nil, err
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if strings.HasSuffix(f.Name(), fresh) { // a daemon was killed over it
			os.Remove(filepath.Join(dir, f.Name()))
		}
		if id, is := strings.CutSuffix(f.Name(), suffix); is {
			if err := s.load(id); err != nil {
				return nil, err
			}
		}
	}
	for _, f := range files { // a series whose record was lost has no host's counters beside it
		if id, is := strings.CutSuffix(f.Name(), seriesSuffix); is && s.records[id] == nil {
			s.saveSeries(id)
		}
	}
	return s, nil
}

// Count returns how many jobs have a record in dir, readable or not; 0 where there is no dir.
// Count changes nothing, so that a process may call it that does not hold the lock.
func Count(dir string) (int, error) {
	files, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	jobs := 0
	for _, f := range files {
		if strings.HasSuffix(f.Name(), suffix) {
			jobs++
		}
	}
	return jobs, nil
}

// load reads the file of a job, and sets aside one that is no record.
func (s *Store) load(id string) error {
	path := s.path(id)
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, syscall.EISDIR) {
		return fmt.Errorf("read record of job %s: %w", id, err)
	}
	if err == nil {
		_, err = decode(id, b)
	}
	if err == nil {
		s.records[id] = b
		s.loadSeries(id)
		return nil
	}
	s.failed(fmt.Errorf("record %s: set aside: %w", path, errors.Join(err, os.Rename(path, path+damaged))))
	return nil
}

func (s *Store) path(id string) string { return filepath.Join(s.dir, id+suffix) }

// Get returns the record of job id, nil when there is none. The caller may change what it gets.
func (s *Store) Get(id string) *Record {
	s.mu.Lock()
	b := s.records[id]
	s.mu.Unlock()
	return s.copyOf(id, b)
}

// copyOf returns a record of its own for b, nil for nil.
func (s *Store) copyOf(id string, b []byte) *Record {
	if b == nil {
		return nil
	}
	rec, err := decode(id, b)
	if err != nil { // decode has read b before, or encode has made it
		s.failed(fmt.Errorf("record of job %s: %w", id, err))
	}
	return rec
}

// GetAll returns the records of those of the jobs that have one, in the order of ids.
func (s *Store) GetAll(ids []string) []*Record {
	var recs []*Record
	for _, id := range ids {
		if rec := s.Get(id); rec != nil {
			recs = append(recs, rec)
		}
	}
	return recs
}

// List returns all records, ordered by job id as text.
func (s *Store) List() []*Record {
	s.mu.Lock()
	ids := slices.Sorted(maps.Keys(s.records))
	s.mu.Unlock()
	return s.GetAll(ids)
}

// Update replaces the record of job id by what fn makes of it. fn gets nil when there is no record
// and returns nil to delete it; it may change and return what it got. Update fails when fn does,
// or when fn returns another job's record; nothing changes then.
//
// A record that cannot be written to its file is in force all the same. The store calls failed
// once, and writes the file with the next update of any job. Until then the file is of the same
// phase of the job, or there is none. The file of a job that ends may be of an earlier phase. fn
// must be quick and must not use the Store.
func (s *Store) Update(id string, fn func(*Record) (*Record, error)) error {
	if err := hostapi.CheckJobID(id); err != nil {
		return fmt.Errorf("update job %s: %w", id, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.records[id]
	rec, err := fn(s.copyOf(id, before))
	if err != nil {
		return fmt.Errorf("update job %s: %w", id, err)
	}
	var after []byte
	points := false
	if rec != nil {
		if err := rec.check(id); err != nil {
			return fmt.Errorf("update job %s: %w", id, err)
		}
		points = s.moveSeries(id, rec)
		if after, err = encode(id, rec); err != nil {
			return fmt.Errorf("update job %s: %w", id, err)
		}
	}
	if after == nil && s.series[id] != nil {
		delete(s.series, id)
		points = true
	}
	if points {
		s.saveSeries(id)
	}
	if string(before) == string(after) {
		return nil
	}
	if after == nil {
		delete(s.records, id)
	} else {
		s.records[id] = after
	}
	if _, is := s.unsaved[id]; !is {
		s.unsaved[id] = stale{text: before}
	}
	s.save()
	return nil
}

// Change has fn change the records of those of the jobs that have one, by Update, and joins errors.
func (s *Store) Change(ids []string, fn func(*Record)) error {
	var errs []error
	for _, id := range ids {
		errs = append(errs, s.Update(id, func(rec *Record) (*Record, error) {
			if rec != nil {
				fn(rec)
			}
			return rec, nil
		}))
	}
	return errors.Join(errs...)
}

// save brings the files of all unsaved records up to date. The caller holds mu.
func (s *Store) save() {
	for id, file := range s.unsaved {
		err := s.write(id, s.records[id])
		if err == nil {
			delete(s.unsaved, id)
			continue
		}
		if file.text != nil && !s.mayStay(id, file.text) {
			dropped := s.write(id, nil)
			if dropped == nil {
				file.text = nil
			}
			err = errors.Join(err, dropped)
		}
		if !file.told {
			s.failed(fmt.Errorf("record of job %s: not saved yet: %w", id, err))
		}
		s.unsaved[id] = stale{text: file.text, told: true}
	}
}

// mayStay reports whether the file of a record that could not be written may be as it was. A file
// of another phase of the job may not. The next daemon would take a job that runs for one whose
// begin was cut off, and end it. Jobs would be frozen or thawed against their MoM's word. A job
// without a file gets a record of what the kernel has. The file of a job that ends stays. Its
// cgroup may be gone, and its report would be lost.
func (s *Store) mayStay(id string, text []byte) bool {
	there, now := s.copyOf(id, text), s.copyOf(id, s.records[id])
	if now == nil { // it could not be removed either
		return true
	}
	return now.Phase == PhaseExiting || there.Phase == now.Phase && there.Begun.Equal(now.Begun)
}

// write makes b the content of the job's file, and removes the file when b is nil.
func (s *Store) write(id string, b []byte) error { return s.replace(s.path(id), b) }

// replace makes b the content of a file, and removes the file when b is nil. No part of b stays
// after an error: it would take the space that is missing.
func (s *Store) replace(path string, b []byte) error {
	if b == nil {
		if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	err := os.WriteFile(path+fresh, b, 0o600)
	if errors.Is(err, fs.ErrNotExist) { // somebody has removed the directory
		if err = os.MkdirAll(s.dir, 0o700); err == nil {
			err = os.WriteFile(path+fresh, b, 0o600)
		}
	}
	if err == nil {
		err = os.Rename(path+fresh, path)
	}
	if err != nil {
		os.Remove(path + fresh)
	}
	return err
}
