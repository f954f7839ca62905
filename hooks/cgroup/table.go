package main

import (
	"context"
	"errors"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/inventory"
	"github.com/hookhost/hookhost/internal/pbs"
)

// The table holds each job's assignment. It is filled once, from the marks on the cgroups. From
// then on the table determines what is free, and limits set by hand do not count. Only the grants
// of jobs that are giving up devices are read again (readDevices). A change is written to the job's
// mark before the event is answered, so that the next process builds the same table.

// maxLockWait is how long an event waits for the lock, which is usually held for milliseconds.
const maxLockWait = 20 * time.Second

// lock locks the table while an event decides a job's share. The wait ends well before the event's
// alarm, when the host would kill this program. The first caller also takes the lock of the tree,
// which this program then holds until it ends. So no other process of this hook can decide at the
// same time.
func (h *hook) lock(ctx context.Context) (unlock func(), err error) {
	wait := maxLockWait
	if alarm, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(alarm)/2)
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	select {
	case h.choosing <- struct{}{}:
	case <-ctx.Done():
		return nil, hostapi.Errorf(hostapi.KindBusy, "wait for another job's placement: %w", ctx.Err())
	}
	if h.unlockTree == nil {
		if h.unlockTree, err = h.tree.Lock(ctx); err != nil {
			<-h.choosing
			kind := hostapi.KindNode
			if ctx.Err() != nil { // an earlier process has not ended yet
				kind = hostapi.KindBusy
			}
			return nil, hostapi.Errorf(kind, "%w", err)
		}
	}
	return func() { <-h.choosing }, nil
}

// fill adds the jobs that began before this process. The caller holds the lock.
func (h *hook) fill() error {
	if h.filled {
		return nil
	}
	ids, err := h.tree.JobIDs()
	if err != nil {
		return err
	}
	for _, id := range ids {
		j, err := h.tree.Job(id)
		if err != nil {
			return err
		}
		got, marked, err := h.assignmentOf(j)
		if errors.Is(err, cgroup.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		unread := false
		if h.policy.Devices.Enabled {
			got.grant, err = inventory.GrantOf(j)
			unread = err != nil
		}
		h.with(id, func(e *job) { e.cgroup, e.assigned, e.unread, e.unmarked = j, &got, unread, !marked })
		if !j.Exists() { // it has ended since, perhaps before it was in the table
			h.forget(id)
		}
		h.resized(id) // a watch that started earlier does not have bounds yet
	}
	h.filled = true
	return nil
}

// assignmentOf returns a job's assignment. A job without a mark was not begun by hookhost: it is
// one of OpenPBS's own hook. Its limits in the kernel count as its assignment.
func (h *hook) assignmentOf(j *cgroup.Job) (got assignment, marked bool, err error) {
	m, found, err := j.FindJobMark()
	if err != nil {
		return assignment{}, false, err
	}
	if found && m.Limits != nil {
		return assignmentIn(m), true, nil
	}
	l, err := j.Limits("cpuset", "memory", "hugetlb")
	if err != nil {
		return assignment{}, false, err
	}
	if l.MemSoft != nil {
		l.Mem = l.MemSoft
	}
	return assignment{limits: l, allMem: l.Mem == nil || *l.Mem >= h.policy.memTotal(h.node())}, false, nil
}

// assignmentIn returns the assignment in a job's mark. If there were too many chunks for the mark,
// its sums cover all hosts, but the assigned mem is right in any case.
func assignmentIn(m cgroup.JobMark) assignment {
	a, _ := askOf(m.Begin.Job, m.Begin.Node) // begin has rejected unreadable requests
	a.Mem, a.list, a.chunks, a.here, a.notes = nil, nil, nil, nil, nil
	if m.Limits.Mem != nil && !m.AllMem {
		mem := pbs.Size(*m.Limits.Mem)
		a.Mem = &mem
	}
	return assignment{limits: *m.Limits, allMem: m.AllMem, ask: a}
}

// setAssigned records a job's holding from now on.
func (h *hook) setAssigned(j *cgroup.Job, got assignment) {
	// These are long with many hosts.
	got.ask.list, got.ask.chunks, got.ask.here, got.ask.notes, got.notes = nil, nil, nil, nil, nil
	got.ask.had, got.ask.hadGrant = cgroup.Limits{}, nil
	h.with(j.ID(), func(e *job) {
		e.cgroup, e.assigned, e.growing, e.unread, e.unmarked = j, &got, nil, false, false
	})
}
