// Package jobstate keeps what has to survive a restart about the jobs on this host: one Record per job in the bbolt
// file jobs.db of the state directory.
//
// The daemon and any number of `hookhost run` share the file. Each call locks, opens, uses and closes it, so none keeps
// the others out for longer than a transaction, and none has to be running. A transaction is on disk when its call
// returns; a crash or a power loss leaves the state before it or after it, never a mixture.
//
// A file that proves damaged is renamed to jobs.db.damaged-TIME and an empty one takes its place; a single record that
// cannot be read is moved to the bucket "damaged". Both are told to OnDamage, and whoever asked finds no record: what
// the jobs on the host are must then be found out from their cgroups. Nothing is ever deleted.
package jobstate

import (
	"context"
	"errors"
	"fmt"
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
}

// Option changes how a Store behaves.
type Option func(*Store)

// OnDamage has f called whenever something unreadable was set aside: the whole file (path is where it now lies) or one
// record (path is jobs.db, err names the job). f is called before the call that met the damage goes on, with the file
// locked: it must not use the Store.
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
// returns an error nothing changes and Update returns that error. A record that comes back unchanged costs no write.
//
// fn must be quick and must not use the Store. It is called a second time, with nil, when the file proves damaged only
// while the transaction is written.
func (s *Store) Update(ctx context.Context, id string, fn func(*Record) (*Record, error)) error {
	err := hostapi.CheckJobID(id)
	if err == nil {
		err = s.transaction(ctx, true, func(d *database) error { return s.update(d, id, fn) })
	}
	if err != nil {
		return fmt.Errorf("update job %s: %w", id, err)
	}
	return nil
}

func (s *Store) update(d *database, id string, fn func(*Record) (*Record, error)) error {
	before, err := d.record(id)
	if err != nil {
		return err
	}
	var rec *Record
	var damaged []damagedRecord
	if before != nil {
		if rec, err = decode(id, before); err != nil {
			damaged = append(damaged, damagedRecord{id, before, err})
		}
	}
	next, err := fn(rec)
	if err != nil {
		return err
	}
	var after []byte
	if next != nil {
		if after, err = encode(id, next); err != nil {
			return err
		}
	}
	if string(before) == string(after) {
		return nil
	}
	for _, r := range damaged {
		if err := d.setAside(r); err != nil {
			return err
		}
	}
	if err := d.store(id, after); err != nil {
		return err
	}
	if err := d.commit(); err != nil {
		return err
	}
	s.tellDamaged(damaged)
	return nil
}

// Get returns the record of job id, nil without an error when there is none.
func (s *Store) Get(ctx context.Context, id string) (*Record, error) {
	var rec *Record
	var damaged []damagedRecord
	err := s.transaction(ctx, false, func(d *database) error {
		b, err := d.record(id)
		if err != nil || b == nil {
			return err
		}
		if rec, err = decode(id, b); err != nil {
			damaged = append(damaged, damagedRecord{id, b, err})
		}
		return nil
	})
	if err = errors.Join(err, s.setAsideRecords(ctx, damaged)); err != nil {
		return rec, fmt.Errorf("read job %s: %w", id, err)
	}
	return rec, nil
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
