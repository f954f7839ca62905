package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const (
	reclaimFile  = "memory.reclaim" // since Linux 5.19
	reclaimStep  = 256 << 20
	reclaimTime  = 5 * time.Second // bounds how long a job is asked to give memory back
	reclaimPause = 50 * time.Millisecond
)

// lowerMemoryMax writes a memory.max that may be below what the job uses. The kernel takes any
// value, and kills if reclaim is not enough (memory_max_write). So the job gives memory back first,
// and one that does not keeps its limit: ErrInUse. A job that grows at this moment may be killed.
func (d directory) lowerMemoryMax(value string) error {
	limit, err := parseBytes(value)
	if err == nil && limit != nil {
		err = d.reclaimTo(*limit)
	}
	if err != nil {
		return err
	}
	return d.Write(memoryMax, value)
}

// reclaimTo has the kernel reclaim from the job what it uses above limit. reclaimTo fails with
// ErrInUse when that does not get there in reclaimTime. Older kernels reclaim when memory.max is
// written, and not before.
func (d directory) reclaimTo(limit int64) error {
	for deadline := time.Now().Add(reclaimTime); ; time.Sleep(reclaimPause) {
		current, err := d.amount(v2Memory.current)
		if err != nil {
			return err
		}
		for above := current - limit; err == nil && above > 0; above -= reclaimStep {
			err = d.Write(reclaimFile, strconv.FormatInt(min(above, reclaimStep), 10))
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case !errors.Is(err, unix.EAGAIN): // the kernel got less
			return err
		case current <= limit+setAside: // memory_max_write gets that
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("%s: %d bytes in use, %d wanted: %w",
				d.Path(v2Memory.current), current, limit, ErrInUse)
		}
	}
}

func (d directory) amount(file string) (int64, error) {
	n, err := d.Uint(file)
	return int64(min(n, 1<<63-1)), err
}
