package main

import (
	"encoding/json"
	"fmt"

	"github.com/hookhost/hookhost/internal/config"
)

// policy is the node's configuration as this hook uses it.
type policy struct {
	Cgroup config.Cgroup `json:"cgroup"`
	MPI    config.MPI    `json:"mpi"`
}

// newPolicy decodes the configuration that the host hands over (the node's file as JSON; empty for the defaults).
func newPolicy(text []byte) (*policy, error) {
	p := &policy{Cgroup: config.Default().Cgroup, MPI: config.DefaultMPI()}
	if len(text) > 0 {
		if err := json.Unmarshal(text, p); err != nil {
			return nil, fmt.Errorf("decode configuration: %w", err)
		}
	}
	return p, nil
}
