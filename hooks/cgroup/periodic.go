package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/proc"
)

// ExechostStartup creates the parent of all jobs, applies the limits that jobs were assigned and
// removes hookhost's cgroups that belong to no job. It reports jobs whose records the host lost,
// and this host's vnodes.
func (h *hook) ExechostStartup(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	if err := h.startParent(ctx); err != nil {
		return nil, err
	}
	out := &hostapi.Outcome{Jobs: map[string]*hostapi.JobUpdate{}}
	var errs []error
	for id, job := range req.JobList {
		update, err := h.start(ctx, id, job)
		if update != nil {
			out.Jobs[id] = update
		}
		errs = append(errs, err)
	}
	errs = append(errs, h.findJobs(ctx, req.JobList, out))
	h.settle()
	errs = append(errs, h.publish(req, out), h.sweepInto(ctx, out, req))
	return out, errors.Join(errs...)
}

// findJobs reports jobs that are not in known but have a cgroup whose mark names them.
func (h *hook) findJobs(ctx context.Context, known map[string]*hostapi.Job, out *hostapi.Outcome) error {
	ids, err := h.tree.JobIDs()
	if err != nil {
		return err
	}
	var errs []error
	for _, id := range ids {
		if _, listed := known[id]; listed || h.snapshot(id).known {
			continue
		}
		j, err := h.tree.Job(id)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		m, found, err := j.FindJobMark()
		if err != nil || !found {
			errs = append(errs, err)
			continue
		}
		update, err := h.start(ctx, id, m.Begin.Job)
		if update == nil {
			update = &hostapi.JobUpdate{}
		}
		update.Begin = m.Begin
		out.Jobs[id] = update
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// start takes responsibility for a job that an earlier process of this hook began. If the job is
// just beginning or ending, the event in progress handles it. The result is nil if there is nothing
// to report.
func (h *hook) start(ctx context.Context, id string, job *hostapi.Job) (*hostapi.JobUpdate, error) {
	j, release, err := h.running(id, job)
	if j == nil || err != nil {
		return nil, err
	}
	defer release()
	h.watch(j)
	frozen, err := h.frozenUnlike(j, job.Phase)
	if frozen == nil {
		return nil, err
	}
	return &hostapi.JobUpdate{Frozen: frozen}, err
}

// running takes the turn of a listed job. j is nil if an event holds the turn, or if the job has
// ended or has no cgroup.
func (h *hook) running(id string, job *hostapi.Job) (j *cgroup.Job, release func(), err error) {
	if release = h.try(id); release == nil {
		return nil, nil, nil
	}
	j, err = h.tree.Job(id)
	if err == nil && j.Exists() {
		h.learn(job)
		if h.snapshot(id).phase != hostapi.PhaseExiting {
			return j, release, nil
		}
	}
	release()
	return nil, nil, err
}

// ExechostPeriodic reports what each live job has used so far, and removes hookhost's cgroups that
// belong to no job.
func (h *hook) ExechostPeriodic(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	out := &hostapi.Outcome{Jobs: map[string]*hostapi.JobUpdate{}}
	var errs []error
	spent := map[int]time.Duration{}
	for id, job := range req.JobList {
		update, err := h.update(ctx, id, job, req.Node, spent)
		if update != nil {
			if !req.Partial && !h.policy.Vnodes.PeriodicResourceUsage {
				update.ResourcesUsed = nil
			}
			out.Jobs[id] = update
		}
		errs = append(errs, err)
	}
	if !req.Partial { // a partial list does not show whether other jobs are gone
		errs = append(errs, h.followNode(ctx, out, req), h.sweepInto(ctx, out, req))
	}
	return out, errors.Join(errs...)
}

// followNode calls settleParent. If the node's memory, swap or tasks have changed, PBS is informed.
// MoM sees only the answers to its own requests, so that has to wait for one with a vnode_list.
func (h *hook) followNode(ctx context.Context, out *hostapi.Outcome, req *hostapi.Request) error {
	if !h.tree.Prepared() {
		return nil // the next begin creates it
	}
	changed, err := h.rescan()
	errs := []error{err}
	if changed { // this changes the limits of jobs that requested no mem
		h.settle()
	}
	if node := h.node(); h.published.Load() != node && len(req.VnodeList) > 0 {
		err := h.publish(req, out)
		if errs = append(errs, err); err == nil {
			h.published.Store(node)
		}
	}
	return errors.Join(append(errs, h.settleParent(ctx))...)
}

// update makes sure that a listed job is watched, and measures it. If the job is just beginning or
// ending, the event in progress handles it. spent is for tendRanks.
func (h *hook) update(ctx context.Context, id string, job *hostapi.Job, node string,
	spent map[int]time.Duration) (*hostapi.JobUpdate, error) {
	j, release, err := h.running(id, job)
	if j == nil || err != nil {
		return nil, err
	}
	defer release()
	s, _, err := stateOf(job, node, j)
	errs := []error{err}
	if s.Ended {
		return nil, err
	}
	h.watch(j)
	if s.PerTask {
		h.tendRanks(ctx, j, job.Owner.UID, spent)
	}
	u, counters, err := h.measure(j, s)
	errs = append(errs, err)
	if u == nil {
		return nil, errors.Join(errs...)
	}
	u.Series = h.chartOf(j).answer()
	errs = append(errs, h.bill(&s, job, u, false))
	update := &hostapi.JobUpdate{Usage: u, ResourcesUsed: h.policy.resourcesUsed(u, job.Elapsed),
		CallAgain: h.soonestCall(s.nextLook())}
	update.Diag, update.JobStderr = h.reportKills(ctx, j, s, u, counters, false)
	update.Notes = update.JobStderr
	if a, err := askOf(job, node); err == nil { // for a job whose record was lost
		update.AttachEnv = h.policy.variables(s.JobMark, a)
	}
	if s.account != (account{}) {
		update.State = s.encode()
	}
	// Somebody else may have thawed a suspended job, and a preterm may not have thawed one.
	if phase := h.snapshot(id).phase; phase == hostapi.PhaseSuspended || job.Phase == hostapi.PhaseSuspended {
		update.Frozen, err = h.frozenUnlike(j, job.Phase)
		errs = append(errs, err)
	}
	if !h.policy.perTask() { // if that changed since begin, hook mpi reports ranks now, and two reports would conflict
		u.Ranks = nil
	}
	return update, errors.Join(errs...)
}

// sweepInto removes hookhost's cgroups that belong to no job. If one cannot be removed, the host's
// vnodes go offline until none is left.
func (h *hook) sweepInto(ctx context.Context, out *hostapi.Outcome, req *hostapi.Request) error {
	swept, err := h.sweep(ctx, req.JobList)
	for _, id := range swept {
		out.Notes = append(out.Notes, fmt.Sprintf("removed cgroup of unknown job %s", id))
	}
	if err != nil {
		h.stuck(req, out, err)
		return err
	}
	left, err := h.remaining()
	switch {
	case err != nil:
	case left == nil:
		h.recovered(req, out)
	case h.offline.Load(): // since the job's end, of which PBS may not know
		h.stuck(req, out, left)
	}
	return err
}

// remaining returns an error that names a job that has ended but still has processes, or nil.
// Processes that only wait for a cpu do not count, since they end later. hookhost's cgroups without
// a job were swept before.
func (h *hook) remaining() (left, err error) {
	ids, err := h.tree.JobIDs()
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "survey cgroups: %w", err)
	}
	for _, id := range ids {
		if h.snapshot(id).phase != hostapi.PhaseExiting {
			continue
		}
		j, err := h.tree.Job(id)
		if err != nil {
			return nil, err
		}
		pids, err := j.Processes()
		// An error may mean that the cgroup has just disappeared. The next periodic finds out.
		if err != nil || len(pids) > 0 && !proc.Runnable(h.roots.Proc, pids) {
			return fmt.Errorf("job %s: %w", id, cgroup.ErrNotEmpty), nil
		}
	}
	return nil, nil
}
