// Package jobstate holds the records of the jobs that live on this node: one Record per job.
//
// The daemon's memory is the truth. For a restart of the daemon there is also a JSON file for each
// job. Its directory, like the jobs, does not outlive the boot. A file is written as a whole and
// renamed, and never fsynced: SIGKILL of the daemon loses nothing, because the kernel has the file.
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
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/disk"
	"github.com/hookhost/hookhost/internal/series"
)

const (
	suffix  = ".json"
	fresh   = ".new"     // of a file that is being written
	damaged = ".damaged" // of a file that does not parse
)

// Store holds the records of a node's live jobs, and is safe for concurrent use. Only one process
// may use a directory: the daemon that holds the lock of the cgroup prefix.
type Store struct {
	dir    string
	failed func(error)

	mu      sync.Mutex
	records map[string][]byte // by job id: the content of the record's file
	unsaved map[string]stale  // by job id: the record is newer than its file

	series       map[string]series.Job // by job id: see Hosts
	seriesFailed bool                  // the last file of a series could not be written
}

// stale describes the file of a record that was not saved.
type stale struct {
	text []byte // nil if there is no file
	told bool   // failed was called
}

// Open returns the store with the records in dir. If dir is missing, it is created with mode 0700.
// Open fails if dir is not a directory, or if users other than root and the effective user own it
// or may write to it. It also fails if a file cannot be read, as on a node that is out of
// descriptors. Its record may be intact, and the next start can read it.
//
// failed is called for each record that could not be written. Open calls it for
// each file that does not parse, which it renames to ID.json.damaged. The job of such a file counts
// as one with a lost record; other jobs are not affected.
func Open(dir string, failed func(error)) (*Store, error) {
	s := &Store{dir: dir, failed: failed, records: map[string][]byte{}, unsaved: map[string]stale{},
		series: map[string]series.Job{}}
	if err := disk.MakeDir(dir, 0o700); err != nil {
		return nil, err
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if strings.HasSuffix(f.Name(), fresh) { // a daemon was killed while writing it
			os.Remove(filepath.Join(dir, f.Name()))
		}
		if id, is := strings.CutSuffix(f.Name(), suffix); is {
			if err := s.load(id); err != nil {
				return nil, err
			}
		}
	}
	for _, f := range files { // without its record, a series does not match any host's counters
		if id, is := strings.CutSuffix(f.Name(), seriesSuffix); is && s.records[id] == nil {
			s.saveSeries(id)
		}
	}
	return s, nil
}

// Count returns how many jobs have a record in dir, readable or not; 0 if dir is missing. It
// changes nothing, so a process without the lock may call it.
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

// load reads the file of a job, and sets aside a file that is not a record.
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

// Get returns the record of job id, or nil. The caller may change the result.
func (s *Store) Get(id string) *Record {
	s.mu.Lock()
	b := s.records[id]
	s.mu.Unlock()
	return s.copyOf(id, b)
}

// copyOf decodes b into a new record; nil for nil.
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

// GetAll returns the existing records of these jobs, in the order of ids.
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

// Update applies fn to the record of job id. fn gets nil if there is no record, and returns nil to
// delete it; it may change and return its argument. Update fails if fn does, or if fn returns
// another job's record; then nothing changes.
//
// A record that cannot be written to its file is nevertheless in force. The store calls failed
// once, and writes the file with the next update of any job. Until then the file shows the same
// phase of the job, or does not exist. For a job that is ending, the file may show an earlier
// phase. fn must be quick and must not use the Store.
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
		rec.StampNotes(time.Now())
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

// Change applies fn to the existing records of these jobs, by Update, and joins errors.
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

// mayStay reports whether the old file may remain if a record could not be written. A file with
// another phase of the job may not. From it, the next daemon would conclude that the begin of a
// running job was cut off, and end the job. Or it would freeze or thaw jobs against their MoM's
// orders. A job without a file gets a new record from its cgroup. The file of an ending job stays:
// its cgroup may be gone, and its report would be lost.
func (s *Store) mayStay(id string, text []byte) bool {
	there, now := s.copyOf(id, text), s.copyOf(id, s.records[id])
	if now == nil { // it could not be removed either
		return true
	}
	return now.Phase == hostapi.PhaseExiting || there.Phase == now.Phase && there.Begun.Equal(now.Begun)
}

// write writes b to the job's file, or removes the file if b is nil.
func (s *Store) write(id string, b []byte) error { return s.replace(s.path(id), b) }

// replace writes b to a file, or removes the file if b is nil. After an error no part of b stays,
// because it would occupy the space that is missing.
func (s *Store) replace(path string, b []byte) error {
	if b == nil {
		if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	err := os.WriteFile(path+fresh, b, 0o600)
	if errors.Is(err, fs.ErrNotExist) { // the directory was removed
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
