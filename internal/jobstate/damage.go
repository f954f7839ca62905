package jobstate

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// VersionError is returned for a file that later code wrote. The file is left as it is.
type VersionError struct {
	What       string // "schema" or "file format"
	Have, Know uint64 // the file's version, and the latest that this code understands
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("%s version %d is newer than %d, the latest this hookhost understands", e.What, e.Have, e.Know)
}

// damageError is anything that makes the file unusable and will not pass by itself.
type damageError struct{ err error }

func (e *damageError) Error() string { return "damaged: " + e.err.Error() }
func (e *damageError) Unwrap() error { return e.err }

// setAside renames the damaged file, tells about it and puts an empty one in its place. The caller holds the lock, so
// that of several processes that stumble over the damage only the first gets here.
func (s *Store) setAside(cause *damageError) error {
	aside := s.path + damagedSuffix + time.Now().UTC().Format("20060102T150405.000000000Z")
	if err := os.Rename(s.path, aside); err != nil {
		return err
	}
	if err := syncDir(filepath.Dir(s.path)); err != nil {
		return err
	}
	if s.onDamage != nil {
		s.onDamage(aside, fmt.Errorf("%s: %w", s.path, cause))
	}
	return s.create()
}

// tellGone tells, once, that the file which this Store has used is not there any more: to those who ask, there are no records. The caller
// holds the lock, under which a damaged file is replaced.
func (s *Store) tellGone() {
	if s.vetted != (stamp{}) && s.onDamage != nil {
		s.onDamage(s.path, fmt.Errorf("%s: %w", s.path, fs.ErrNotExist))
	}
	s.vetted = stamp{}
}

const damagedSuffix = ".damaged-"

// create makes the file where there is none. After damage, a crash in setAside included, job numbers go on from the
// time of day: the old ones are lost, and none may come twice.
func (s *Store) create() error {
	names, err := os.ReadDir(filepath.Dir(s.path))
	if err != nil {
		return err
	}
	sequence := uint64(0)
	for _, name := range names {
		if strings.HasPrefix(name.Name(), fileName+damagedSuffix) {
			sequence = uint64(time.Now().Unix())
		}
	}
	return createDatabase(s.path, sequence)
}

// damagedRecord is one value that is no record although the file around it is sound.
type damagedRecord struct {
	id  string
	b   []byte
	err error
}

// setAsideRecords moves the damaged records out of the way, except those that somebody has replaced meanwhile.
func (s *Store) setAsideRecords(ctx context.Context, damaged []damagedRecord) error {
	if len(damaged) == 0 {
		return nil
	}
	return s.transaction(ctx, true, func(d *database) error {
		var moved []damagedRecord
		for _, r := range damaged {
			b, err := d.record(r.id)
			if err != nil {
				return err
			}
			if !bytes.Equal(b, r.b) {
				continue
			}
			if err := d.setAside(r); err != nil {
				return err
			}
			moved = append(moved, r)
		}
		if err := d.commit(); err != nil {
			return err
		}
		s.tellDamaged(moved)
		return nil
	})
}

func (s *Store) tellDamaged(records []damagedRecord) {
	if s.onDamage == nil {
		return
	}
	for _, r := range records {
		s.onDamage(s.path, fmt.Errorf("%s: job %s: record set aside: %w", s.path, r.id, r.err))
	}
}
