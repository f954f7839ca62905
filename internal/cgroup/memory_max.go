package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const (
	reclaimFile  = "memory.reclaim" // since Linux 5.19
	reclaimStep  = 256 << 20
	reclaimTime  = 5 * time.Second // how long a job has to give memory back
	reclaimPause = 50 * time.Millisecond
)

// setAside is the memory that the cpus may have charged in advance: MEMCG_CHARGE_BATCH pages each
// (mm/memcontrol.c).
var setAside = int64(64 * os.Getpagesize() * runtime.NumCPU())

// lowerMemoryMax writes a memory.max that may be below what the job uses. The kernel accepts any
// value, and kills processes if reclaim is not enough (memory_max_write). So memory is reclaimed
// first. If that is not enough, the old limit stays and the error is ErrInUse. A process may still
// be killed if the job grows at the same moment.
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

// reclaimTo makes the kernel reclaim the memory that the job uses above limit. It fails with
// ErrInUse if that takes longer than reclaimTime. On kernels without memory.reclaim it does
// nothing: they reclaim when memory.max is written.
func (d directory) reclaimTo(limit int64) error {
	for deadline := time.Now().Add(reclaimTime); ; {
		current, err := d.amount(v2Memory.current)
		if err != nil || current <= limit {
			return err
		}
		err = d.Write(reclaimFile, strconv.FormatInt(min(current-limit, reclaimStep), 10))
		less := errors.Is(err, unix.EAGAIN) // the kernel reclaimed less
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil && !less:
			return err
		case less && current <= limit+setAside: // memory_max_write reclaims the rest
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("%s: %d bytes in use, %d wanted: %w",
				d.Path(v2Memory.current), current, limit, ErrInUse)
		case less:
			time.Sleep(reclaimPause)
		}
	}
}

func (d directory) amount(file string) (int64, error) {
	n, err := d.Uint(file)
	return int64(min(n, 1<<63-1)), err
}
