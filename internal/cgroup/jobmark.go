package cgroup

import (
	"encoding/json"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
)

// jobMark is the extended attribute of a job's cgroup with its JobMark.
const jobMark = "trusted.hookhost.job"

// maxJobMark is less than the kernel's limit for an attribute (XATTR_SIZE_MAX, 64 KiB).
const maxJobMark = 60 << 10

// JobMark names the job that a cgroup belongs to, and contains the job's assignment. The mark
// exists as long as the cgroup, even if files are lost. A resize replaces the whole mark.
//
// The kernel's files show the limits in force. The host keeps track of time and suspensions.
type JobMark struct {
	// Begin is the execjob_begin that created the cgroup, with the job as of the last resize.
	// Session and kill_delay are from its first launch. Begin is nil until the cgroup is complete.
	Begin    *hostapi.Request `json:"begin"`
	Assigned `json:"granted"`
}

// Assigned is a job's share of its host, as decided by begin or by its last resize.
type Assigned struct {
	// Limits are the job's limits as they were decided. Nil means unknown. The kernel's limits may
	// differ, for example if the kernel does not limit mem.
	Limits *Limits `json:"limits,omitempty"`
	NCPUs  int     `json:"ncpus"`
	// AllMem means that the job requested no mem, and that Limits.Mem is all that jobs could have
	// at the time.
	AllMem bool `json:"all_mem,omitempty"`
	// BegunMicros is when the job began, in microseconds of proc.SinceBoot. The kernel's log uses
	// the same clock.
	BegunMicros int64 `json:"begun_us,omitempty"`
	PerTask     bool  `json:"per_task,omitempty"` // the job's ranks have subgroups
	// Delegated means that the job's owner was given the cgroup that the job's processes enter.
	Delegated bool `json:"delegated,omitempty"`
}

// Grouped reports whether the job was prepared by Split.
func (a Assigned) Grouped() bool { return a.PerTask || a.Delegated }

// SetJobMark stores r with the job's cgroup and replaces an earlier mark. If the request is too
// long for an attribute, as on thousands of hosts, the job's chunks are left out. The event's
// vnodes are never stored.
func (j *Job) SetJobMark(r JobMark) error {
	if r.Begin != nil && len(r.Begin.VnodeList) > 0 {
		begin := *r.Begin
		begin.VnodeList, r.Begin = nil, &begin
	}
	b, err := json.Marshal(r)
	if err == nil && len(b) > maxJobMark && r.Begin != nil && r.Begin.Job != nil {
		job, begin := *r.Begin.Job, *r.Begin
		job.ExecVnode, job.ExecHost2, job.Schedselect = "", "", ""
		begin.Job, r.Begin = &job, &begin
		b, err = json.Marshal(r)
	}
	if err != nil {
		return fmt.Errorf("mark of job %s: %w", j.id, err)
	}
	return j.SetMark(jobMark, b)
}

// JobMark returns what SetJobMark stored. If there is no mark, the error is unix.ENODATA. If the
// mark does not parse, names no job or names another one, it is ErrNotJobs. In both cases the
// cgroup does not belong to a job of hookhost.
func (j *Job) JobMark() (JobMark, error) {
	b, err := j.Mark(jobMark)
	if err != nil {
		return JobMark{}, err
	}
	return parseJobMark(j.id, b)
}

// FindJobMark is like JobMark for a cgroup that may belong to no job of hookhost. found is false if
// it does not, or if it is gone.
func (j *Job) FindJobMark() (r JobMark, found bool, err error) {
	r, err = j.JobMark()
	switch {
	case err == nil:
		return r, true, nil
	case errors.Is(err, unix.ENODATA), errors.Is(err, ErrNotJobs), errors.Is(err, ErrNotFound):
		return JobMark{}, false, nil
	}
	return JobMark{}, false, err
}

func parseJobMark(id string, b []byte) (JobMark, error) {
	var r JobMark
	if err := json.Unmarshal(b, &r); err != nil {
		return JobMark{}, fmt.Errorf("mark of job %s: %w: %w", id, ErrNotJobs, err)
	}
	if r.Begin == nil || r.Begin.Job == nil || r.Begin.Job.ID != id {
		return JobMark{}, fmt.Errorf("mark of job %s: %w", id, ErrNotJobs)
	}
	return r, nil
}
