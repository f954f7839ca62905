package main

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/topology"
)

// hook answers the events. What it keeps in memory is for jobs that live: everything that matters is in the kernel.
type hook struct {
	policy *policy
	log    *logrus.Entry
	roots  kernfs.Roots
	tree   *cgroup.Tree
	node   *topology.Node
	self   cgroup.Maker
	kmsg   func() (kmsgReader, error)
	turns  turns

	openProcess func(*kernfs.FS, hostapi.ProcessID) (held, error)

	mu      sync.Mutex
	watches map[string]*watch // by job id
	owned   map[string]bool   // jobs that this process answers for: see cgroup.Maker
}

// newHook opens this machine's kernel files and makes the hook.
func newHook(s *hostapi.Setup) (any, error) {
	roots, err := kernfs.OpenRoots()
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "open kernel files: %w", err)
	}
	p, err := newPolicy(s.Config)
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "%w", err)
	}
	return open(p, roots, p.options(), s.Log)
}

// options say where the configuration has the jobs' cgroups.
func (p *policy) options() cgroup.Options {
	return cgroup.Options{Prefix: p.Cgroup.Prefix, Mount: p.Cgroup.Mount}
}

// open finds out what this node has. It writes nothing.
func open(p *policy, roots kernfs.Roots, opt cgroup.Options, log *logrus.Entry) (*hook, error) {
	tree, err := cgroup.Detect(roots, opt)
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "%w", err)
	}
	if err := p.need(tree); err != nil {
		return nil, err
	}
	node, err := topology.Scan(roots)
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "scan topology: %w", err)
	}
	self, err := thisMaker(roots.Proc)
	if err != nil {
		return nil, err
	}
	return &hook{policy: p, log: log, roots: roots, tree: tree, node: node, self: self, kmsg: openKmsg, openProcess: openProcess,
		watches: map[string]*watch{}, owned: map[string]bool{}}, nil
}

// need refuses a node that cannot enforce what is configured, naming every controller that is missing.
func (p *policy) need(tree *cgroup.Tree) error {
	var errs []error
	for _, c := range []struct {
		name    string
		enabled bool
	}{{"memory", p.Memory.Enabled}, {"cpuset", p.Cpuset.Enabled}, {"cpu", p.CPU.Enabled}, {"pids", p.Pids.Enabled && p.Pids.Max > 0}} {
		if c.enabled && !tree.Has(c.name) {
			errs = append(errs, fmt.Errorf("[%s] is enabled, but this kernel offers no %s controller", c.name, c.name))
		}
	}
	if len(errs) > 0 {
		return hostapi.Errorf(hostapi.KindNode, "%w", errors.Join(errs...))
	}
	return nil
}

// job returns the cgroup of the event's job, which need not exist.
func (h *hook) job(req *hostapi.Request) (*cgroup.Job, error) {
	j, err := h.tree.Job(req.Job.ID)
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindJob, "%w", err)
	}
	return j, nil
}

// killTimeout bounds the kill at the end of a job.
func (h *hook) killTimeout() time.Duration { return time.Duration(h.policy.Cgroup.KillTimeout) }

func (h *hook) logOf(id string) *logrus.Entry { return h.log.WithField("job", id) }
