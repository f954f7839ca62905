package jobstate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// lockTimeout bounds every wait for another holder of the lock. A transaction takes milliseconds; a holder that takes
// this long was stopped in the middle of one or sits on a dead disk.
const lockTimeout = 10 * time.Second

// bounded returns a context for the waits of one transaction: ctx, and s.timeout at most.
func (s *Store) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	held := fmt.Errorf("held by another process for %v: %w", s.timeout, context.DeadlineExceeded)
	return context.WithTimeoutCause(ctx, s.timeout, held)
}

// lock makes the caller the only one in all processes to touch jobs.db, until it calls unlock.
//
// The lock is a file of its own: jobs.db may be replaced while somebody waits, and bbolt waits for its own lock by
// polling every 50 ms, which this one never lets happen.
func (s *Store) lock(ctx context.Context) (unlock func(), err error) {
	path := s.path + ".lock"
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("lock %s: %w", path, context.Cause(ctx))
	}
	f, err := openLock(path)
	if err != nil {
		<-s.turn
		return nil, err
	}
	release := func() {
		f.Close()
		<-s.turn
	}
	fd := int(f.Fd())
	err = flock(fd, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		// flock cannot be called off. When ctx ends first, the waiting thread keeps this Store's turn and gives it back when
		// it gets the lock at last, so that no Store ever has more than one thread waiting.
		locked := make(chan error, 1)
		go func() { locked <- flock(fd, unix.LOCK_EX) }()
		select {
		case err = <-locked:
		case <-ctx.Done():
			go func() {
				<-locked
				release()
			}()
			return nil, fmt.Errorf("lock %s: %w", path, context.Cause(ctx))
		}
	}
	if err != nil {
		release()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return release, nil
}

// openLock opens the lock's file. The directory may have been deleted under a running host, which is no reason to fail
// every event from then on.
func openLock(path string) (*os.File, error) {
	const flags = os.O_RDWR | os.O_CREATE | unix.O_NOFOLLOW
	f, err := os.OpenFile(path, flags, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return nil, err
		}
		f, err = os.OpenFile(path, flags, 0o600)
	}
	return f, err
}

// lockDatabase takes bbolt's own lock on jobs.db. Only a program other than hookhost can hold it, such as bbolt's command
// line, so that asking again and again is rare and good enough.
func lockDatabase(ctx context.Context, f *os.File) error {
	for {
		err := flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func flock(fd, how int) error {
	for {
		if err := unix.Flock(fd, how); err != unix.EINTR {
			return err
		}
	}
}
