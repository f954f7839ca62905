package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// Usage is what a job has used, as the kernel counts it. A nil field is one that this kernel does not tell. Everything
// includes what the job made below its cgroup, and processes that have ended.
type Usage struct {
	CPU, User, System *time.Duration // cpu time; User and System add up to CPU within the kernel's resolution

	Anon, Shmem, File *int64 // bytes now: private, shared, and page cache of files

	// MemPeak is the greatest sum of Anon and Shmem, in bytes. The kernel does not count it: Watch samples it, so it is nil
	// before the first sample of a job, and a peak between two samples may be missed as far as CgroupPeak does not tell of it.
	MemPeak *int64
	// CgroupPeak is the greatest memory use in bytes, page cache and kernel memory included. Where the kernel does not count
	// it (v2 before Linux 5.19; Has("peak") is false) it is the greatest that Watch has seen, nil before that.
	CgroupPeak *int64
	// MemSwapPeak is the same with swap. On v2 it is the sum of the two peaks, which need not have been at one time; nil
	// before Linux 6.5, which does not tell the one of swap.
	MemSwapPeak *int64

	MemLimit, MemSwapLimit *int64 // bytes; nil also when there is no limit

	OOMKills       *int64 // processes that the kernel killed for lack of memory
	MemFailcnt     *int64 // how often the memory limit was hit; nothing need have been killed
	MemSwapFailcnt *int64 // the same for memory and swap together; on v2 for swap

	HugetlbPeak *int64 // bytes, the sum over all page sizes of each one's peak; v2 does not tell it
	MajorFaults *int64 // page faults that had to wait for a device

	Throttled *time.Duration // how long the cpu quota kept it from running, over all cpus
	// Pressure totals (PSI): how long some or all of its tasks waited. They are of the job's v2 directory, which a hybrid
	// node has as well; v1 has none.
	CPUSome, MemorySome, MemoryFull, IOSome, IOFull *time.Duration

	Pids, PidsPeak *int64 // tasks, threads included
}

// Usage reads what the job has used. It fails with ErrNotFound when the job has no cgroup; with another error what
// could be read is there all the same.
func (j *Job) Usage() (Usage, error) {
	var u Usage
	r := &reader{}
	u.readCPU(r, j)
	if d, ok := j.with("memory"); ok {
		r.dir = d
		s := r.sample()
		if d.h.v2 {
			u.readMemoryV2(r)
		} else {
			u.readMemoryV1(r)
		}
		if s != nil {
			u.Anon, u.Shmem, u.File, u.MajorFaults = &s.anon, &s.shmem, &s.file, s.faults
			u.MemPeak, u.CgroupPeak = r.peaks(s)
		}
	}
	if d, ok := j.with("pids"); ok {
		r.dir = d
		u.Pids, u.PidsPeak = r.number("pids.current"), r.number("pids.peak")
	}
	if d, ok := j.with("hugetlb"); ok {
		r.dir = d
		u.HugetlbPeak = r.hugetlbPeak()
	}
	u.readPressure(r, j)
	if !r.found && !j.Exists() {
		return Usage{}, fmt.Errorf("usage of job %s: %w", j.id, ErrNotFound)
	}
	if err := errors.Join(r.errs...); err != nil {
		return u, fmt.Errorf("usage of job %s: %w", j.id, err)
	}
	return u, nil
}

func (u *Usage) readCPU(r *reader, j *Job) {
	if d, ok := j.with("cpu"); ok && !d.h.v2 {
		r.dir = d
		u.Throttled = duration(field(r.keyed("cpu.stat"), "throttled_time"), time.Nanosecond)
	}
	if d, ok := j.with("cpuacct"); ok {
		r.dir = d
		u.CPU = duration(r.number("cpuacct.usage"), time.Nanosecond)
		// Unlike cpuacct.usage_user and _sys, which count ticks, these are scaled to what was really used.
		m := r.keyed("cpuacct.stat")
		u.User, u.System = duration(field(m, "user"), time.Second/userHZ), duration(field(m, "system"), time.Second/userHZ)
		return
	}
	if d, ok := j.v2(); ok { // every v2 cgroup counts cpu time, whatever its controllers
		r.dir = d
		m := r.keyed("cpu.stat")
		u.CPU = duration(field(m, "usage_usec"), time.Microsecond)
		u.User = duration(field(m, "user_usec"), time.Microsecond)
		u.System = duration(field(m, "system_usec"), time.Microsecond)
		if d.h.has("cpu") {
			u.Throttled = duration(field(m, "throttled_usec"), time.Microsecond)
		}
	}
}

// userHZ is the unit of cpuacct.stat, part of the kernel's interface on every architecture that Go runs on.
const userHZ = 100

func (u *Usage) readMemoryV1(r *reader) {
	u.MemSwapPeak = r.number("memory.memsw.max_usage_in_bytes")
	u.MemLimit, u.MemSwapLimit = r.limit(memoryLimit), r.limit(memswLimit)
	u.MemFailcnt, u.MemSwapFailcnt = r.number("memory.failcnt"), r.number("memory.memsw.failcnt")
	u.OOMKills = r.oomKillsV1()
}

func (u *Usage) readMemoryV2(r *reader) {
	u.MemLimit = r.limit(memoryMax)
	if swap := r.limit(swapMax); swap != nil && u.MemLimit != nil {
		both := *swap + *u.MemLimit
		u.MemSwapLimit = &both
	}
	if mem, swap := r.number("memory.peak"), r.number("memory.swap.peak"); mem != nil && swap != nil {
		both := *mem + *swap
		u.MemSwapPeak = &both
	}
	m := r.keyed(memoryEvents) // hierarchical: what happened below the job counts
	u.OOMKills, u.MemFailcnt = field(m, "oom_kill"), field(m, "max")
	u.MemSwapFailcnt = field(r.keyed("memory.swap.events"), "max")
}

// oomKillsV1 sums over the job's children: on v1 a kill counts in the cgroup of its victim alone.
func (r *reader) oomKillsV1() *int64 {
	var sum *int64
	root := r.dir
	err := root.walk(func(d directory) error {
		r.dir = d
		if n := field(r.keyed("memory.oom_control"), "oom_kill"); n != nil { // since Linux 4.13
			if sum == nil {
				sum = new(int64)
			}
			*sum += *n
		}
		return nil
	})
	r.dir = root
	if err != nil && !gone(err) {
		r.errs = append(r.errs, err)
	}
	return sum
}

// reader reads files of a directory. What does not exist is nil; other errors are kept.
type reader struct {
	dir   directory
	found bool // one file at least was there
	errs  []error
}

func (r *reader) note(err error) bool {
	switch {
	case err == nil:
		r.found = true
		return true
	case gone(err), errors.Is(err, fs.ErrNotExist):
	default:
		r.errs = append(r.errs, err)
	}
	return false
}

func (r *reader) number(file string) *int64 {
	n, err := r.dir.Uint(file)
	if !r.note(err) {
		return nil
	}
	return ptr(n)
}

// limit reads a limit in bytes; nil when there is none.
func (r *reader) limit(file string) *int64 {
	b, err := r.dir.ReadFile(file)
	if !r.note(err) {
		return nil
	}
	n, err := parseBytes(trim(b))
	if err != nil {
		r.errs = append(r.errs, &kernfs.ParseError{File: r.dir.Path(file), Text: trim(b), Err: err})
	}
	return n
}

func (r *reader) keyed(file string) map[string]uint64 {
	m, err := r.dir.Keyed(file)
	r.note(err)
	return m
}

// field returns a value of a flat-keyed file, nil when it is not there.
func field(m map[string]uint64, key string) *int64 {
	n, ok := m[key]
	if !ok {
		return nil
	}
	return ptr(n)
}

func ptr(n uint64) *int64 {
	i := int64(min(n, 1<<63-1))
	return &i
}

func duration(n *int64, unit time.Duration) *time.Duration {
	if n == nil || *n > int64(1<<63-1)/int64(unit) {
		return nil
	}
	d := time.Duration(*n) * unit
	return &d
}

// CPUTime returns the cpu time that the job has used, processes that have ended included. It fails with ErrNotFound when the job has no
// cgroup, and with ErrUnsupported where nobody counts.
func (j *Job) CPUTime() (time.Duration, error) {
	if d, ok := j.with("cpuacct"); ok {
		ns, err := d.Uint("cpuacct.usage")
		if err != nil {
			return 0, fmt.Errorf("cpu time of job %s: %w", j.id, j.found(err))
		}
		return time.Duration(min(ns, 1<<63-1)), nil
	}
	d, ok := j.v2()
	if !ok {
		return 0, fmt.Errorf("cpu time of job %s: no cpuacct controller: %w", j.id, ErrUnsupported)
	}
	m, err := d.Keyed("cpu.stat")
	if err != nil {
		return 0, fmt.Errorf("cpu time of job %s: %w", j.id, j.found(err))
	}
	used := duration(field(m, "usage_usec"), time.Microsecond)
	if used == nil {
		return 0, fmt.Errorf("cpu time of job %s: %w", j.id, &kernfs.ParseError{File: d.Path("cpu.stat"), Text: fmt.Sprint(m), Err: ErrUnsupported})
	}
	return *used, nil
}
