package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/proc"
)

// markName is the extended attribute of a job's cgroup that names the process which made it.
const markName = "trusted.hookhost.maker"

// mark says on the cgroup itself who made it. A job is being set up as long as its record is not in everybody's list
// yet; in that time only the maker knows that it is no orphan, and the mark lets others ask whether the maker lives.
func (h *hook) mark(j *cgroup.Job) error {
	b, err := json.Marshal(h.self)
	if err != nil {
		return err
	}
	if err := j.SetMark(markName, b); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.made[j.ID()] = true
	return nil
}

// sweep removes the cgroups of jobs that are not in known and returns their ids. A cgroup whose maker is another living
// hook belongs to a host that shares this node; one that this process made and watches is being set up. The
// caller's list may be older than either.
func (h *hook) sweep(ctx context.Context, known map[string]*hostapi.Job) ([]string, error) {
	orphans, err := h.orphans(ctx, known)
	if err != nil {
		return nil, err
	}
	var swept []string
	var errs []error
	for _, j := range orphans {
		if err := h.remove(ctx, j); err != nil {
			errs = append(errs, fmt.Errorf("remove cgroup of unknown job %s: %w", j.ID(), err))
			continue
		}
		h.log.WithFields(logFields(j)).Warn("removed the cgroup of an unknown job")
		swept = append(swept, j.ID())
	}
	return swept, errors.Join(errs...)
}

// orphans lists under the tree's lock, in which begin makes and marks its cgroup as one step.
func (h *hook) orphans(ctx context.Context, known map[string]*hostapi.Job) ([]*cgroup.Job, error) {
	unlock, err := h.tree.Lock(ctx)
	if err != nil {
		return nil, fmt.Errorf("lock cgroup tree: %w", err)
	}
	defer unlock()
	ids, err := h.tree.JobIDs()
	if err != nil {
		return nil, err
	}
	var orphans []*cgroup.Job
	for _, id := range ids {
		if known[id] != nil {
			continue
		}
		j, err := h.tree.Job(id)
		if err != nil {
			return nil, err
		}
		if !h.hasMaker(j) {
			orphans = append(orphans, j)
		}
	}
	return orphans, nil
}

// hasMaker tells whether the process that made the cgroup still answers for it. This process answers for what it
// made and has not ended.
func (h *hook) hasMaker(j *cgroup.Job) bool {
	b, err := j.Mark(markName)
	if err != nil {
		return false // no mark: older than this program, or made by hand
	}
	var maker hostapi.ProcessID
	if err := json.Unmarshal(b, &maker); err != nil {
		return false
	}
	if maker == h.self {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.made[j.ID()]
	}
	return proc.Alive(h.roots.Proc, maker)
}
