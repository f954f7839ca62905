package proc

import (
	"fmt"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// CheckMap fails with ErrHangs if a thread holds the memory map of the process pid. uid is as for
// Read. A map that is only in use is waited for, for seconds at most. CheckMap succeeds if the
// process is gone, or if the kernel has no /proc/PID/clear_refs.
//
// A reader would not wait for other readers, and these can hold the map just as long. So CheckMap
// clears the peak of the process's resident memory (VmHWM), which takes the lock for writing.
// Whoever waits behind it gets the map right afterwards. So CheckMap tries until it did not have to
// wait.
func (e *Environs) CheckMap(uid, pid int) error {
	lock := func() (waited bool) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		before := sleeps()
		err := e.procfs.Write(strconv.Itoa(pid)+"/clear_refs", "5")
		return err == nil && sleeps() != before
	}
	for end := time.Now().Add(e.wait); time.Now().Before(end); {
		waited, ok := bounded(e, uid, pid, lock)
		if !ok {
			break
		}
		if !waited {
			return nil
		}
	}
	return fmt.Errorf("process %d: %w", pid, ErrHangs)
}

// sleeps returns how often this thread has waited in the kernel so far.
func sleeps() int64 {
	var use unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &use); err != nil {
		return 0
	}
	return use.Nvcsw
}
