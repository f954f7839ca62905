package ledger

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/disk"
)

// lock keeps all other writers out until unlock is called. The lock is a file of its own, as the
// ledger's is renamed. The wait is no longer than ctx allows and l.timeout.
func (l *Ledger) lock(ctx context.Context) (unlock func(), err error) {
	path := l.path + ".lock"
	held := fmt.Errorf("held by another process for %v: %w", l.timeout, context.DeadlineExceeded)
	ctx, cancel := context.WithTimeoutCause(ctx, l.timeout, held)
	defer cancel()

	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("lock %s: %w", path, context.Cause(ctx))
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
	if err := disk.Lock(ctx, int(f.Fd())); err != nil {
		release()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return release, nil
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
