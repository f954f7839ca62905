// Package jobstate keeps what has to survive a restart about the jobs on this host: one Record per job in the bbolt
// file jobs.db of the state directory.
//
// The daemon and any number of `hookhost run` share the file. Each call locks, opens, uses and closes it, so none keeps
// the others out for longer than a transaction, and none has to be running. A transaction is on disk when its call
// returns; a crash or a power loss leaves the state before it or after it, never a mixture.
//
// A file that proves damaged is renamed to jobs.db.damaged-TIME and an empty one takes its place; a single record that
// cannot be read is moved to the bucket "damaged". Both are told to OnDamage, as is that somebody has removed the file, and
// whoever asked finds no record: what the jobs on the host are must then be found out from their cgroups. Nothing is ever
// deleted.
package jobstate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/hookhost/hookhost/hostapi"
)

const fileName = "jobs.db"

// Store is the file jobs.db of one state directory. It is safe for concurrent use, by several processes too.
type Store struct {
	path     string // of jobs.db
	onDamage func(path string, err error)
	timeout  time.Duration // lockTimeout

	turn   chan struct{} // full while a call of this Store holds the lock or waits for it; guards vetted
	vetted stamp         // the file as this Store last left it
	seen   seen
}

// Option changes how a Store behaves.
type Option func(*Store)

// OnDamage has f called whenever something unreadable was set aside: the whole file (path is where it now lies) or one
// record (path is jobs.db, err names the job); and when a file that the Store has used is not there any more (err is
// fs.ErrNotExist). f is called before the call that met the damage goes on, with the file locked: it must not use the Store.
func OnDamage(f func(path string, err error)) Option { return func(s *Store) { s.onDamage = f } }

// Open returns the store in dir, which is created with mode 0700 when it is missing. jobs.db is not opened yet.
// It fails when dir is not a directory, or is a symbolic link, or when somebody but root and the effective user owns it
// or may write to it. jobs.db must have the same owner, or every call fails.
func Open(dir string, options ...Option) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := CheckDir(dir); err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	s := &Store{path: filepath.Join(dir, fileName), timeout: lockTimeout, turn: make(chan struct{}, 1)}
	for _, o := range options {
		o(s)
	}
	return s, nil
}

// Update replaces the record of job id by what fn makes of it, in one transaction that is on disk when Update returns.
// fn gets nil when there is no record and returns nil to delete it; it may change and return what it got. When it
// returns an error nothing changes and Update returns that error. A record that comes back unchanged costs no write; neither does
// one of which nothing has changed but that timers ring later: after a crash they ring at the earlier moment.
//
// fn must be quick and must not use the Store. It is called a second time, with nil, when the file proves damaged only
// while the transaction is written.
func (s *Store) Update(ctx context.Context, id string, fn func(*Record) (*Record, error)) error {
	return s.UpdateAll(ctx, []string{id}, func(_ string, rec *Record) (*Record, error) { return fn(rec) })
}

// UpdateAll does what Update does with the records of several jobs, in one transaction. Of a record for which fn fails nothing
// changes; the others are written, and errors are joined. Without ids it does nothing.
func (s *Store) UpdateAll(ctx context.Context, ids []string, fn func(id string, rec *Record) (*Record, error)) error {
	var bad []error
	ids, bad = checkIDs("update", ids)
	if len(ids) == 0 {
		return errors.Join(bad...)
	}
	var failed []error
	err := s.transaction(ctx, true, func(d *database) (err error) {
		failed, err = s.update(d, ids, fn)
		return err
	})
	if err != nil {
		failed = append(failed, fmt.Errorf("update %s: %w", jobs(ids), err))
	}
	return errors.Join(append(bad, failed...)...)
}

// checkIDs returns the ids that can be a job's, and what is wrong with the others.
func checkIDs(op string, ids []string) (good []string, bad []error) {
	for _, id := range ids {
		if err := hostapi.CheckJobID(id); err != nil {
			bad = append(bad, fmt.Errorf("%s job %s: %w", op, id, err))
			continue
		}
		good = append(good, id)
	}
	return good, bad
}

// jobs names jobs in an error.
func jobs(ids []string) string {
	if len(ids) == 1 {
		return "job " + ids[0]
	}
	return fmt.Sprintf("%d jobs", len(ids))
}

// update returns the errors of single records.
func (s *Store) update(d *database, ids []string, fn func(string, *Record) (*Record, error)) (failed []error, err error) {
	var damaged []damagedRecord
	written := false
	for _, id := range ids {
		before, err := d.record(id)
		if err != nil {
			return failed, err
		}
		after, bad, err := revise(id, before, fn)
		if err != nil {
			failed = append(failed, fmt.Errorf("update job %s: %w", id, err))
			continue
		}
		if string(before) == string(after) {
			continue
		}
		if bad != nil {
			damaged = append(damaged, *bad)
			if err := d.setAside(*bad); err != nil {
				return failed, err
			}
		}
		if err := d.store(id, after); err != nil {
			return failed, err
		}
		written = true
	}
	if !written {
		return failed, nil
	}
	if err := d.commit(); err != nil {
		return failed, err
	}
	s.tellDamaged(damaged)
	return failed, nil
}

// revise returns what is to be stored in place of before, nil for nothing; damaged when before is no record.
func revise(id string, before []byte, fn func(string, *Record) (*Record, error)) (after []byte, damaged *damagedRecord, err error) {
	var rec *Record
	var timers map[string]Timer
	if before != nil {
		if rec, err = decode(id, before); err != nil {
			damaged = &damagedRecord{id, before, err}
		} else {
			timers = maps.Clone(rec.Timers)
		}
	}
	next, err := fn(id, rec)
	if err != nil || next == nil {
		return nil, damaged, err
	}
	if now := next.Timers; putOff(timers, now) {
		next.Timers = timers
		after, err = encode(id, next)
		if next.Timers = now; err == nil && string(after) == string(before) {
			return before, nil, nil
		}
	}
	after, err = encode(id, next)
	return after, damaged, err
}

// Get returns the record of job id, nil without an error when there is none.
func (s *Store) Get(ctx context.Context, id string) (*Record, error) {
	recs, err := s.get(ctx, []string{id})
	if len(recs) == 0 {
		return nil, err
	}
	return recs[0], err
}

// GetAll returns the records of those of the jobs that have one, in the order of ids, read in one transaction. The records that it
// can read it returns even when it fails.
func (s *Store) GetAll(ctx context.Context, ids []string) ([]*Record, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	return s.get(ctx, ids)
}

func (s *Store) get(ctx context.Context, ids []string) ([]*Record, error) {
	stored, known := s.seen.get(s.path, ids)
	var err error
	if !known {
		stored, err = s.read(ctx, ids)
	}
	var recs []*Record
	var damaged []damagedRecord
	for i, b := range stored {
		if b == nil {
			continue
		}
		rec, err := decode(ids[i], b)
		if err != nil {
			damaged = append(damaged, damagedRecord{ids[i], b, err})
			continue
		}
		recs = append(recs, rec)
	}
	if err = errors.Join(err, s.setAsideRecords(ctx, damaged)); err != nil {
		return recs, fmt.Errorf("read %s: %w", jobs(ids), err)
	}
	return recs, nil
}

// read returns what is stored for each of ids, nil where nothing is; fewer when it fails.
func (s *Store) read(ctx context.Context, ids []string) (stored [][]byte, err error) {
	err = s.transaction(ctx, false, func(d *database) error {
		stored = nil
		for _, id := range ids {
			b, err := d.record(id)
			if err != nil {
				return err
			}
			stored = append(stored, b)
		}
		return nil
	})
	return stored, err
}

// List returns all records, ordered by job id as text. The records that it can read it returns even when it fails.
func (s *Store) List(ctx context.Context) ([]*Record, error) {
	var recs []*Record
	var damaged []damagedRecord
	err := s.transaction(ctx, false, func(d *database) error {
		recs, damaged = nil, nil
		return d.records(func(id string, b []byte) {
			rec, err := decode(id, b)
			if err != nil {
				damaged = append(damaged, damagedRecord{id, b, err})
				return
			}
			recs = append(recs, rec)
		})
	})
	if err = errors.Join(err, s.setAsideRecords(ctx, damaged)); err != nil {
		return recs, fmt.Errorf("list jobs: %w", err)
	}
	return recs, nil
}

// NextSequence returns a job number that was never returned before from this store, on disk before it returns.
func (s *Store) NextSequence(ctx context.Context) (uint64, error) {
	var n uint64
	err := s.transaction(ctx, true, func(d *database) (err error) {
		if n, err = d.nextSequence(); err != nil {
			return err
		}
		return d.commit()
	})
	if err != nil {
		return 0, fmt.Errorf("next job number: %w", err)
	}
	return n, nil
}
