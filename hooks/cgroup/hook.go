package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/proc"
	"github.com/hookhost/hookhost/internal/topology"
)

// hook answers the events. What it keeps in memory are goroutines that watch live jobs; everything that matters is in
// the kernel.
type hook struct {
	policy *policy
	log    *logrus.Entry
	roots  kernfs.Roots
	tree   *cgroup.Tree
	node   *topology.Node
	self   hostapi.ProcessID
	kmsg   func() (kmsgReader, error)

	mu      sync.Mutex
	watches map[string]*watch
	made    map[string]bool // jobs whose cgroup this process made and has not ended
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
	return open(p, roots, s.Log)
}

// open finds out what this node has. It writes nothing.
func open(p *policy, roots kernfs.Roots, log *logrus.Entry) (*hook, error) {
	tree, err := cgroup.Detect(roots, cgroup.Options{Prefix: p.Cgroup.Prefix, Mount: p.Cgroup.Mount})
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
	self, err := proc.Self(roots.Proc)
	if err != nil {
		return nil, err
	}
	return &hook{policy: p, log: log, roots: roots, tree: tree, node: node, self: self, kmsg: openKmsg,
		watches: map[string]*watch{}, made: map[string]bool{}}, nil
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

// state is what this hook keeps with the host for a job.
type state struct {
	// BegunMicros and LaunchedMicros are in microseconds since boot, the clock of /dev/kmsg.
	BegunMicros    int64 `json:"begun_us,omitempty"`
	LaunchedMicros int64 `json:"launched_us,omitempty"`
	Attached       int   `json:"attached,omitempty"`
	NCPUs          int   `json:"ncpus"`
}

func stateOf(job *hostapi.Job) (state, error) {
	var s state
	if len(job.State) == 0 {
		return s, nil
	}
	if err := json.Unmarshal(job.State, &s); err != nil {
		return s, fmt.Errorf("job %s: decode hook state: %w", job.ID, err)
	}
	return s, nil
}

func (s state) encode() json.RawMessage {
	b, err := json.Marshal(s)
	if err != nil { // a struct of numbers and strings
		panic(err)
	}
	return b
}

// job returns the cgroup of the event's job.
func (h *hook) job(req *hostapi.Request) (*cgroup.Job, error) {
	j, err := h.tree.Job(req.Job.ID)
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindJob, "%w", err)
	}
	return j, nil
}

// ExechostStartup makes the parents of all jobs, removes what no job owns and watches the jobs that live.
func (h *hook) ExechostStartup(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	if err := h.tree.Prepare(); err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "prepare cgroups: %w", err)
	}
	for id := range req.JobList {
		j, err := h.tree.Job(id)
		if err != nil {
			return nil, hostapi.Errorf(hostapi.KindInternal, "%w", err)
		}
		if j.Exists() {
			h.watch(j)
		}
	}
	out := &hostapi.Outcome{}
	swept, err := h.sweep(ctx, req.JobList)
	for _, id := range swept {
		out.Notes = append(out.Notes, fmt.Sprintf("removed cgroup of unknown job %s", id))
	}
	return out, err
}

// ExechostPeriodic tells what each live job has used so far and removes what no job owns.
func (h *hook) ExechostPeriodic(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	out := &hostapi.Outcome{Jobs: map[string]*hostapi.JobUpdate{}}
	var errs []error
	for id, job := range req.JobList {
		j, err := h.tree.Job(id)
		if err != nil || !j.Exists() {
			continue // it ends at this moment, or it is a job without a cgroup here
		}
		h.watch(j)
		s, err := stateOf(job)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		u, err := h.measure(j, s)
		if err != nil {
			errs = append(errs, fmt.Errorf("measure job %s: %w", id, err))
		}
		if u != nil {
			out.Jobs[id] = &hostapi.JobUpdate{Usage: u, ResourcesUsed: resourcesUsed(u, s)}
		}
	}
	if req.Job == nil { // else it is about one job, and the list says nothing about the others
		swept, err := h.sweep(ctx, req.JobList)
		for _, id := range swept {
			out.Notes = append(out.Notes, fmt.Sprintf("removed cgroup of unknown job %s", id))
		}
		errs = append(errs, err)
	}
	return out, errors.Join(errs...)
}

// sinceBoot is CLOCK_MONOTONIC in µs: the clock of kernel messages, the same for all processes, and whatever becomes of
// the wall clock it tells how long a job has run.
func sinceBoot() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil { // never fails for this clock
		panic(err)
	}
	return ts.Nano() / 1000
}

// killTimeout bounds the kill at the end of a job.
func (h *hook) killTimeout() time.Duration { return time.Duration(h.policy.Cgroup.KillTimeout) }
