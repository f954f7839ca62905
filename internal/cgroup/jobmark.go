package cgroup

import (
	"encoding/json"
	"fmt"

	"github.com/hookhost/hookhost/hostapi"
)

// jobMark is the extended attribute of a job's cgroup that holds its JobMark.
const jobMark = "trusted.hookhost.job"

// maxJobMark is below what the kernel takes for an attribute (XATTR_SIZE_MAX, 64 KiB).
const maxJobMark = 60 << 10

// JobMark says whose a cgroup is and what the job was granted. The mark lives as long as the
// cgroup, whatever becomes of files. A resize replaces it as a whole.
//
// The kernel's own files say what is in force. The host counts time and suspensions.
type JobMark struct {
	// Begin is the execjob_begin that the cgroup was made for, its job as the last resize left it.
	Begin   *hostapi.Request `json:"begin"`
	Granted `json:"granted"`
}

// Granted is what a job was given of its host by its begin, or by its last resize.
type Granted struct {
	// Limits are the job's limits as they were decided; nil is not known. The kernel may have
	// others of them, as where it does not limit mem.
	Limits *Limits `json:"limits,omitempty"`
	NCPUs  int     `json:"ncpus"`
	// AllMem says that Limits.Mem is all that jobs could have then, for a job that asked for none.
	AllMem bool `json:"all_mem,omitempty"`
	// BegunMicros is when the job began, in microseconds of proc.SinceBoot. The kernel's log has
	// the same clock.
	BegunMicros int64 `json:"begun_us,omitempty"`
	PerTask     bool  `json:"per_task,omitempty"` // its ranks have cgroups of their own
	// Part says that Limits are from an earlier version, which noted only what jobs share out. They
	// are no limits to put in force.
	Part bool `json:"part,omitempty"`
}

// SetJobMark keeps r with the job's cgroup, in place of an earlier one. The job's chunks are left
// out where they make the request too long for an attribute, as on thousands of hosts. The vnodes
// of the event are not kept.
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

// JobMark returns what SetJobMark kept. A cgroup without that mark is unix.ENODATA, and one whose
// mark does not parse or is of another job is ErrNotJobs. Neither is the cgroup of a job.
func (j *Job) JobMark() (JobMark, error) {
	b, err := j.Mark(jobMark)
	if err != nil {
		return JobMark{}, err
	}
	return parseJobMark(j.id, b)
}

func parseJobMark(id string, b []byte) (JobMark, error) {
	r := struct {
		JobMark
		earlier
	}{}
	if err := json.Unmarshal(b, &r); err != nil {
		return JobMark{}, fmt.Errorf("mark of job %s: %w: %w", id, ErrNotJobs, err)
	}
	if r.Begin == nil || r.Begin.Job == nil || r.Begin.Job.ID != id {
		return JobMark{}, fmt.Errorf("mark of job %s: %w", id, ErrNotJobs)
	}
	if r.State != nil {
		r.Granted = *r.State
		r.Granted.Limits, r.Part = r.earlier.Limits, true
	}
	return r.JobMark, nil
}

// KillDelay returns the job's kill_delay in seconds, nil for none. told is what the host says of
// it. An earlier version noted it on the mark alone.
func (j *Job) KillDelay(told *int) *int {
	if told != nil {
		return told
	}
	m, err := j.JobMark()
	if err != nil {
		return nil
	}
	return m.Begin.Job.KillDelay
}

// earlier is where an earlier version had a job's Granted. Jobs live on over an upgrade.
type earlier struct {
	State  *Granted `json:"state"`
	Limits *Limits  `json:"limits"`
}
