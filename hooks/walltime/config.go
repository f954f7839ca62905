package main

import (
	"fmt"
	"time"

	"github.com/hookhost/hookhost/internal/config"
)

// policy is the node's configuration as this hook uses it.
type policy struct {
	Cgroup   config.Cgroup
	Walltime config.Walltime

	warnings []config.Warning // parsed Walltime.Signals
}

// newPolicy decodes the node's configuration, which the host passes as JSON. Empty text means the
// defaults.
func newPolicy(text []byte) (*policy, error) {
	f, err := config.FromJSON(text)
	if err != nil {
		return nil, err
	}
	p := &policy{Cgroup: f.Cgroup, Walltime: f.Walltime}
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
