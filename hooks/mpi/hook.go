package main

import (
	"context"
	"sync"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
)

// hook answers the events. Of jobs it keeps nothing but their host files, in aux.
type hook struct {
	policy *policy
	aux    string // directory of host files
	remsh  string // path of hookhost-remsh; "" when it is not installed
	log    *logrus.Entry

	bare sync.Once // a job without PBS_NODEFILE was seen
}

// newHook makes the hook. With mpi.enabled = false it is one that does nothing.
func newHook(s *hostapi.Setup) (any, error) {
	p, err := newPolicy(s.Config)
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "%w", err)
	}
	if !p.MPI.Enabled {
		return off{}, nil
	}
	h := &hook{policy: p, aux: s.Host["aux_dir"], remsh: s.Host["remsh"], log: s.Log}
	if !p.MPI.Remsh {
		h.remsh = ""
	}
	return h, nil
}

// off is the hook where MPI is left alone.
type off struct{}

// ExechostStartup does nothing.
func (off) ExechostStartup(context.Context, *hostapi.Request) (*hostapi.Outcome, error) {
	return &hostapi.Outcome{}, nil
}

// ExechostStartup removes the host files of jobs that are gone.
func (h *hook) ExechostStartup(_ context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	if h.policy.MPI.Remsh && h.remsh == "" {
		h.log.Warn("hookhost-remsh is not beside hookhost: what MPI starts on other hosts is outside of its job")
	}
	if h.aux == "" { // a host that is older than this program
		return nil, hostapi.Errorf(hostapi.KindNode, "the host did not say where files for jobs are")
	}
	if err := sweep(h.aux, req.JobList); err != nil { // what is left keeps nobody from anything
		h.log.Warn(err)
	}
	return &hostapi.Outcome{}, nil
}
