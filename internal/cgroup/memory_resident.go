package cgroup

import (
	"errors"
	"fmt"
)

// Resident is what a job holds in memory without caches, in bytes.
type Resident struct {
	// Used is anonymous and shared memory now; where Exact is false, all of the job's memory, which
	// is at least that.
	Used  int64
	Exact bool
	// Kernel is kernel memory beside that, as far as the kernel certainly cannot have it back
	// before the job gives it up (see memory_kernel.go). Kernel is 0 if Exact is false, since Used
	// has it.
	Kernel int64
	// Seen is the greatest sum of anonymous and shared memory that a sample of Watch has shown so
	// far. Unlike in Usage.MemPeak, nothing in it is inferred.
	Seen int64
}

// Resident reads what the job holds. If all of its memory, page cache included, is enough or less,
// Resident reads one small file instead of the kernel's long one. Resident fails with ErrNotFound
// when the job has no cgroup, and with ErrUnsupported without a memory controller.
func (j *Job) Resident(enough int64) (Resident, error) {
	d, ok := j.with("memory")
	if !ok {
		return Resident{}, fmt.Errorf("memory of job %s: no memory controller: %w", j.id, ErrUnsupported)
	}
	f := d.memory()
	p, _ := d.loadPeak()
	r := &reader{dir: d}
	before, sockets := r.number(f.current), r.sockets()
	if before != nil && *before+sockets <= enough {
		return Resident{Used: *before + sockets, Seen: p.seen}, nil
	}
	m := r.keyed(f.stat)
	if err := errors.Join(r.errs...); err != nil {
		return Resident{}, fmt.Errorf("memory of job %s: %w", j.id, err)
	}
	if m == nil || before == nil {
		return Resident{}, fmt.Errorf("memory of job %s: %w", j.id, ErrNotFound)
	}
	held := Resident{Used: int64(m[f.anon]) + int64(m[f.shmem]), Exact: true}
	held.Seen = max(p.seen, held.Used)
	if d.h.v2 {
		held.Kernel = kernelV2(m, *before)
		return held, nil
	}
	kernel, err := r.kernelV1(j.tree.proc)
	if err := errors.Join(append(r.errs, err)...); err != nil {
		return Resident{}, fmt.Errorf("memory of job %s: %w", j.id, err)
	}
	held.Kernel = kernel + sockets
	return held, nil
}
