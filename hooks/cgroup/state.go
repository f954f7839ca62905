package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/proc"
)

// state is what this hook knows of a job. The host keeps the part that has a form as JSON.
type state struct {
	cgroup.JobMark `json:"-"` // as the job's cgroup has it

	account

	// RanksFrom is when one of the job's programs was last started or taken in, in microseconds
	// since boot: see nextLook.
	RanksFrom int64 `json:"ranks_from_us,omitempty"`
	// Ended says that epilogue has killed the job and reported what it used: end has only to
	// remove.
	Ended bool `json:"ended,omitempty"`
}

// stateOf returns what is known of a job, and whether the job has a cgroup. A job without a mark
// on its cgroup began before hookhost came, and has the ncpus that it asked for. stateOf fails
// where the mark cannot be read or the host's part is not JSON; the other part is valid then.
func stateOf(job *hostapi.Job, node string, j *cgroup.Job) (s state, exists bool, err error) {
	m, found, failed := markOf(j)
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

// markOf returns the mark of a job's cgroup. found is false where the cgroup is gone, or is no
// job's.
func markOf(j *cgroup.Job) (m cgroup.JobMark, found bool, err error) {
	m, err = j.JobMark()
	switch {
	case err == nil:
		return m, true, nil
	case errors.Is(err, unix.ENODATA), errors.Is(err, cgroup.ErrNotJobs), errors.Is(err, cgroup.ErrNotFound):
		return m, false, nil
	}
	return m, false, err
}

func (s state) encode() json.RawMessage {
	b, err := json.Marshal(s)
	if err != nil { // a struct of numbers
		panic(err)
	}
	return b
}

// sinceBoot is proc.SinceBoot in microseconds.
func sinceBoot() int64 { return proc.SinceBoot().Microseconds() }
