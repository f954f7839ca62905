package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/pbs"
)

// state is what the host keeps of a job for this hook.
type state struct {
	Limits limits `json:"limits"`
	// MoM is the process that starts the job's programs; nil under pbs_mom.
	MoM *hostapi.ProcessID `json:"mom,omitempty"`
	progress
}

// newState is that of a job that begins, or of which nothing is known.
func (p *policy) newState(job *hostapi.Job, mom *hostapi.ProcessID, cpus int) (s *state, told []string, err error) {
	s = &state{MoM: mom}
	if s.Limits, told, err = p.newLimits(job.ResourceList, enderOf(job, mom)); err != nil {
		return nil, nil, err
	}
	s.arm(0, cpus)
	return s, told, nil
}

// arm sets when the job is to be looked at first, having run so long: what is past by then is due at once.
func (s *state) arm(elapsed time.Duration, cpus int) {
	if s.Stage != running {
		return
	}
	next := s.Limits.next(s.Warned, s.SoftTold)
	if s.Limits.CPUT > 0 {
		// Nothing is used yet, or else it is to be looked at.
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

// follow takes over what the job asks for by now. A job that is being ended is not spared by a new limit.
func (s *state) follow(p *policy, job *hostapi.Job, cpus int) (told []string, err error) {
	l, told, err := p.newLimits(job.ResourceList, enderOf(job, s.MoM))
	if err != nil {
		return nil, err
	}
	if s.Stage != running { // it has no more time left than it had
		s.Limits.Asked = l.Asked
		return nil, nil
	}
	if l.Walltime != s.Limits.Walltime || l.Asked[walltimeSignal] != s.Limits.Asked[walltimeSignal] {
		s.Warned = 0
	}
	if l.Soft != s.Limits.Soft {
		s.SoftTold = false
	}
	s.Limits = l
	s.arm(job.Elapsed, cpus)
	return told, nil
}

// decodeState returns what the host has kept; nil when there is nothing. What cannot be read is as nothing: the limits are in the job.
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
	if err != nil { // plain fields
		panic(err)
	}
	return b
}

// walltimeLimit is what people are told.
func (s *state) walltimeLimit() *time.Duration {
	limit := s.Limits.Walltime
	return &limit
}

// clock writes a duration as PBS does.
func clock(d time.Duration) string { return pbs.FormatDuration(d) }
