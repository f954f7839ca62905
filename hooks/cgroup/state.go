package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/proc"
)

// state is what this hook knows about a job. The host stores the fields that have a JSON form.
type state struct {
	cgroup.JobMark `json:"-"` // from the job's cgroup

	account

	// RanksFrom is when a program of the job was last started or attached, in microseconds since
	// boot: see nextLook.
	RanksFrom int64 `json:"ranks_from_us,omitempty"`
	// Ended means that epilogue has killed the job and reported its usage, so end only has to
	// remove the cgroup.
	Ended bool `json:"ended,omitempty"`
}

// stateOf returns the state of a job, and whether it has a cgroup. A job without a mark was not
// begun by hookhost, and is assumed to have the ncpus that it requested. stateOf fails if the mark
// cannot be read or the state from the host is not JSON. In that case the other one of the two is
// still valid.
func stateOf(job *hostapi.Job, node string, j *cgroup.Job) (s state, exists bool, err error) {
	m, found, failed := j.FindJobMark()
	exists = found || j.Exists()
	s.JobMark = m
	if s.NCPUs == 0 {
		if a, err := askOf(job, node); err == nil {
			s.NCPUs = a.NCPUs
		}
	}
	if len(job.State) == 0 {
		return s, exists, failed
	}
	if err := json.Unmarshal(job.State, &s); err != nil {
		return s, exists, errors.Join(failed, fmt.Errorf("job %s: decode hook state: %w", job.ID, err))
	}
	return s, exists, failed
}

func (s state) encode() json.RawMessage {
	b, err := json.Marshal(s)
	if err != nil { // impossible for a struct of numbers
		panic(err)
	}
	return b
}

// sinceBoot returns proc.SinceBoot in microseconds.
func sinceBoot() int64 { return proc.SinceBoot().Microseconds() }
