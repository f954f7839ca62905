package proc

import (
	"time"

	"golang.org/x/sys/unix"
)

// SinceBoot is CLOCK_MONOTONIC: the same for all processes, and whatever becomes of the wall clock
// it tells how long something has lasted. SinceBoot does not go on while the machine is suspended
// (clock_gettime(2)).
func SinceBoot() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil { // never fails for this clock
		panic(err)
	}
	return time.Duration(ts.Nano())
}

// ticks is USER_HZ, in which /proc/PID/stat counts: 100 on every Linux that Go runs on.
const ticks = 100

// Age is how long ago a process began that has that start time. The kernel counts it on the clock
// that goes on while the machine is suspended (CLOCK_BOOTTIME).
func Age(startTime uint64) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil { // never fails for this clock
		panic(err)
	}
	return time.Duration(ts.Nano()) - time.Duration(startTime)*(time.Second/ticks)
}
