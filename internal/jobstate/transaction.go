package jobstate

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// transaction calls fn with jobs.db open and everybody else locked out. A writable transaction creates the file when it
// is missing; a reading one does not call fn then. When the file is damaged it is set aside and fn is called (again) with
// an empty one.
func (s *Store) transaction(ctx context.Context, writable bool, fn func(*database) error) error {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	damage, err := s.attempt(ctx, writable, fn)
	if damage == nil {
		return err
	}
	if err := s.setAside(damage); err != nil {
		return errors.Join(damage, err)
	}
	_, err = s.attempt(ctx, writable, fn)
	return err
}

// attempt is one try at a transaction; damage is why it is worth another with an empty file.
func (s *Store) attempt(ctx context.Context, writable bool, fn func(*database) error) (damage *damageError, err error) {
	d, err := openDatabase(ctx, s.path, writable, s.vet)
	if errors.Is(err, fs.ErrNotExist) {
		s.tellGone()
		if !writable {
			return nil, nil
		}
		if err := s.create(); err != nil {
			return nil, err
		}
		d, err = openDatabase(ctx, s.path, writable, s.vet)
	}
	if err != nil {
		errors.As(err, &damage)
		return damage, err
	}
	defer d.close()
	if writable {
		defer s.seen.write()()
	}
	s.vetted = stamp{}
	if err := fn(d); err != nil {
		return d.damage, err
	}
	s.vetted = stampOf(d.file)
	s.seen.note(d.found, s.vetted, d.held)
	return nil, nil
}

// vet returns a *damageError when bbolt could not survive reading f. A file that nobody has written to since this Store
// last used it is not read again.
func (s *Store) vet(f *os.File) error {
	now := stampOf(f)
	if now != (stamp{}) && now == s.vetted {
		return nil
	}
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if !st.Mode().IsRegular() {
		return errors.New("not a regular file")
	}
	data := make([]byte, st.Size())
	if _, err := io.ReadFull(io.NewSectionReader(f, 0, st.Size()), data); err != nil {
		return err
	}
	err = check(data)
	if later := (*VersionError)(nil); err == nil || errors.As(err, &later) {
		return err
	}
	return &damageError{err}
}

// stamp changes whenever somebody writes to the file or puts another in its place.
type stamp struct {
	dev, ino     uint64
	size         int64
	mtime, ctime unix.Timespec
}

// stampOf returns the zero stamp when f does not tell, which equals no file's.
func stampOf(f *os.File) stamp {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return stamp{}
	}
	return stampIn(&st)
}

func stampIn(st *unix.Stat_t) stamp {
	return stamp{dev: uint64(st.Dev), ino: st.Ino, size: st.Size, mtime: st.Mtim, ctime: st.Ctim}
}
