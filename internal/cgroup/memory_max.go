package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// reclaimTime bounds how long a v2 job is given to fall below a new memory.max.
const reclaimTime = 5 * time.Second

const (
	reclaimFile = "memory.reclaim" // since Linux 5.19
	reclaimStep = 256 << 20
	finalFreeze = time.Second
)

// setMemoryMax writes memory.max. The kernel takes any value, and kills when the job does not fit
// (memory_max_write). So the job is brought below the value first: memory.high keeps it from
// growing, and memory.reclaim, or memory.high itself, makes it give back. At the moment of the
// write a job that is near the value is frozen, so that it cannot grow past it. When the job does
// not fall below the value in reclaimTime it fails with ErrInUse and memory.max is what it was.
func (d directory) setMemoryMax(value string) error {
	want, err := parseBytes(value)
	if err != nil {
		return err
	}
	if want == nil {
		return d.Write(memoryMax, value)
	}
	limit := *want
	before, err := d.Keyed(memoryEvents)
	if err != nil {
		return err
	}
	high, err := d.ReadFile(memoryHigh)
	if err != nil {
		return err
	}
	restore := func() error { return nil }
	if h, err := parseBytes(trim(high)); err != nil {
		return err
	} else if h == nil || *h > limit {
		marked := d.SetXattr(".", highMark, []byte(trim(high))) == nil // for those who come after this process
		restore = func() error {
			err := d.Write(memoryHigh, trim(high))
			if err == nil && marked {
				err = d.SetXattr(".", highMark, nil)
			}
			return err
		}
		if err := d.Write(memoryHigh, value); err != nil {
			return errors.Join(err, restore())
		}
	}
	err = d.reclaimTo(limit)
	if err == nil {
		err = d.writeSafely(limit, value)
	}
	err = errors.Join(err, restore())
	after, readErr := d.Keyed(memoryEvents)
	if kills := after["oom_kill"] - before["oom_kill"]; readErr == nil && after["oom_kill"] > before["oom_kill"] {
		err = errors.Join(err, fmt.Errorf("%s: processes that the kernel killed meanwhile: %d: %w",
			d.Path(memoryMax), kills, ErrInUse))
	}
	return err
}

// highMark is the extended attribute of a job's memory directory that holds its memory.high while
// setMemoryMax has put another in its place. The attribute is empty at any other time.
const highMark = "trusted.hookhost.high"

// Mend undoes what a process that died in the middle of Apply has left in force: a memory.high that
// would throttle the job for ever. Mend must not run beside Apply. The call is idempotent, and
// fails with ErrNotFound when the job has no cgroup.
func (j *Job) Mend() error {
	d, ok := j.with("memory")
	if !ok || !d.h.v2 {
		return nil
	}
	high, err := d.Xattr(".", highMark)
	if errors.Is(err, unix.ENODATA) || err == nil && len(high) == 0 {
		return nil
	}
	if err == nil {
		err = d.Write(memoryHigh, string(high))
	}
	if err == nil {
		err = d.SetXattr(".", highMark, nil)
	}
	if err != nil {
		return fmt.Errorf("mend job %s: %w", j.id, j.found(err))
	}
	return nil
}

func (d directory) amount(file string) (int64, error) {
	n, err := d.Uint(file)
	return int64(min(n, 1<<63-1)), err
}

// reclaimTo has the kernel reclaim from the job until it uses no more than limit.
func (d directory) reclaimTo(limit int64) error {
	deadline := time.Now().Add(reclaimTime)
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		current, err := d.amount(v2Memory.current)
		if err != nil || current <= limit {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: %d bytes in use, %d wanted: %w", d.Path(v2Memory.current), current, limit, ErrInUse)
		}
		err = d.Write(reclaimFile, strconv.FormatInt(min(current-limit, reclaimStep), 10))
		if errors.Is(err, fs.ErrNotExist) { // writing memory.high reclaims as well
			err = d.Write(memoryHigh, strconv.FormatInt(limit, 10))
			time.Sleep(pause)
		} else if errors.Is(err, unix.EAGAIN) { // it got less
			err = nil
			time.Sleep(pause)
		}
		if err != nil {
			return err
		}
	}
}

// writeSafely writes memory.max when the job fits, with no process of it running if it is near the
// limit.
func (d directory) writeSafely(limit int64, value string) error {
	current, err := d.amount(v2Memory.current)
	if err != nil {
		return err
	}
	if current > limit-limit/8 {
		thaw, err := d.still()
		if err != nil {
			return err
		}
		defer thaw()
		if current, err = d.amount(v2Memory.current); err != nil {
			return err
		}
	}
	if current > limit {
		return fmt.Errorf("%s: %d bytes in use, %d wanted: %w", d.Path(v2Memory.current), current, limit, ErrInUse)
	}
	return d.Write(memoryMax, value)
}

// still freezes d for a moment. If the kernel cannot, or a process does not stop, the job goes on
// as it was. A job that is frozen stays so.
func (d directory) still() (thaw func(), err error) {
	b, err := d.ReadFile(freezeFile)
	if errors.Is(err, fs.ErrNotExist) || err == nil && trim(b) == "1" {
		return func() {}, nil
	}
	if err == nil {
		err = d.Write(freezeFile, "1")
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), finalFreeze)
	defer cancel()
	thaw = func() { _ = d.Write(freezeFile, "0") }
	if err := d.await(ctx, "frozen", 1); err != nil {
		thaw()
		return nil, fmt.Errorf("%s: not every process stops: %w: %w", d.Path(freezeFile), ErrInUse, err)
	}
	return thaw, nil
}
