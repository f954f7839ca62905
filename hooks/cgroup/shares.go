package main

import (
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// shares is the sum of the proportional shares of processes in their memory. It is read in the
// background, since the kernel walks all page tables for it. It also waits for the memory map of
// each process (mmap_lock), which the user can have held by a file system of FUSE.
type shares struct {
	begun time.Time
	since atomic.Int64 // when the file of one process was begun, a time.Duration after begun

	done  chan struct{} // closed when the others have been set
	sum   int64
	spent time.Duration // cpu time
	err   error
}

const (
	quickShares = 50 * time.Millisecond // how long a sample waits for them
	longShares  = 30 * time.Second      // how long it does without those of one process
)

// readShares reads the shares of the processes with these directories (proc_pid_smaps(5), since
// Linux 5.4).
func readShares(procfs *kernfs.FS, dirs []string) *shares {
	r := &shares{begun: time.Now(), done: make(chan struct{})}
	go func() {
		defer close(r.done)
		runtime.LockOSThread() // for its cpu time
		defer runtime.UnlockOSThread()
		before := threadTime()
		r.sum, r.err = r.read(procfs, dirs)
		r.spent = threadTime() - before
	}()
	return r
}

func (r *shares) read(procfs *kernfs.FS, dirs []string) (sum int64, err error) {
	for i := range dirs {
		r.since.Store(int64(time.Since(r.begun)))
		n, err := sumOf(procfs, dirs[i:i+1], "smaps_rollup", "Pss_Anon:", "Pss_Shmem:")
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// held reports whether the file of one process has been read for longer than longShares. Reading
// the files of many large processes may take longer than that.
func (r *shares) held() bool {
	return time.Since(r.begun)-time.Duration(r.since.Load()) > longShares
}

// threadTime returns the cpu time of the calling thread.
func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// held returns the anonymous and shared memory of processes, on nodes without a memory controller.
// It reads the cheapest figure first, and stops as soon as one shows that they hold no more than
// enough. The first figure is all resident memory. The second is anonymous and shared memory, with
// shared pages counted for each process. The last is the sum of their shares. known is false while
// that is being read. If that of one process is read for half a minute, the second figure counts.
func (s *processSampler) held(all footprint, enough int64) (held int64, known bool, err error) {
	procfs := s.h.roots.Proc
	if all.resident <= enough {
		s.below = true
		return all.resident, true, nil
	}
	sum, err := sumOf(procfs, all.dirs, "status", "RssAnon:", "RssShmem:")
	if err != nil || sum <= enough {
		s.below = true
		return sum, true, err
	}
	if r := s.shares; s.below && r != nil { // of a time before the job held less
		select {
		case <-r.done:
			s.shares = nil
		default:
		}
	}
	if s.shares == nil {
		s.shares, s.below = readShares(procfs, all.dirs), false
		select {
		case <-s.shares.done:
		case <-time.After(quickShares):
		}
	}
	r := s.shares
	select {
	case <-r.done:
	default:
		return sum, r.held(), nil
	}
	if s.shares = nil; r.sum > 0 {
		sum = r.sum
	}
	return sum, true, r.err
}
