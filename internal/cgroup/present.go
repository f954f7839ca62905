package cgroup

import (
	"errors"
	"fmt"
	"time"
)

// Present is a job's current usage. A nil field means that this kernel does not provide it.
type Present struct {
	CPU      *time.Duration // cpu time so far, including processes that have ended
	Mem      *int64         // bytes, anonymous and shared
	Cache    *int64         // bytes, page cache of files
	MemLimit *int64         // bytes; nil also if there is no limit
	Pids     *int64         // tasks, including threads
	OOMKills *int64         // processes that the kernel killed because memory ran out

	ReadBytes, WriteBytes *int64 // so far, as in Usage
}

// Present reads the job's current usage from a few files, while Usage reads all counters. Present
// fails with ErrNotFound if the job has no cgroup. With any other error, the fields that could be
// read are still set.
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
	var u Usage
	for _, name := range []string{"io", "blkio"} {
		if d, ok := j.with(name); ok {
			r.dir = d
			r.readIO(&u)
		}
	}
	p.ReadBytes, p.WriteBytes = u.ReadBytes, u.WriteBytes
	p.CPU = j.cpuTime(r)
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
		p.Mem, p.Cache = &used, &s.file
	}
	p.MemLimit = r.limit(r.dir.memory().limit)
	p.OOMKills = r.oomKills()
}
