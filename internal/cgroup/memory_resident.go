package cgroup

import (
	"errors"
	"fmt"
)

// Resident is a job's memory without caches, in bytes.
type Resident struct {
	// Used is anonymous and shared memory now. If Exact is false it is all of the job's memory,
	// which is at least as much.
	Used  int64
	Exact bool
	// Kernel is the kernel memory in addition to Used that the kernel certainly cannot reclaim
	// before the job releases it (see memory_kernel.go). It is 0 if Exact is false, since Used
	// includes it then.
	Kernel int64
	// Seen is the greatest sum of anonymous and shared memory in any sample of Watch. Unlike
	// Usage.MemPeak, it includes nothing that is inferred.
	Seen int64
}

// Resident reads the job's memory. If all of its memory, including page cache, is at most enough,
// Resident reads only one small file instead of the kernel's long one. It fails with ErrNotFound if
// the job has no cgroup, and with ErrUnsupported if there is no memory controller.
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
