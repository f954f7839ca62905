package main

import (
	"context"
	"errors"
	"slices"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
)

// The limits of the parent of all jobs are what the node offers to jobs, as pbs_cgroups sets them
// at exechost_startup (openpbs pbs_cgroups.PY, _exechost_startup_handler). So jobs that requested
// no mem or no cpus leave the node its reserve, however many there are. pbs_cgroups does not set
// the cpus, and its jobs with ncpus=0 run on all of them.
//
// Begin uses the same figures, and PBS gets them too. If jobs hold more than that, the limit is the
// sum of their shares, because a job keeps its assignment. They do after a reload with a larger
// reserve, and while another job uses the place of a suspended one.

// parentLimits returns the limits of all jobs together, given what they hold.
func (p *policy) parentLimits(h host, jobs []holding) cgroup.Limits {
	var l cgroup.Limits
	for _, r := range resources {
		if r.parent != nil {
			r.parent(p, &l, h, jobs)
		}
	}
	return l
}

// limitParent applies the limits of all jobs together. If the jobs exceed a limit, it stays
// unchanged until the next exechost_periodic, because lowering it would kill processes. The caller
// holds the lock.
func (h *hook) limitParent(there host, jobs []holding) error {
	want := h.policy.parentLimits(there, jobs)
	h.parent = nil // unknown if this fails
	err := h.tree.LimitParent(want)
	if err != nil && !errors.Is(err, cgroup.ErrInUse) {
		return hostapi.Errorf(hostapi.KindNode, "%w", err)
	}
	if err != nil && !h.parentExceeded {
		h.log.Warnf("the limits of all jobs stay until a later exechost_periodic: %v", err)
	}
	h.parent, h.parentExceeded = &want, err != nil
	return nil
}

// raiseParent calls limitParent if the jobs would hold more than their limits allow. It leaves
// limits that could be lower to exechost_periodic, because reclaiming memory takes seconds. The
// caller holds the lock and has not yet given the additional resources to any job.
func (h *hook) raiseParent(there host, jobs []holding) error {
	if h.parent != nil && within(h.policy.parentLimits(there, jobs), *h.parent) {
		return nil
	}
	return h.limitParent(there, jobs)
}

// within reports whether the limits l are no higher than others.
func within(l, others cgroup.Limits) bool {
	if !l.CPUs.Minus(others.CPUs).IsEmpty() {
		return false
	}
	for _, n := range []struct{ is, most *int64 }{
		{l.Mem, others.Mem}, {l.MemSwap, others.MemSwap}, {l.Pids, others.Pids},
	} {
		if n.most != nil && (n.is == nil || *n.is > *n.most) {
			return false
		}
	}
	for page, most := range others.Hugetlb {
		if n, limited := l.Hugetlb[page]; !limited || n > most {
			return false
		}
	}
	return true
}

// settleParent calls limitParent for the current node and jobs. If hookhost has no job here, the
// limits stay as they are until the next begin, because they may be those of pbs_cgroups. That hook
// reads them to find out how much it can assign, and its jobs are held if they request more.
func (h *hook) settleParent(ctx context.Context) error {
	unlock, err := h.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	there, err := h.survey()
	if err != nil {
		return err
	}
	held, err := h.holdings(there)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(held, func(o holding) bool { return !h.snapshot(o.id).unmarked }) {
		h.parent = nil
		return nil
	}
	return h.limitParent(there, held)
}

// rescan reads the node again if its memory, swap or tasks have changed, and reports whether they
// did.
func (h *hook) rescan() (changed bool, err error) {
	was := h.node()
	now, err := was.Again(h.roots)
	if err != nil {
		return false, hostapi.Errorf(hostapi.KindNode, "%w", err)
	}
	h.machine.Store(now)
	return now != was, nil
}
