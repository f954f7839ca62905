package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/pbs"
)

// hook answers the events. A hook keeps nothing about jobs: their progress stands in their state,
// which the host keeps.
type hook struct {
	policy  *policy
	log     *logrus.Entry
	roots   kernfs.Roots
	tree    *cgroup.Tree
	started time.Time
	tell    func(jobID string, update *hostapi.JobUpdate) // of a job that no event is about; never nil
	seeing  sync.Map                                      // ids of the jobs that are being looked at
	holders sync.Map                                      // *proc.HolderKiller of jobs that get SIGKILL, by id
}

// newHook opens this machine's kernel files and makes the hook. With walltime.enabled = false it is
// one that does nothing.
func newHook(s *hostapi.Setup) (any, error) {
	p, err := newPolicy(s.Config)
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "%w", err)
	}
	if !p.Walltime.Enabled {
		return off{}, nil
	}
	roots, err := kernfs.OpenRoots()
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "open kernel files: %w", err)
	}
	h, err := open(p, roots, cgroup.Options{Prefix: p.Cgroup.Prefix, Mount: p.Cgroup.Mount}, s.Log)
	if err != nil {
		return nil, err
	}
	h.tell = s.Tell
	return h, nil
}

// off is the hook where nobody looks at walltime.
type off struct{}

// ExechostStartup does nothing.
func (off) ExechostStartup(context.Context, *hostapi.Request) (*hostapi.Outcome, error) {
	return &hostapi.Outcome{}, nil
}

// open makes the hook of a node. open changes nothing there.
func open(p *policy, roots kernfs.Roots, opt cgroup.Options, log *logrus.Entry) (*hook, error) {
	tree, err := cgroup.Detect(roots, opt)
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "%w", err)
	}
	nobody := func(string, *hostapi.JobUpdate) {}
	return &hook{policy: p, log: log, roots: roots, tree: tree, started: time.Now(), tell: nobody}, nil
}

// place is where a job runs, as far as the limits of time depend on it.
type place struct {
	cpus      int  // of this host; 1 for a job that asks for no cput
	otherCPUs int  // of the other hosts, where this one looks at the job's time for all of them; 0 likewise
	spread    bool // there are such hosts
}

// placeOf finds out where a job runs. j is nil before the job has a cgroup, node is this host's
// name in exec_vnode.
func (h *hook) placeOf(s *state, job *hostapi.Job, j *cgroup.Job, node string) place {
	at := place{cpus: 1}
	_, counts := job.ResourceList[cput]
	if counts {
		at.cpus = h.cpus(j)
	}
	if s.MoM == nil || s.Head || !job.MotherSuperior || node == "" {
		return at
	}
	others, err := cpusElsewhere(job, node)
	if err != nil {
		h.logOf(job.ID).Warn(err)
	}
	if at.spread = others > 0; counts {
		at.otherCPUs = others
	}
	return at
}

// cpusElsewhere is how many cpus a job has on other hosts than node: 1 at least for each of its
// chunks there.
func cpusElsewhere(job *hostapi.Job, node string) (cpus int, err error) {
	if !strings.Contains(job.ExecVnode, "+") { // one chunk, which is here: nearly every job
		return 0, nil
	}
	chunks, err := pbs.JobChunks(job.ExecVnode, job.ExecHost2)
	if err != nil {
		return 0, err
	}
	here := pbs.ChunksHere(chunks, node, job.MotherSuperior)
	if here == nil {
		return 0, fmt.Errorf("exec_vnode: nothing on %s: other hosts are not told of the job's time", node)
	}
	for i, chunk := range chunks {
		if _, own := slices.BinarySearch(here, i); !own {
			n, _ := strconv.Atoi(chunk.Resources["ncpus"])
			cpus += max(1, n)
		}
	}
	return cpus, nil
}

// cpus is how many cpus the job can run on, 1 at least: the cpus of its cpuset, else of the node. j
// is nil before the job has a cgroup.
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
