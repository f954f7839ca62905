package main

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/proc"
)

// A sweep compares the cgroups with the host's list of jobs. The host lists a job before the hook
// makes its cgroup, so only a job that began after the list was made is missing in it. This process
// knows such a job: it has begun it, or was told of it by a later list.

// ownProcesses returns this process and its parent, the host.
func ownProcesses(procfs *kernfs.FS) ([]int, error) {
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

// own notes that this process knows the job. No sweep takes the job until disown.
func (h *hook) own(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.owned[id] = true
}

func (h *hook) disown(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.owned, id)
	delete(h.books, id)
}

func (h *hook) owns(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.owned[id]
}

// sweep removes the cgroups that are of no job: not in known, not begun by this process, and their own record does not say
// that there is a job which runs. It returns their ids. All of it has kill_timeout: what does not die in time was sent
// its signal and goes another time.
func (h *hook) sweep(ctx context.Context, known map[string]*hostapi.Job) (swept []string, err error) {
	ids, err := h.tree.JobIDs()
	if err != nil {
		return nil, err
	}
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
	release, _ := h.turns.try(id)
	if release == nil {
		return false, nil // it begins or ends at this moment
	}
	defer release()
	j, err := h.tree.Job(id)
	if err != nil {
		return false, err
	}
	if h.owns(id) || !j.Exists() {
		return false, nil
	}
	if r, err := j.Record(); err == nil && !r.Ending {
		// A job that somebody began and nobody ended: its record was lost, and the host makes it anew.
		h.logOf(id).Warn("left the cgroup of a job that has no record")
		return false, nil
	}
	strangers, err := h.strangers(j)
	switch {
	case err != nil:
		return false, err
	case strangers:
		if h.firstLeft(id) {
			h.logOf(id).Warn("left a cgroup that has processes and was not made by hookhost")
		}
		return false, nil
	}
	err = h.remove(ctx, j)
	switch {
	case errors.Is(err, errHeld): // a user's doing, which makes no node bad
		if h.firstLeft(errHeld.Error() + id) {
			h.logOf(id).Warnf("its cgroup is removed later: %v", err)
		}
		return false, nil
	case err != nil:
		return false, fmt.Errorf("remove: %w", err)
	}
	h.logOf(id).Warn("removed the cgroup of an unknown job")
	return true, nil
}

// strangers tells whether a cgroup has processes and no record. Whatever hookhost makes has its record before the first process
// is in it. OpenPBS's own hook has its jobs at the same place on cgroup v1, and they go on where it is replaced under them. The end
// of such a job, by pbs_mom's word, does remove it.
func (h *hook) strangers(j *cgroup.Job) (bool, error) {
	// That hook may have made none of the directory that has the record.
	if _, err := j.Record(); !errors.Is(err, unix.ENODATA) && !errors.Is(err, cgroup.ErrNotFound) {
		return false, nil
	}
	pids, err := j.Processes()
	return len(pids) > 0, err
}

// firstLeft is true once for each text.
func (h *hook) firstLeft(what string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.left[what] {
		return false
	}
	h.left[what] = true
	return true
}
