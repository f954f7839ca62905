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

// The table has what each job was granted, and is filled once, from the marks on the cgroups. From
// then on the table decides what is free. No other job's files are read, and a limit that somebody
// sets by hand counts for nobody. A change is in the job's mark before it is answered, so that the
// next program has the same table.

// maxLockWait is how long an event waits for the lock, which others hold for milliseconds.
const maxLockWait = 20 * time.Second

// lock takes the table for a choice of what is free. The wait ends well before the event's alarm,
// at which the host would end this program. The first caller takes the lock of the tree too, which
// this program has for its life. So no other program of this hook chooses beside it.
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
		return nil, hostapi.Errorf(hostapi.KindBusy, "wait for the choice of another job: %w", ctx.Err())
	}
	if h.unlockTree == nil {
		if h.unlockTree, err = h.tree.Lock(ctx); err != nil {
			<-h.choosing
			kind := hostapi.KindNode
			if ctx.Err() != nil { // a program before this one has not ended yet
				kind = hostapi.KindBusy
			}
			return nil, hostapi.Errorf(kind, "%w", err)
		}
	}
	return func() { <-h.choosing }, nil
}

// fill enters the jobs that began before this program. The caller has the lock.
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
		got, marked, err := h.grantOf(j)
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
		h.with(id, func(e *job) { e.cgroup, e.granted, e.unread, e.unmarked = j, &got, unread, !marked })
	}
	h.filled = true
	return nil
}

// grantOf returns what a job was granted. A job without a mark began before hookhost came, and
// holds what the kernel has of its limits.
func (h *hook) grantOf(j *cgroup.Job) (got assignment, marked bool, err error) {
	m, found, err := markOf(j)
	if err != nil {
		return assignment{}, false, err
	}
	if found && m.Limits != nil && !m.Part {
		return grantedIn(m), true, nil
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

// grantedIn returns what a job's mark says that it was granted. A mark without the chunks, which
// were too many, has the sums over all hosts: the mem that was granted is right in any case.
func grantedIn(m cgroup.JobMark) assignment {
	a, _ := askOf(m.Begin.Job, m.Begin.Node) // begin has refused what cannot be read
	a.Mem, a.chunks, a.here, a.notes = nil, nil, nil, nil
	if m.Limits.Mem != nil && !m.AllMem {
		mem := pbs.Size(*m.Limits.Mem)
		a.Mem = &mem
	}
	return assignment{limits: *m.Limits, allMem: m.AllMem, ask: a}
}

// holds notes what a job holds from now on.
func (h *hook) holds(j *cgroup.Job, got assignment) {
	got.ask.chunks, got.ask.here, got.ask.notes, got.notes = nil, nil, nil, nil // long where there are many hosts
	got.ask.had, got.ask.hadGrant = cgroup.Limits{}, nil
	h.with(j.ID(), func(e *job) {
		e.cgroup, e.granted, e.growing, e.unread, e.unmarked = j, &got, nil, false, false
	})
}

// letGo notes that a job holds nothing any more: it has no cgroup.
func (h *hook) letGo(id string) {
	h.with(id, func(e *job) {
		e.cgroup, e.granted, e.growing, e.unread, e.unmarked = nil, nil, nil, false, false
	})
}
