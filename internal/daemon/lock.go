// Package daemon makes one process the owner of a node's jobs.
//
// The owner is `hookhost serve`. Only the owner begins, ends or records jobs, and holds the lock
// of its cgroup prefix for its life.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/disk"
)

// locks is the directory of the locks of all prefixes. It does not depend on the socket, because
// two daemons with different sockets may use the same prefix.
const locks = "/run/hookhost"

// errRunning means that another process is the owner.
var errRunning = errors.New("already running")

// prefixLock is the ownership of a cgroup prefix. The kernel releases the lock when its holder
// ends, even if killed. The file stays: otherwise two processes could lock two different files.
type prefixLock struct{ file *os.File }

// acquire takes the lock of a prefix in dir, and creates dir, mode 0711, if it is missing. The file
// holds the pid of its last holder. While another process holds the lock, acquire fails with
// errRunning and that pid, after three seconds.
func acquire(dir, prefix string) (*prefixLock, error) {
	if err := disk.MakeDir(dir, 0o711); err != nil {
		return nil, fmt.Errorf("lock prefix %s: %w", prefix, err)
	}
	path := lockPath(dir, prefix)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock prefix %s: %w", prefix, err)
	}
	if err := lock(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	text := strconv.Itoa(os.Getpid()) + "\n"
	_, err = f.WriteAt([]byte(text), 0)
	if err = errors.Join(err, f.Truncate(int64(len(text)))); err != nil {
		f.Close()
		return nil, err
	}
	return &prefixLock{file: f}, nil
}

// Release lets another process become the owner.
func (l *prefixLock) Release() error { return l.file.Close() }

func lockPath(dir, prefix string) string { return filepath.Join(dir, prefix+".lock") }

// dying is how long the lock of a killed holder may persist. A child of that holder shares its
// files until the child executes a hook's program.
const dying = 3 * time.Second

func lock(f *os.File) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), dying, errRunning)
	defer cancel()
	err := disk.Lock(ctx, int(f.Fd()))
	if errors.Is(err, errRunning) {
		return fmt.Errorf("%w, pid %d", err, holder(f.Name()))
	}
	return err
}

// holder returns the pid of the last owner from a lock's file, dead or alive, or 0 if there was
// none.
func holder(path string) int {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid <= 1 {
		return 0
	}
	return pid
}
