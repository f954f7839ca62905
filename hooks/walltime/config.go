package main

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/hookhost/hookhost/internal/config"
)

// policy is the node's configuration as this hook uses it.
type policy struct {
	Cgroup   config.Cgroup   `json:"cgroup"`
	Walltime config.Walltime `json:"walltime"`

	warnings []config.Warning // parsed Walltime.Signals
}

// newPolicy decodes the node's configuration, which the host passes as JSON. Empty text means the
// defaults.
func newPolicy(text []byte) (*policy, error) {
	p := &policy{Cgroup: config.Default().Cgroup, Walltime: config.Default().Walltime}
	if len(text) > 0 {
		if err := json.Unmarshal(text, p); err != nil {
			return nil, fmt.Errorf("decode configuration: %w", err)
		}
	}
	for _, text := range p.Walltime.Signals {
		w, err := config.ParseWarning(text)
		if err != nil {
			return nil, fmt.Errorf("walltime.signals: %w", err)
		}
		p.warnings = append(p.warnings, w)
	}
	return p, nil
}

// grace returns how much time a job has after SIGTERM. killDelay is the job's value in seconds, or
// nil.
func (p *policy) grace(killDelay *int) time.Duration {
	if killDelay == nil {
		return time.Duration(p.Walltime.Grace)
	}
	return time.Duration(min(max(*killDelay, 0), longest)) * time.Second
}

// longest, in seconds, keeps sums of durations from overflowing. No job runs that long.
const longest = 1 << 31
