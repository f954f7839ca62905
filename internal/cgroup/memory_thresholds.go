package cgroup

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// thresholds wakes a watcher when a v1 job's memory crosses one of the levels around it, up or down
// (cgroup-v1/memory.rst, sections 9, 10 and 11). It also wakes the watcher when memory runs out,
// and when the kernel has to reclaim at the limit. Then private memory can grow while the total
// does not.
//
// All events arrive on one eventfd. A registration waits for a grace period of the kernel, about 8
// ms, and cannot be removed separately. So the levels are fixed and stay armed: a job that goes up
// and down registers nothing new. Closing the eventfd removes all of them. So does removing the
// cgroup, which does not wait for a grace period and sends an event.
type thresholds struct {
	dir     directory
	eventfd *os.File
	armed   map[int64]bool // levels, in bytes
}

func newThresholds(d directory) (*thresholds, error) {
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	return &thresholds{dir: d, eventfd: os.NewFile(uintptr(fd), "eventfd"), armed: map[int64]bool{}}, nil
}

func (t *thresholds) close() { t.eventfd.Close() }

// arm registers the missing levels around current, and reports whether there were any.
func (t *thresholds) arm(ctx context.Context, current int64) (added bool, err error) {
	if len(t.armed) == 0 {
		for _, event := range []struct{ file, args string }{
			{"memory.pressure_level", "low"}, {"memory.oom_control", ""},
		} {
			if err := t.register(ctx, event.file, event.args); err != nil {
				return false, err
			}
		}
	}
	below, above := levels(current)
	for _, level := range []int64{above, below} {
		if level == 0 || t.armed[level] {
			continue
		}
		if err := t.register(ctx, "memory.usage_in_bytes", fmt.Sprint(level)); err != nil {
			return false, err
		}
		t.armed[level], added = true, true
	}
	return added, nil
}

// register adds one more event.
func (t *thresholds) register(ctx context.Context, file, args string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	f, err := t.dir.OpenFile(file, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer f.Close() // the kernel keeps what it needs
	conn, err := t.eventfd.SyscallConn()
	if err != nil {
		return err
	}
	var written error
	err = conn.Control(func(fd uintptr) {
		written = t.dir.Write("cgroup.event_control", fmt.Sprintf("%d %d %s", fd, f.Fd(), args))
	})
	if err != nil {
		return err
	}
	return written
}

// wait sleeps until there is an event. No thread is blocked.
func (t *thresholds) wait(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { t.eventfd.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	var count [8]byte
	_, err := t.eventfd.Read(count[:])
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// step returns how far memory may move unnoticed from n bytes: by a 64th, but at least by 1 MiB.
func step(n int64) int64 { return max(1<<20, n/64&^4095) }

// near reports whether memory has hardly moved.
func near(before, after int64) bool {
	d := after - before
	return max(d, -d) < step(before)
}

// levels returns the fixed levels around n bytes. Each is one step above the previous. The lowest
// is 0, which is not a threshold.
func levels(n int64) (below, above int64) {
	for above = step(0); above <= n; above += step(above) {
		below = above
	}
	return below, above
}
