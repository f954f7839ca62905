package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/proc"
)

// A sweep compares the cgroups with the host's list of jobs. The host lists a job before the hook
// creates its cgroup, so the list can lack only jobs that began after it was made. This process
// knows those jobs: it began them itself, or saw them in a later list.

// pidsOfHookAndHost returns the pids of this process and its parent, the host.
func pidsOfHookAndHost(procfs *kernfs.FS) ([]int, error) {
	self, err := proc.Self(procfs)
	if err != nil {
		return nil, err
	}
	p, err := proc.Read(procfs, self.PID)
	if err != nil {
		return nil, err
	}
	return []int{self.PID, p.PPID}, nil
}

// sweep removes the cgroups that belong to no job, and returns their ids. Those are cgroups that
// are not in known, were not begun by this process, and have no mark. kill_timeout applies to the
// whole sweep. A process that does not die in time has been sent its signal, and a later sweep
// removes its cgroup.
func (h *hook) sweep(ctx context.Context, known map[string]*hostapi.Job) (swept []string, err error) {
	ids, err := h.tree.JobIDs()
	if err != nil {
		return nil, err
	}
	h.forgetLeft(ids)
	h.forgetGone(ids, known)
	ctx, cancel := context.WithTimeout(ctx, h.killTimeout())
	defer cancel()
	var errs []error
	for _, id := range ids {
		if _, listed := known[id]; listed {
			continue
		}
		removed, err := h.sweepJob(ctx, id)
		if err != nil {
			errs = append(errs, hostapi.Errorf(hostapi.KindNode, "cgroup of unknown job %s: %w", id, err))
		}
		if removed {
			swept = append(swept, id)
		}
	}
	return swept, errors.Join(errs...)
}

func (h *hook) sweepJob(ctx context.Context, id string) (removed bool, err error) {
	release := h.try(id)
	if release == nil {
		return false, nil // it is just beginning or ending
	}
	defer release()
	j, err := h.tree.Job(id)
	if err != nil {
		return false, err
	}
	if h.snapshot(id).known || !j.Exists() {
		return false, nil
	}
	_, err = j.JobMark()
	switch {
	case err == nil: // The host lost its record of the job. Startup reports such a job.
		if h.firstLeft(id, "record") {
			h.logOf(id).Warn("left the cgroup of a job that has no record")
		}
		return false, nil
	case errors.Is(err, cgroup.ErrNotJobs):
	case errors.Is(err, unix.ENODATA), errors.Is(err, cgroup.ErrNotFound):
		// A cgroup made by hookhost gets its mark before its first process. On cgroup v1 OpenPBS's
		// own hook has its jobs in the same place, perhaps without the directory that has the mark.
		// They keep running when that hook is replaced. When pbs_mom reports the end of such a job,
		// its cgroup is removed.
		pids, err := j.Processes()
		if err != nil {
			return false, err
		}
		if len(pids) > 0 {
			if h.firstLeft(id, "processes") {
				h.logOf(id).Warn("left a cgroup that has processes and was not made by hookhost")
			}
			return false, nil
		}
	default:
		return false, err
	}
	err = h.remove(ctx, j)
	switch {
	case errors.Is(err, errStarved): // caused by the user, so the node is not at fault
		if h.firstLeft(id, "later") {
			h.logOf(id).Warnf("its cgroup is removed later: %v", err)
		}
		return false, nil
	case err != nil:
		return false, fmt.Errorf("remove: %w", err)
	}
	h.logOf(id).Warn("removed the cgroup of an unknown job")
	return true, nil
}

// forgetGone releases what is held by jobs that are not in known and have no cgroup because
// somebody removed it by hand.
func (h *hook) forgetGone(ids []string, known map[string]*hostapi.Job) {
	var gone []*cgroup.Job
	h.mu.Lock()
	for id, e := range h.table {
		if e.assigned != nil && known[id] == nil && !slices.Contains(ids, id) {
			gone = append(gone, e.cgroup)
		}
	}
	h.mu.Unlock()
	for _, j := range gone {
		if release := h.try(j.ID()); release != nil {
			if !j.Exists() { // else it has begun again since
				h.forget(j.ID())
			}
			release()
		}
	}
}

// left identifies a message about a job's cgroup that is logged once while the cgroup exists. The
// id is empty for the parent.
type left struct{ id, what string }

// firstLeft returns true the first time that it is called for a message.
func (h *hook) firstLeft(id, what string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.left[left{id, what}] {
		return false
	}
	h.left[left{id, what}] = true
	return true
}

// forgetLeft forgets the messages about cgroups that are gone.
func (h *hook) forgetLeft(ids []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.left, func(l left, _ bool) bool { return l.id != "" && !slices.Contains(ids, l.id) })
}

// settled forgets the messages about the parent.
func (h *hook) settled() {
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.left, func(l left, _ bool) bool { return l.id == "" })
}
