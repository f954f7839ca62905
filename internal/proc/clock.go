package proc

import (
	"time"

	"golang.org/x/sys/unix"
)

// SinceBoot returns CLOCK_MONOTONIC. It is the same in all processes and measures how long
// something lasted even if the wall clock changes. It stops while the machine is suspended
// (clock_gettime(2)).
func SinceBoot() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil { // never fails for this clock
		panic(err)
	}
	return time.Duration(ts.Nano())
}

// ticks is USER_HZ, the unit of /proc/PID/stat. It is 100 on every Linux that Go runs on.
const ticks = 100

// Age returns how long ago a process with that start time began. The kernel uses the clock that
// continues while the machine is suspended (CLOCK_BOOTTIME).
func Age(startTime uint64) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil { // never fails for this clock
		panic(err)
	}
	return time.Duration(ts.Nano()) - time.Duration(startTime)*(time.Second/ticks)
}
