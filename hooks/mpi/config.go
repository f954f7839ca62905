package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/pbs"
)

// policy is the node's configuration as this hook uses it.
type policy struct {
	Cgroup  config.Cgroup  `json:"cgroup"`
	MPI     config.MPI     `json:"mpi"`
	OpenPBS config.OpenPBS `json:"openpbs"`
}

// newPolicy decodes the node's configuration, which the host passes as JSON. Empty text means the
// defaults.
func newPolicy(text []byte) (*policy, error) {
	p := &policy{Cgroup: config.Default().Cgroup, MPI: config.Default().MPI, OpenPBS: config.Default().OpenPBS}
	if len(text) > 0 {
		if err := json.Unmarshal(text, p); err != nil {
			return nil, fmt.Errorf("decode configuration: %w", err)
		}
	}
	return p, nil
}

// qsub identifies PBS's program of that name. It returns nothing if PBS is not installed.
func (p *policy) qsub() []kernfs.FileID {
	text, err := os.ReadFile(p.OpenPBS.Conf)
	if err != nil {
		return nil
	}
	id, err := kernfs.FileOf(filepath.Join(pbs.Exec(pbs.Conf(string(text))), "bin/qsub"))
	if err != nil {
		return nil
	}
	return []kernfs.FileID{id}
}
