package kernfs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Watch is an open file whose changes the kernel announces, such as cgroup.events, memory.events
// and pids.events. A loop of Read, decision and Wait misses no change. A Watch is for one goroutine
// at a time.
type Watch interface {
	// Read returns the current contents of the file. It fails with ENODEV once the cgroup is gone.
	Read() ([]byte, error)
	// Wait returns nil when the file may have changed since the last Read, or ctx's error if ctx
	// ends first. If the cgroup is removed, a Wait that has begun continues to sleep. One that
	// begins later returns at once.
	Wait(ctx context.Context) error
	Close() error
}

// WatchBackend is implemented by a Backend whose files announce changes. Errors wrap the errno.
type WatchBackend interface {
	Watch(name string) (Watch, error)
}

// Watch opens name to wait for its changes. A file that announces none may be watched, but never
// wakes. If the file system cannot announce any, the error is ErrUnsupported.
func (f *FS) Watch(name string) (Watch, error) {
	return ask(f, "watch", name, WatchBackend.Watch)
}

// Watch adds the file to the runtime's poller, so that no thread sleeps for it. The poller only
// requests reading and writing from epoll, edge triggered. The kernel's notification (EPOLLERR with
// EPOLLPRI, kernfs_generic_poll) is an edge as well.
func (k *kernel) Watch(name string) (Watch, error) {
	fd, err := k.open(name, os.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	if err := f.SetReadDeadline(time.Time{}); err != nil { // the file has no poll operation
		f.Close()
		return nil, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	return &watch{file: f}, nil
}

type watch struct{ file *os.File }

func (w *watch) Read() ([]byte, error) {
	b := make([]byte, 512)
	for n := 0; ; {
		m, err := w.file.ReadAt(b[n:], int64(n))
		n += m
		switch {
		case errors.Is(err, io.EOF):
			return b[:n], nil
		case err != nil:
			return nil, err
		}
		b = append(b, make([]byte, len(b))...)
	}
}

func (w *watch) Wait(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	conn, err := w.file.SyscallConn()
	if err != nil {
		return err
	}
	expired := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(expired)
		w.file.SetReadDeadline(time.Unix(1, 0))
	})
	err = conn.Read(changed)
	if !stop() {
		<-expired
		w.file.SetReadDeadline(time.Time{})
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return ctx.Err()
	}
	return err
}

// changed asks the file itself, because the poller's first edge only means that the file was added.
func changed(fd uintptr) bool {
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLPRI}}
	n, err := unix.Poll(p, 0)
	return err == nil && n > 0
}

func (w *watch) Close() error { return w.file.Close() }
