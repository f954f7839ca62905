package main

import (
	"encoding/json"
	"fmt"

	"github.com/hookhost/hookhost/internal/config"
)

// policy is the node's configuration as this hook uses it.
type policy struct {
	Cgroup  config.Cgroup  `json:"cgroup"`
	Private config.Private `json:"private"`
}

// newPolicy decodes the node's configuration, which the host passes as JSON. Empty text means the
// defaults.
func newPolicy(text []byte) (*policy, error) {
	p := &policy{Cgroup: config.Default().Cgroup, Private: config.Default().Private}
	if len(text) > 0 {
		if err := json.Unmarshal(text, p); err != nil {
			return nil, fmt.Errorf("decode configuration: %w", err)
		}
	}
	return p, nil
}
