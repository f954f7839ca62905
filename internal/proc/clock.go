package proc

import (
	"time"

	"golang.org/x/sys/unix"
)

// SinceBoot is CLOCK_MONOTONIC: the same for all processes, and whatever becomes of the wall clock it tells how long
// something has lasted. It does not go on while the machine is suspended (clock_gettime(2)).
func SinceBoot() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil { // never fails for this clock
		panic(err)
	}
	return time.Duration(ts.Nano())
}
