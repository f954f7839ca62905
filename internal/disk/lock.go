package disk

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// Lock waits for the exclusive lock of an open file, flock(2). If ctx ends first, Lock fails with
// its cause. The lock ends with the last descriptor of the file.
//
// Lock tries repeatedly, with growing pauses. A blocking flock cannot be cancelled: neither ctx nor
// closing the descriptor wakes up its thread.
func Lock(ctx context.Context, fd int) error {
	for pause := 50 * time.Microsecond; ; pause = min(2*pause, 20*time.Millisecond) {
		err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}
