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

// sweep removes hookhost's cgroups that belong to no job, and returns their ids. Those are cgroups
// that are not in known, were not begun by this process, and have a mark that names no job.
// kill_timeout applies to the whole sweep. A process that does not die in time has been sent its
// signal, and a later sweep removes its cgroup.
func (h *hook) sweep(ctx context.Context, known map[string]*hostapi.Job) (swept []string, err error) {
	ids, err := h.tree.JobIDs()
	if err != nil {
		return nil, err
	}
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
		h.warnOnce(id, "the job has no record: its cgroup is left until exechost_startup reports it")
		return false, nil
	case errors.Is(err, cgroup.ErrNotJobs):
	case errors.Is(err, unix.ENODATA), errors.Is(err, cgroup.ErrNotFound):
		// hookhost marks each cgroup as soon as it has made it. If it dies in between, the cgroup
		// stays until the job's end. On cgroup v1 the jobs of OpenPBS's own hook are in the same
		// place, perhaps without the directory that would have the mark. On a sister host their
		// cgroups are empty until the first task. Such jobs keep running when hookhost is installed
		// beside that hook, or replaces it. When pbs_mom reports the end of such a job, its cgroup
		// is removed.
		h.warnOnce(id, "its cgroup was not made by hookhost: it is left alone until pbs_mom reports the job's end; "+
			"if there is no such job, remove the cgroup with rmdir(1)")
		return false, nil
	default:
		return false, err
	}
	err = h.remove(ctx, j)
	switch {
	case errors.Is(err, errStarved): // caused by the user, so the node is not at fault
		h.warnOnce(id, fmt.Sprintf("its cgroup is removed later: %v", errStarved))
		return false, nil
	case err != nil:
		return false, fmt.Errorf("remove: %w", err)
	}
	h.logOf(id).Warn("removed the cgroup of an unknown job")
	return true, nil
}

// forgetGone forgets jobs that are not in known and have no cgroup because somebody removed it by
// hand.
func (h *hook) forgetGone(ids []string, known map[string]*hostapi.Job) {
	h.mu.Lock()
	gone := slices.DeleteFunc(slices.Collect(maps.Keys(h.table)), func(id string) bool {
		return known[id] != nil || slices.Contains(ids, id)
	})
	h.mu.Unlock()
	for _, id := range gone {
		if release := h.try(id); release != nil {
			if j, err := h.tree.Job(id); err == nil && !j.Exists() { // else it has begun again since
				h.forget(id)
			}
			release()
		}
	}
}

// warnOnce logs a message about a job's cgroup, unless it was the last message about that cgroup.
func (h *hook) warnOnce(id, text string) {
	first := false
	h.with(id, func(e *job) { first, e.lastWarning = e.lastWarning != text, text })
	if first {
		h.logOf(id).Warn(text)
	}
}
