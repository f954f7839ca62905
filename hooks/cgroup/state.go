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

// state is what this hook keeps with the host for a job.
type state struct {
	// BegunMicros and LaunchedMicros are microseconds since boot: see sinceBoot.
	BegunMicros    int64  `json:"begun_us,omitempty"`
	LaunchedMicros int64  `json:"launched_us,omitempty"`
	Attached       int    `json:"attached,omitempty"` // the cgroup may know of more
	NCPUs          int    `json:"ncpus"`
	CPUs           string `json:"cpus,omitempty"` // what it may run on, its own or the parent's
	Mems           string `json:"mems,omitempty"`
	// MemLimit is the mem that was decided, in bytes, where the kernel has another limit: see inKernel. So it also tells under
	// which [memory] enforce that was: see followEnforce.
	MemLimit *int64 `json:"mem_limit,omitempty"`
	// SuspendedAt is when the suspension began that the job is in, on the same clock; 0 when it is in none.
	// SuspendedMicros is the length of those that are over.
	SuspendedAt     int64 `json:"suspended_at_us,omitempty"`
	SuspendedMicros int64 `json:"suspended_us,omitempty"`
	// PerTask: the job was begun with [mpi] per_task, and its ranks get cgroups of their own. RanksFrom is when one of its programs was last
	// started or taken in, on the same clock: see nextLook.
	PerTask   bool  `json:"per_task,omitempty"`
	RanksFrom int64 `json:"ranks_from_us,omitempty"`
	// Ended says that epilogue has killed the job and told what it used: end has only to remove.
	Ended bool `json:"ended,omitempty"`
}

// stateOf returns the state of a job: the host's, else what the cgroup itself says. One that this hook knows nothing
// of, because it began before hookhost came, has the ncpus it asked for.
func stateOf(job *hostapi.Job, node string, j *cgroup.Job) (state, error) {
	attached, _ := j.Attached()
	return stateWith(job, node, j, attached)
}

// stateWith is stateOf for who knows j.Attached, 0 where that fails.
func stateWith(job *hostapi.Job, node string, j *cgroup.Job, attached int) (state, error) {
	text := job.State
	if len(text) == 0 {
		if r, err := j.Record(); err == nil {
			text = r.State
		}
	}
	var s state
	if len(text) == 0 {
		if a, err := askOf(job, node); err == nil {
			s.NCPUs = a.NCPUs
		}
	} else if err := json.Unmarshal(text, &s); err != nil {
		return state{}, fmt.Errorf("job %s: decode hook state: %w", job.ID, err)
	}
	s.Attached = max(s.Attached, attached)
	return s, nil
}

// note changes what the cgroup says of its job, which outlives the host's records. Without it a part of a report may be
// lost one day, or an ended job taken for a live one; that is no reason to fail an event.
func (h *hook) note(j *cgroup.Job, change func(*cgroup.Record)) {
	if err := h.amend(j, change); err != nil {
		h.logOf(j.ID()).Warn(err)
	}
}

// amend is note where the change has to be there for others to see. A cgroup that was made by hand has no record, and one
// that is gone needs none.
func (h *hook) amend(j *cgroup.Job, change func(*cgroup.Record)) error {
	r, err := j.Record()
	if err == nil {
		change(&r)
		err = j.SetRecord(r)
	}
	if errors.Is(err, unix.ENODATA) || errors.Is(err, cgroup.ErrNotFound) {
		return nil
	}
	return err
}

func (s state) encode() json.RawMessage {
	b, err := json.Marshal(s)
	if err != nil { // a struct of numbers and strings
		panic(err)
	}
	return b
}

// sinceBoot is proc.SinceBoot in µs, as it stands in a state.
func sinceBoot() int64 { return proc.SinceBoot().Microseconds() }
