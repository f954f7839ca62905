package main

import "github.com/hookhost/hookhost/internal/config"

// policy is the node's configuration as this hook uses it.
type policy struct {
	Container config.Container
}

// newPolicy decodes the node's configuration, which the host passes as JSON. Empty text means the
// defaults.
func newPolicy(text []byte) (*policy, error) {
	f, err := config.FromJSON(text)
	if err != nil {
		return nil, err
	}
	return &policy{Container: f.Container}, nil
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
