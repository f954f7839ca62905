package main

import "github.com/hookhost/hookhost/internal/config"

// policy is the node's configuration as this hook uses it.
type policy struct {
	Cgroup  config.Cgroup
	Private config.Private
}

// newPolicy decodes the node's configuration, which the host passes as JSON. Empty text means the
// defaults.
func newPolicy(text []byte) (*policy, error) {
	f, err := config.FromJSON(text)
	if err != nil {
		return nil, err
	}
	return &policy{Cgroup: f.Cgroup, Private: f.Private}, nil
}
