package main

import (
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/placement"
)

// policy is the node's configuration as this hook uses it.
type policy struct {
	config.File
	place placement.Policy
	io    []cgroup.IOLimit // each job's I/O limits by device: see resolveIO
}

// newPolicy decodes the node's configuration, which the host passes as JSON. Empty text means the
// defaults.
func newPolicy(text []byte) (*policy, error) {
	f, err := config.FromJSON(text)
	if err != nil {
		return nil, err
	}
	p := &policy{File: *f}
	p.place = placement.Pack
	if p.Cpuset.Placement == "spread" {
		p.place = placement.Spread
	}
	return p, nil
}
