package disk

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// Lock waits for the lock of an open file, flock(2), which is for one process at a time. Lock fails
// with the cause of ctx when that ends first. The lock ends with the last descriptor of the file.
//
// Lock tries again and again, with pauses that grow. A flock that blocks cannot be called off:
// neither ctx nor closing the descriptor wakes its thread.
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
