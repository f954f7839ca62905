package main

import (
	"path/filepath"
	"time"

	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/devrule"
	"github.com/hookhost/hookhost/internal/inventory"
	"github.com/hookhost/hookhost/internal/topology"
)

// policy is the node's configuration as this hook uses it.
type policy struct {
	config.File
}

// newPolicy decodes the node's configuration, which the host passes as JSON. Empty text means the
// defaults.
func newPolicy(text []byte) (*policy, error) {
	f, err := config.FromJSON(text)
	if err != nil {
		return nil, err
	}
	return &policy{File: *f}, nil
}

// options returns the inventory's options. nvml is the path of the program that asks NVML, or "".
func (p *policy) options(nvml string) inventory.Options {
	o := inventory.Options{GPUs: p.Devices.DiscoverGPUs, NVML: nvml, Limit: time.Duration(p.Devices.ProbeTimeout),
		Node: nodeAt, Glob: filepath.Glob}
	for _, d := range p.Device {
		o.Devices = append(o.Devices, inventory.Configured{Resource: d.Resource, Paths: d.Paths, Model: d.Model,
			Env: d.Env})
	}
	return o
}

// nodeAt returns the device that a path in /dev refers to.
func nodeAt(path string) (topology.DeviceNode, error) {
	n, err := devrule.StatNode(path)
	if err != nil {
		return topology.DeviceNode{}, err
	}
	return topology.DeviceNode{Path: path, Block: n.Kind == devrule.Block, Major: n.Major, Minor: n.Minor}, nil
}
