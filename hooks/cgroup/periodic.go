package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/proc"
)

// ExechostStartup makes the parents of all jobs, takes over the jobs of a hook that died, removes what is no job's and
// tells PBS of this host's vnodes.
func (h *hook) ExechostStartup(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	if err := h.startParent(ctx); err != nil {
		return nil, err
	}
	out := &hostapi.Outcome{Jobs: map[string]*hostapi.JobUpdate{}}
	var errs []error
	marked := time.Duration(0)
	for id, job := range req.JobList {
		update, err := h.look(ctx, id, job, req)
		if update != nil {
			if update.CallAgain > 0 {
				marked++
				update.CallAgain *= marked // one after the other
			}
			out.Jobs[id] = update
		}
		errs = append(errs, err)
	}
	errs = append(errs, h.publish(req, out), h.sweepInto(ctx, out, req))
	return out, errors.Join(errs...)
}

// ExechostPeriodic tells what each live job has used so far and removes what is no job's.
func (h *hook) ExechostPeriodic(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	out := &hostapi.Outcome{Jobs: map[string]*hostapi.JobUpdate{}}
	var errs []error
	for id, job := range req.JobList {
		update, err := h.look(ctx, id, job, req)
		if update != nil {
			if !req.Partial && !h.policy.Vnodes.PeriodicResourceUsage {
				update.ResourcesUsed = nil
			}
			out.Jobs[id] = update
		}
		errs = append(errs, err)
	}
	if !req.Partial { // else the list says nothing about other jobs
		errs = append(errs, h.sweepInto(ctx, out, req))
	}
	return out, errors.Join(errs...)
}

// look sees to it that somebody watches a listed job and, but for startup, measures it. A job that begins or ends at this
// moment is left to that event.
func (h *hook) look(ctx context.Context, id string, job *hostapi.Job, req *hostapi.Request) (*hostapi.JobUpdate, error) {
	measure := req.Event != hostapi.EventStartup
	release, _ := h.turns.try(id)
	if release == nil {
		return nil, nil
	}
	defer release()
	j, err := h.tree.Job(id)
	if err != nil {
		return nil, err
	}
	if !j.Exists() {
		return nil, nil
	}
	h.own(id)
	s, err := stateOf(job, req.Node, j)
	errs := []error{err}
	if s.Ended {
		return nil, errors.Join(errs...)
	}
	before := s.encode()
	if !measure || s.SuspendedAt != 0 { // at startup, or where it costs only those that are suspended
		errs = append(errs, h.settle(ctx, j))
	}
	switch {
	case err != nil:
		err = nil // told with the others
	case !measure:
		s.follow(j) // a hook that died has told nobody
		err = h.followEnforce(j, &s)
	default:
		err = h.bringDown(ctx, j, &s)
	}
	if err != nil && !errors.Is(err, cgroup.ErrNotFound) {
		h.logOf(id).Warnf("its limits are not what its record says: %v", err)
	}
	h.watch(j)
	var update *hostapi.JobUpdate
	if measure && s.PerTask {
		h.tendRanks(ctx, j)
	}
	if measure {
		u, _, err := h.measure(j, s)
		errs = append(errs, err)
		if u != nil {
			update = &hostapi.JobUpdate{Usage: u, ResourcesUsed: resourcesUsed(u, s), CallAgain: s.nextLook()}
			if !h.policy.perTask() { // since the job's begin: hook mpi tells of ranks, and two that did would not go together
				u.Ranks = nil
			}
		}
	}
	now := s.encode()
	changed, again := !bytes.Equal(now, before), !measure && marked(j) != ""
	if update == nil && (changed || again) {
		update = &hostapi.JobUpdate{}
	}
	if changed {
		update.State = now
	}
	if again { // for bringDown, without anybody waiting for it
		update.CallAgain = time.Second
	}
	return update, errors.Join(errs...)
}

// sweepInto removes what is no job's. What cannot be removed puts the host's vnodes offline; when there is nothing left, they
// come back.
func (h *hook) sweepInto(ctx context.Context, out *hostapi.Outcome, req *hostapi.Request) error {
	swept, err := h.sweep(ctx, req.JobList)
	for _, id := range swept {
		out.Notes = append(out.Notes, fmt.Sprintf("removed cgroup of unknown job %s", id))
	}
	errs := []error{err, h.stuck(req, out, err)}
	if err == nil {
		clean, err := h.clean()
		if errs = append(errs, err); clean {
			errs = append(errs, h.recovered(req, out, time.Now()))
		}
	}
	return errors.Join(errs...)
}

// clean tells whether no job that has ended has processes, but such as a tracer holds. Cgroups of no
// job at all were swept before.
func (h *hook) clean() (bool, error) {
	ids, err := h.tree.JobIDs()
	if err != nil {
		return false, hostapi.Errorf(hostapi.KindNode, "survey cgroups: %w", err)
	}
	for _, id := range ids {
		j, err := h.tree.Job(id)
		if err != nil {
			return false, err
		}
		if r, err := j.Record(); err != nil || !r.Ending {
			continue
		}
		pids, err := j.Processes()
		if err != nil || len(pids) > 0 && !proc.AllHeld(h.roots.Proc, pids) { // gone meanwhile: the next periodic sees that
			return false, nil
		}
	}
	return true, nil
}
