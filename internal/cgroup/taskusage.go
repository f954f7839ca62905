package cgroup

import (
	"errors"
	"fmt"
	"time"
)

// TaskUsage is what a task has used since it was made, processes that have ended included; nil is what this kernel does not tell.
// Memory that a process had before it was moved in is not the task's, but the job's.
type TaskUsage struct {
	CPU      *time.Duration
	MemPeak  *int64 // the greatest memory use in bytes, page cache and kernel memory included
	OOMKills *int64 // processes that the kernel killed for lack of memory
}

// TaskUsage reads what a task has used. It fails with ErrNotFound when there is no such task; with another error what could be read is
// there all the same.
func (j *Job) TaskUsage(name string) (TaskUsage, error) {
	var u TaskUsage
	r := &reader{}
	for _, d := range j.taskDirs() {
		sub, err := d.Sub(name)
		if err != nil {
			return u, err
		}
		r.dir = directory{FS: sub, h: d.h}
		switch {
		case d.h.has("cpuacct"):
			u.CPU = duration(r.number("cpuacct.usage"), time.Nanosecond)
		case d.h.v2 && j.tree.with("cpuacct") == nil: // every v2 cgroup counts cpu time
			u.CPU = duration(field(r.keyed("cpu.stat"), "usage_usec"), time.Microsecond)
		}
		switch {
		case !d.h.has("memory"):
		case d.h.v2:
			u.MemPeak = r.number(v2Memory.peak)
			u.OOMKills = field(r.keyed(memoryEvents), "oom_kill")
		default:
			u.MemPeak = r.number(v1Memory.peak)
			u.OOMKills = r.oomKillsV1()
		}
	}
	if !r.found {
		return TaskUsage{}, fmt.Errorf("usage of task %s of job %s: %w", name, j.id, ErrNotFound)
	}
	if err := errors.Join(r.errs...); err != nil {
		return u, fmt.Errorf("usage of task %s of job %s: %w", name, j.id, err)
	}
	return u, nil
}
