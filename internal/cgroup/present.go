package cgroup

import (
	"errors"
	"fmt"
	"time"
)

// Present is what a job uses at a moment. A nil field is one that this kernel does not tell.
type Present struct {
	CPU      *time.Duration // cpu time so far, processes that have ended included
	Mem      *int64         // bytes, anonymous and shared
	Cache    *int64         // bytes, page cache of files
	MemLimit *int64         // bytes; nil also when there is no limit
	Pids     *int64         // tasks, threads included
	OOMKills *int64         // processes that the kernel killed for lack of memory
}

// Present reads what the job uses now, a few files for those who look on. Usage reads all that is
// counted. Present fails with ErrNotFound for a job without a cgroup. With another error the fields
// that could be read are set all the same.
func (j *Job) Present() (Present, error) {
	var p Present
	r := &reader{}
	if d, ok := j.with("memory"); ok {
		r.dir = d
		r.presentMemory(&p)
	}
	if d, ok := j.with("pids"); ok {
		r.dir = d
		p.Pids = r.number("pids.current")
	}
	if d, ok := j.with("cpuacct"); ok {
		r.dir = d
		p.CPU = duration(r.number(cpuacctUsage), time.Nanosecond)
	} else if d, ok := j.v2(); ok {
		r.dir = d
		p.CPU = duration(field(r.keyed(cpuStat), "usage_usec"), time.Microsecond)
	}
	if !r.found && !j.Exists() {
		return Present{}, fmt.Errorf("present use of job %s: %w", j.id, ErrNotFound)
	}
	if err := errors.Join(r.errs...); err != nil {
		return p, fmt.Errorf("present use of job %s: %w", j.id, err)
	}
	return p, nil
}

func (r *reader) presentMemory(p *Present) {
	f := r.dir.memory()
	m := r.keyed(f.stat)
	shmem := field(m, f.shmem) // v1 before Linux 4.13 does not count it
	if p.Mem = field(m, f.anon); p.Mem != nil && shmem != nil {
		*p.Mem += *shmem
	}
	if p.Cache = field(m, f.file); p.Cache != nil && shmem != nil {
		*p.Cache = max(0, *p.Cache-*shmem) // page cache counts shared memory
	}
	limit := memoryMax
	if !r.dir.h.v2 {
		limit = memoryLimit
	}
	p.MemLimit = r.limit(limit)
	p.OOMKills = r.oomKills()
}
