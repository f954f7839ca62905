package ledger

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// lock keeps all other writers out until unlock is called. The lock is a file of its own, as the ledger's is renamed.
// It waits no longer than ctx allows and l.timeout.
func (l *Ledger) lock(ctx context.Context) (unlock func(), err error) {
	path := l.path + ".lock"
	held := fmt.Errorf("%s held by another process for %v: %w", path, l.timeout, context.DeadlineExceeded)
	ctx, cancel := context.WithTimeoutCause(ctx, l.timeout, held)
	defer cancel()

	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	f, err := openLock(path)
	if err != nil {
		<-l.turn
		return nil, err
	}
	release := func() {
		f.Close()
		<-l.turn
	}
	// flock cannot be called off. When ctx ends first, the waiting thread keeps this Ledger's turn and gives it back when
	// it gets the lock at last, so that no Ledger ever has more than one thread waiting.
	fd, locked := int(f.Fd()), make(chan error, 1)
	if err := flock(fd, unix.LOCK_EX|unix.LOCK_NB); err == nil {
		return release, nil
	}
	go func() { locked <- flock(fd, unix.LOCK_EX) }()
	select {
	case err := <-locked:
		if err != nil {
			release()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		return release, nil
	case <-ctx.Done():
		go func() {
			<-locked
			release()
		}()
		return nil, context.Cause(ctx)
	}
}

func openLock(path string) (*os.File, error) {
	open := func() (*os.File, error) { return os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600) }
	f, err := open()
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return nil, err
		}
		f, err = open()
	}
	return f, err
}

func flock(fd, how int) error {
	for {
		if err := unix.Flock(fd, how); err != unix.EINTR {
			return err
		}
	}
}
