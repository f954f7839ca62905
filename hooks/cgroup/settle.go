package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hookhost/hookhost/internal/cgroup"
)

// A job has the limits that its begin or its last resize granted. A hook that starts puts them in
// force once more. So a resize that was broken off is undone, and a change of [memory] enforce
// comes into force. Limits that somebody has set by hand are replaced. A job that has asked for no
// mem may have what all jobs may have by now, and none of it counts as its own.

// settleTime is what lowering a job's limits takes at most: see cgroup.Job.Apply.
const settleTime = 10 * time.Second

// settle puts the granted limits in force, for a hook that starts. Limits that are to be lowered
// are left to lower: to give memory back takes seconds. The caller has the job's turn.
func (h *hook) settle(ctx context.Context, j *cgroup.Job) error {
	unlock, err := h.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	to, err := h.granted(j)
	if err != nil || to == nil {
		return err
	}
	now, err := j.Limits()
	if err != nil {
		return err
	}
	if _, widens := now.Cover(*to); widens {
		if err := h.fitsBeside(j, *to); err != nil {
			return err
		}
	}
	both, narrows := to.Cover(now)
	err = j.Apply(both)
	// After a reload the program before this one may be resizing the job.
	if err == nil && narrows || errors.Is(err, cgroup.ErrNotInForce) {
		h.setUnsettled(j.ID(), true)
	}
	return err
}

// fitsBeside fails where a job with the limits to would have more cpus or memory than now, and
// others were given that since. The caller has the tree's lock.
func (h *hook) fitsBeside(j *cgroup.Job, to cgroup.Limits) error {
	now, others, err := h.holdingsBeside(j.ID())
	if err != nil || now.job == nil {
		return err
	}
	then := holding{id: j.ID(), job: j, limits: promised(to)}
	for _, n := range []**int64{&then.limits.Mem, &then.limits.MemSwap} {
		if *n != nil {
			*n = new(wholePages(**n))
		}
	}
	h.policy.fillRequested(&then, h.node())
	more := then.limits.CPUs.Minus(now.limits.CPUs)
	for i, o := range others {
		if h.suspended(o.job) {
			others[i] = h.policy.frozen(o)
		}
		if taken := more.Intersect(others[i].limits.CPUs); !taken.IsEmpty() {
			return fmt.Errorf("cpus %s are job %s's by now", taken, o.id)
		}
	}
	p, all := h.policy, append(others, then)
	own, before := []holding{then}, []holding{now}
	node := h.node()
	mem, vmem := p.memTotal(node), p.memTotal(node)+p.swapTotal(node)
	switch {
	case p.heldMem(node, own) > p.heldMem(node, before) && p.heldMem(node, all) > mem:
		return errors.New("its mem is other jobs' by now")
	case p.Memsw.Enabled && p.heldMemsw(node, own) > p.heldMemsw(node, before) && p.heldMemsw(node, all) > vmem:
		return errors.New("its vmem is other jobs' by now")
	}
	return nil
}

// lower ends what settle has begun. A job that does not give back enough keeps what it has until
// the next try. lower does nothing if ctx may end before it is done. The caller has the job's turn.
func (h *hook) lower(ctx context.Context, j *cgroup.Job) error {
	if !h.isUnsettled(j.ID()) {
		return nil
	}
	if end, ok := ctx.Deadline(); ctx.Err() != nil || ok && time.Until(end) < settleTime {
		return nil
	}
	to, err := h.granted(j)
	if err == nil && to != nil {
		err = j.Apply(*to)
	}
	if err != nil {
		return err
	}
	h.setUnsettled(j.ID(), false)
	h.logOf(j.ID()).Info("its limits are those that it was granted")
	return nil
}

// granted returns what the kernel is to have of a job's limits; nil where nobody noted what was
// granted.
func (h *hook) granted(j *cgroup.Job) (*cgroup.Limits, error) {
	r, found, err := markOf(j)
	if err != nil || !found || r.Limits == nil || r.Part {
		return nil, err // without an error: made by hand, or by an earlier version
	}
	a, err := h.policy.askedIn(r)
	if err != nil {
		return nil, err
	}
	l := *r.Limits
	if r.AllMem && h.policy.Memory.Enabled {
		h.policy.allMem(&l, h.node(), a)
	}
	l = h.inKernel(l, a)
	return &l, nil
}

func (h *hook) setUnsettled(id string, is bool) { h.with(id, func(e *job) { e.unsettled = is }) }

func (h *hook) isUnsettled(id string) (is bool) {
	h.with(id, func(e *job) { is = e.unsettled })
	return is
}

// settleError logs why a job's limits are not those that it was granted, once for each job.
func (h *hook) settleError(id string, err error) {
	if err != nil && !errors.Is(err, cgroup.ErrNotFound) && h.firstLeft(id, "settle") {
		h.logOf(id).Warnf("its limits are not those that it was granted: %v", err)
	}
}
