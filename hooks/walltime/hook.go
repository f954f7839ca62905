package main

import (
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/kernfs"
)

// hook handles the events. It does not store anything about jobs: their progress is in their state,
// which the host stores.
type hook struct {
	policy  *policy
	log     *logrus.Entry
	roots   kernfs.Roots
	tree    *cgroup.Tree
	started time.Time
	seeing  sync.Map // ids of the jobs that are being checked
}

// newHook opens this machine's kernel files and creates the hook.
func newHook(s *hostapi.Setup) (any, error) {
	p, err := newPolicy(s.Config)
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "%w", err)
	}
	roots, tree, err := cgroup.Open(cgroup.Options{Prefix: p.Cgroup.Prefix, Mount: p.Cgroup.Mount})
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "%w", err)
	}
	return &hook{policy: p, log: s.Log, roots: roots, tree: tree, started: time.Now()}, nil
}

// cpusFor returns how many cpus a job with a limit of cput can run on, or 1 for any other job. j is
// nil before the job has a cgroup.
func (h *hook) cpusFor(job *hostapi.Job, j *cgroup.Job) int {
	if _, counts := job.ResourceList[cput]; !counts {
		return 1
	}
	return h.cpus(j)
}

// cpus returns how many cpus the job can run on, at least 1. They are the cpus of its cpuset, or
// those of the node. j is nil before the job has a cgroup.
func (h *hook) cpus(j *cgroup.Job) int {
	if j != nil {
		if l, err := j.Limits("cpuset"); err == nil && !l.CPUs.IsEmpty() {
			return l.CPUs.Len()
		}
	}
	set, err := h.tree.CPUs()
	if err != nil || set.IsEmpty() {
		set, err = h.roots.Sys.IDSet("devices/system/cpu/online")
	}
	if err != nil {
		h.log.Warnf("how many cpus there are is not known: cput is looked at too seldom: %v", err)
	}
	return max(1, set.Len())
}

func (h *hook) logOf(id string) *logrus.Entry { return h.log.WithField("job", id) }
