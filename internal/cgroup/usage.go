package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// Usage is a job's usage, as the kernel counts it. A nil field means that this kernel does not
// provide it. All values include the cgroups below the job's and processes that have ended.
type Usage struct {
	CPU, User, System *time.Duration // cpu time; CPU is User plus System, within the kernel's resolution

	Anon, Shmem, File *int64 // current bytes: private, shared, and page cache of files

	// MemPeak is the greatest sum of Anon and Shmem in any sample of Watch, in bytes. The kernel
	// does not record that sum. MemPeak is nil before the first sample of a job.
	// It misses a peak between two samples. CgroupPeak includes such a peak, along with page cache
	// and kernel memory.
	MemPeak *int64
	// CgroupPeak is the peak of memory in bytes, including page cache and kernel memory. v2 before
	// Linux 5.19 does not record it (Has("peak") is false). Then it is the greatest value that
	// Watch has seen, or nil.
	CgroupPeak *int64
	// MemSwapPeak is the same including swap. On v2 it is the sum of the two peaks, which may be
	// from different times. Before Linux 6.5 it is nil there, because the kernel does not record
	// the peak of swap.
	MemSwapPeak *int64

	MemLimit, MemSwapLimit *int64 // bytes; nil also if there is no limit

	OOMKills       *int64 // processes that the kernel killed because memory ran out
	OwnOOM         *int64 // how often memory ran out at the job's own limit, or below the job; only on v2
	MemFailcnt     *int64 // how often the memory limit was hit, which need not have killed anything
	MemSwapFailcnt *int64 // the same for memory and swap together; on v2 for swap

	HugetlbPeak *int64 // bytes, the sum of the peaks of all page sizes; not on v2
	MajorFaults *int64 // page faults that had to wait for a device

	// ReadBytes and WriteBytes are totals over all block devices. If a device is on top of another,
	// such as a logical volume, both count, so the bytes appear twice.
	ReadBytes, WriteBytes *int64

	Throttled *time.Duration // how long the cpu quota prevented it from running, summed over all cpus
	// Pressure totals (PSI): how long some or all of its tasks waited. They come from the job's v2
	// directory, which also exists on hybrid nodes but not on v1.
	CPUSome, MemorySome, MemoryFull, IOSome, IOFull *time.Duration

	Pids, PidsPeak *int64 // tasks, including threads
}

// Usage reads the job's usage. It fails with ErrNotFound if the job has no cgroup. With any other
// error, the fields that could be read are still set.
//
// containerd/cgroups returns 0 for a missing file (cgroup2/utils.go:270) and for a missing key
// (manager.go:648). A report must not have a 0 that nobody counted.
func (j *Job) Usage() (Usage, error) {
	var u Usage
	r := &reader{}
	for _, c := range controllers {
		if d, ok := j.with(c.name); ok && c.usage != nil {
			r.dir = d
			c.usage(r, &u)
		}
	}
	j.readCPU(r, &u)
	j.readIO(r, &u)
	if d, ok := j.v2(); ok { // a hybrid node also has this directory
		r.dir = d
		r.readPressure(&u)
	}
	if !r.found && !j.Exists() {
		return Usage{}, fmt.Errorf("usage of job %s: %w", j.id, ErrNotFound)
	}
	if err := errors.Join(r.errs...); err != nil {
		return u, fmt.Errorf("usage of job %s: %w", j.id, err)
	}
	return u, nil
}

// reader reads the files of a directory. A missing file yields nil, and other errors are collected.
type reader struct {
	dir   directory
	found bool // at least one file existed
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

// limit reads a limit in bytes, or nil if there is none.
func (r *reader) limit(file string) *int64 {
	b, err := r.dir.ReadValue(file)
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

// field returns a value of a flat-keyed file, or nil.
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
