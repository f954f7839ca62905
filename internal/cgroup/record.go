package cgroup

import (
	"encoding/json"
	"fmt"

	"github.com/hookhost/hookhost/hostapi"
)

// recordMark is the extended attribute of a job's cgroup that holds its Record.
const recordMark = "trusted.hookhost.job"

// maxRecord is below what the kernel takes for an attribute (XATTR_SIZE_MAX, 64 KiB).
const maxRecord = 60 << 10

// Record is what a cgroup itself says of its job. It lives as long as the cgroup, whatever becomes of files: who finds
// the cgroup of a job that nothing else knows of can tell a job from rubbish, and go on with it.
type Record struct {
	Begin  *hostapi.Request `json:"begin"`            // the execjob_begin that it was made for
	State  json.RawMessage  `json:"state,omitempty"`  // of the hook that made it
	Limits *Limits          `json:"limits,omitempty"` // decided for it, of which the kernel may have a part; nil where nobody noted them
	Ending bool             `json:"ending,omitempty"` // the job is over: what is left of it is to go
	// Suspended: the job is frozen, and its cpus and memory are given to others until it is resumed.
	Suspended bool `json:"suspended,omitempty"`
}

// SetRecord keeps r with the job's cgroup, in place of an earlier one. What makes a request too long for an attribute,
// the chunks of a job on thousands of hosts, is left out.
func (j *Job) SetRecord(r Record) error {
	b, err := json.Marshal(r)
	if err == nil && len(b) > maxRecord && r.Begin != nil && r.Begin.Job != nil {
		job, begin := *r.Begin.Job, *r.Begin
		job.ExecVnode, job.ExecHost2, job.Schedselect = "", "", ""
		begin.Job, r.Begin = &job, &begin
		b, err = json.Marshal(r)
	}
	if err != nil {
		return fmt.Errorf("record of job %s: %w", j.id, err)
	}
	return j.SetMark(recordMark, b)
}

// Record returns what SetRecord kept. A cgroup without a record, or with one of another job, is an error: it is not the
// cgroup of a job.
func (j *Job) Record() (Record, error) {
	b, err := j.Mark(recordMark)
	if err != nil {
		return Record{}, err
	}
	var r Record
	if err := json.Unmarshal(b, &r); err != nil {
		return Record{}, fmt.Errorf("record of job %s: %w", j.id, err)
	}
	if r.Begin == nil || r.Begin.Job == nil || r.Begin.Job.ID != j.id {
		return Record{}, fmt.Errorf("record of job %s: is about another", j.id)
	}
	return r, nil
}
