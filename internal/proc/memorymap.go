package proc

import (
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// longestUse is how long a thread locks a memory map at most if it only maps or touches memory.
const longestUse = 10 * time.Millisecond

// CheckMap fails with ErrHangs if a thread holds the memory map of the process pid. uid is as for
// Read. A map that is only in use is waited for, for seconds at most. CheckMap succeeds if the
// process is gone, or if the kernel has no /proc/PID/clear_refs.
//
// A reader would not wait for other readers, and these can hold the map just as long. So CheckMap
// clears the peak of the process's resident memory (VmHWM), which takes the lock for writing.
// Whoever waits behind it gets the map right afterwards. So CheckMap tries until it did not have to
// wait. The map of a busy process may never be free. So CheckMap also succeeds after three waits
// that were shorter than longestUse.
func (e *Environs) CheckMap(uid, pid int) error {
	lock := func() (waited time.Duration) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		dir, err := Running(e.procfs, pid) // a first thread that has ended has no map
		if err != nil {
			return 0
		}
		began, before := time.Now(), sleeps()
		err = e.procfs.Write(dir+"/clear_refs", "5")
		if err != nil || sleeps() == before {
			return 0
		}
		return max(time.Since(began), 1)
	}
	short := 0
	for end := time.Now().Add(e.wait); time.Now().Before(end); {
		waited, ok := bounded(e, uid, pid, lock)
		if !ok {
			break
		}
		if waited < longestUse {
			short++
		}
		if waited == 0 || short == 3 {
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
