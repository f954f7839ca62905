package cgroup

import (
	"errors"
	"fmt"
)

// Resident is what a job holds in memory without page cache, in bytes.
type Resident struct {
	// Used is anonymous and shared memory now; where Exact is false, all of the job's memory, which is at least that.
	Used  int64
	Exact bool
	// Seen is the greatest Used that a sample of Watch has shown so far; unlike Usage.MemPeak nothing in it is inferred.
	Seen int64
}

// Resident reads what the job holds. Where all of its memory, page cache included, is enough or less it leaves it at
// that, which is one small file instead of the kernel's long one. It fails with ErrNotFound when the job has no cgroup,
// and with ErrUnsupported without a memory controller.
func (j *Job) Resident(enough int64) (Resident, error) {
	d, ok := j.with("memory")
	if !ok {
		return Resident{}, fmt.Errorf("memory of job %s: no memory controller: %w", j.id, ErrUnsupported)
	}
	f := &v1Memory
	if d.h.v2 {
		f = &v2Memory
	}
	p, _ := d.loadPeak()
	r := &reader{dir: d}
	if all := r.number(f.current); all != nil && *all <= enough {
		return Resident{Used: *all, Seen: p.seen}, nil
	}
	m := r.keyed(f.stat)
	if err := errors.Join(r.errs...); err != nil {
		return Resident{}, fmt.Errorf("memory of job %s: %w", j.id, err)
	}
	if m == nil {
		return Resident{}, fmt.Errorf("memory of job %s: %w", j.id, ErrNotFound)
	}
	used := int64(m[f.anon]) + int64(m[f.shmem])
	return Resident{Used: used, Exact: true, Seen: max(p.seen, used)}, nil
}
