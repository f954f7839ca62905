package main

import (
	"context"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/proc"
)

// hook answers the events. Of jobs it keeps nothing but their host files, in aux, and what it has seen of their processes, which it can see
// again.
type hook struct {
	policy *policy
	aux    string // directory of host files
	remsh  string // path of hookhost-remsh; "" when it is not installed
	log    *logrus.Entry
	strays *strays // nil where nobody looks for them
	ranks  *ranks  // likewise
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
	if err := h.openKernel(); err != nil { // launchers can be told their remote shell all the same
		h.log.Errorf("neither strays nor ranks are looked for: %v", err)
	}
	return h, nil
}

// openKernel opens the kernel's files, for strays and ranks.
func (h *hook) openKernel() error {
	roots, err := kernfs.OpenRoots()
	if err != nil {
		return err
	}
	tree, err := cgroup.Detect(roots, cgroup.Options{Prefix: h.policy.Cgroup.Prefix, Mount: h.policy.Cgroup.Mount})
	if err != nil {
		return err
	}
	members := func(id string) ([]int, error) {
		j, err := tree.Job(id)
		if err != nil {
			return nil, err
		}
		return j.Processes()
	}
	environs := proc.NewEnvirons(roots.Proc)
	h.strays = newStrays(h.policy.MPI.Strays, roots.Proc, tree.JobOf, members, environs, h.log)
	if !h.policy.MPI.PerTask { // else hook cgroup tells of them
		h.ranks = newRanks(roots.Proc, members, environs)
	}
	return nil
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
	if err := sweep(h.aux, req.JobList, 0); err != nil { // what is left keeps nobody from anything
		h.log.Warn(err)
	}
	return &hostapi.Outcome{}, nil
}
