package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// Usage is what a job has used, as the kernel counts it. A nil field is one that this kernel does
// not tell. Everything includes what the job made below its cgroup, and processes that have ended.
type Usage struct {
	CPU, User, System *time.Duration // cpu time; User and System add up to CPU within the kernel's resolution

	Anon, Shmem, File *int64 // bytes now: private, shared, and page cache of files

	// MemPeak is the greatest sum of Anon and Shmem, in bytes. The kernel does not count it, and
	// Watch samples it, so it is nil before the first sample of a job. A peak between two samples
	// may be missed as far as CgroupPeak does not tell of it.
	MemPeak *int64
	// CgroupPeak is the greatest memory use in bytes, page cache and kernel memory included. A
	// kernel may not count it (v2 before Linux 5.19; Has("peak") is false). Then it is the greatest
	// that Watch has seen, nil before that.
	CgroupPeak *int64
	// MemSwapPeak is the same with swap. On v2 it is the sum of the two peaks, which need not have
	// been at one time. Before Linux 6.5 it is nil, since the kernel does not tell the one of swap.
	MemSwapPeak *int64

	MemLimit, MemSwapLimit *int64 // bytes; nil also when there is no limit

	OOMKills       *int64 // processes that the kernel killed for lack of memory
	MemFailcnt     *int64 // how often the memory limit was hit; nothing need have been killed
	MemSwapFailcnt *int64 // the same for memory and swap together; on v2 for swap

	HugetlbPeak *int64 // bytes, the sum over all page sizes of each one's peak; v2 does not tell it
	MajorFaults *int64 // page faults that had to wait for a device

	Throttled *time.Duration // how long the cpu quota kept it from running, over all cpus
	// Pressure totals (PSI): how long some or all of its tasks waited. They are of the job's v2
	// directory, which a hybrid node has as well; v1 has none.
	CPUSome, MemorySome, MemoryFull, IOSome, IOFull *time.Duration

	Pids, PidsPeak *int64 // tasks, threads included
}

// Usage reads what the job has used. ErrNotFound is for a job without a cgroup. With another error
// the fields that could be read are set all the same.
//
// containerd/cgroups has 0 for an absent file (cgroup2/utils.go:270) and for an absent key
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
	if d, ok := j.v2(); ok { // a hybrid node has this directory as well
		r.dir = d
		if _, counted := j.with("cpuacct"); !counted {
			r.readCPUTime(&u)
		}
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

// reader reads files of a directory. A file that does not exist is nil; other errors are kept.
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
