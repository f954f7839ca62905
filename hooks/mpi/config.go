package main

import (
	"os"
	"path/filepath"

	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/pbs"
)

// policy is the node's configuration as this hook uses it.
type policy struct {
	Cgroup  config.Cgroup
	MPI     config.MPI
	OpenPBS config.OpenPBS
}

// newPolicy decodes the node's configuration, which the host passes as JSON. Empty text means the
// defaults.
func newPolicy(text []byte) (*policy, error) {
	f, err := config.FromJSON(text)
	if err != nil {
		return nil, err
	}
	return &policy{Cgroup: f.Cgroup, MPI: f.MPI, OpenPBS: f.OpenPBS}, nil
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
