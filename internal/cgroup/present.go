package cgroup

import (
	"errors"
	"fmt"
	"time"
)

// Present is a job's current usage. A nil field means that this kernel does not provide it.
type Present struct {
	CPU, User, System *time.Duration // cpu time so far, including processes that have ended

	Mem      *int64 // bytes, anonymous and shared
	Shmem    *int64 // the shared part of Mem
	Cache    *int64 // bytes, page cache of files
	Charged  *int64 // bytes, all that counts against the limit: page cache and the kernel's memory too
	MemLimit *int64 // bytes; nil also if there is no limit
	OOMKills *int64 // processes that the kernel killed because memory ran out
	// MemFailures counts charges beyond the limit: memory.failcnt on v1, also where reclaim made
	// room; on v2 oom of memory.events.
	MemFailures *int64

	ReadBytes, WriteBytes *int64 // see Usage
	Pids                  *int64 // tasks, including threads
}

// Present reads the job's current usage from a few files, while Usage reads all counters. Present
// fails with ErrNotFound if the job has no cgroup. With any other error, the fields that could be
// read are still set.
func (j *Job) Present() (Present, error) {
	var p Present
	var u Usage
	r := &reader{}
	if d, ok := j.with("memory"); ok {
		r.dir = d
		r.presentMemory(&p)
	}
	if d, ok := j.with("pids"); ok {
		r.dir = d
		p.Pids = r.number("pids.current")
	}
	j.readCPU(r, &u)
	j.readIO(r, &u)
	p.CPU, p.User, p.System, p.ReadBytes, p.WriteBytes = u.CPU, u.User, u.System, u.ReadBytes, u.WriteBytes
	if !r.found && !j.Exists() {
		return Present{}, fmt.Errorf("present use of job %s: %w", j.id, ErrNotFound)
	}
	if err := errors.Join(r.errs...); err != nil {
		return p, fmt.Errorf("present use of job %s: %w", j.id, err)
	}
	return p, nil
}

func (r *reader) presentMemory(p *Present) {
	if s := r.sample(); s != nil {
		used := s.used()
		p.Mem, p.Shmem, p.Cache = &used, &s.shmem, &s.file
	}
	files := r.dir.memory()
	p.Charged, p.MemLimit = r.number(files.current), r.limit(files.limit)
	if r.dir.h.v2 {
		m := r.keyed(memoryEvents)
		p.OOMKills, p.MemFailures = field(m, "oom_kill"), field(m, "oom")
		return
	}
	p.OOMKills, p.MemFailures = r.oomKills(), r.number(memoryFailcnt)
}

// Mem returns the job's current anonymous and shared memory in bytes, or nil if it cannot be read.
func (j *Job) Mem() *int64 {
	d, ok := j.with("memory")
	if !ok {
		return nil
	}
	s := (&reader{dir: d}).sample()
	if s == nil {
		return nil
	}
	used := s.used()
	return &used
}
