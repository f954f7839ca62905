package main

import (
	"encoding/json"
	"fmt"

	"github.com/hookhost/hookhost/internal/config"
)

// policy is the node's configuration as this hook uses it.
type policy struct {
	Container config.Container `json:"container"`
}

// newPolicy decodes the node's configuration, which the host passes as JSON. Empty text means the
// defaults.
func newPolicy(text []byte) (*policy, error) {
	p := &policy{Container: config.Default().Container}
	if len(text) > 0 {
		if err := json.Unmarshal(text, p); err != nil {
			return nil, fmt.Errorf("decode configuration: %w", err)
		}
	}
	return p, nil
}

// binds returns the binds of the configuration, which has been checked.
func (p *policy) binds() (list []config.Bind) {
	for _, text := range p.Container.Binds {
		if b, err := config.ParseBind(text); err == nil {
			list = append(list, b)
		}
	}
	return list
}
