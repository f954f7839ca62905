package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/hookhost/hookhost/hostapi"
)

// state holds this hook's data about a job. The host stores it.
type state struct {
	Limits limits `json:"limits"`
	// MoM is the process that starts the job's programs; nil under pbs_mom.
	MoM *hostapi.ProcessID `json:"mom,omitempty"`
	progress
}

// stateFor returns the state of a job that begins with req, before its limits are known.
func stateFor(req *hostapi.Request) *state { return &state{MoM: req.MoM} }

// arm sets when to check the job first, given its elapsed time. If that time has passed, the check
// is due immediately.
func (s *state) arm(elapsed time.Duration, cpus int) {
	if s.Stage != running {
		return
	}
	next := s.Limits.next(s.progress)
	if s.Limits.CPUT > 0 {
		// Either no cpu time is used yet, or it has to be checked now.
		look := elapsed
		if look == 0 {
			look = nextLook(s.Limits.CPUT, 0, cpus)
		}
		if next == 0 || look < next {
			next = look
		}
	}
	if next > 0 {
		next = max(next, elapsed)
	}
	s.Next = next
}

// follow sets the limits that the job's current request gives a job on so many cpus. A new limit
// does not save a job that is already being ended.
func (s *state) follow(p *policy, job *hostapi.Job, cpus int) (told []string, err error) {
	l, told, err := p.newLimits(job.ResourceList, s.enderOf(job))
	if err != nil {
		return nil, err
	}
	if s.Stage != running { // it does not get more time
		s.Limits.Asked = l.Asked
		return nil, nil
	}
	if l.Walltime != s.Limits.Walltime || l.Asked[walltimeSignal] != s.Limits.Asked[walltimeSignal] {
		s.Warned = 0
	}
	if l.Soft != s.Limits.Soft {
		s.SoftTold = false
	}
	if l.MoM != s.Limits.MoM {
		s.Hastened = false
	}
	s.Limits = l
	s.arm(job.Elapsed, cpus)
	return told, nil
}

// decodeState returns the state that the host has stored, or nil. An unreadable state is treated
// like a missing one, because the job itself has the limits.
func decodeState(kept json.RawMessage) (*state, error) {
	if len(kept) == 0 || bytes.Equal(kept, []byte("null")) {
		return nil, nil
	}
	s := new(state)
	if err := json.Unmarshal(kept, s); err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	return s, nil
}

func (s *state) encode() json.RawMessage {
	b, err := json.Marshal(s)
	if err != nil { // impossible for these fields
		panic(err)
	}
	return b
}

// walltimeLimit returns the limit that users see.
func (s *state) walltimeLimit() *time.Duration { return new(s.Limits.Walltime) }
