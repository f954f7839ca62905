package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/pbs"
)

// ExecjobResize gives the job its new size: all of it, or nothing changes. A limit below what the job uses is KindBusy, as
// is a lack of room: both may pass. MoM requeues the job in either case.
func (h *hook) ExecjobResize(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	a, err := askFor(req)
	if err != nil {
		return nil, err
	}
	if _, err := h.limitsOf(a); err != nil { // what is launched from now on is to have them
		return nil, err
	}
	j, s, release, err := h.live(ctx, req)
	if err != nil {
		return nil, err
	}
	if j == nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "resize job %s: it has no cgroup on this host", req.Job.ID)
	}
	defer release()
	unlock, err := h.lock(ctx)
	if err != nil {
		return nil, err
	}
	unlock = sync.OnceFunc(unlock)
	defer unlock()
	z, err := h.newSize(j, &a)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil { // nobody takes an answer after the alarm
		return nil, hostapi.Errorf(hostapi.KindBusy, "resize job %s: %w", j.ID(), err)
	}
	s.NCPUs, s.CPUs, s.Mems, s.MemLimit = a.NCPUs, z.limits.CPUs.String(), z.limits.Mems.String(), h.policy.memLimit(z.limits)
	if z.limits.CPUs.IsEmpty() {
		s.CPUs, s.Mems = z.there.cpus.String(), z.there.mems.String()
	}
	if err := h.change(j, z, unlock, func(r *cgroup.Record) {
		begin, job := *r.Begin, *req.Job
		job.State = nil
		if job.KillDelay == nil {
			job.KillDelay = begin.Job.KillDelay
		}
		begin.Job = &job
		r.Begin, r.State = &begin, s.encode()
	}); err != nil {
		return nil, err
	}
	h.resized(j.ID())
	return &hostapi.Outcome{
		State: s.encode(), Notes: z.notes, ResourcesUsed: hostapi.Resources{"ncpus": fmt.Sprint(s.NCPUs)},
		Usage: &hostapi.HostUsage{CPUs: s.CPUs, Mems: s.Mems, NCPUs: s.NCPUs, MemLimitBytes: z.limits.Mem, ProcessesAttached: s.Attached},
	}, nil
}

// newShare is what a job is to have, and what it has.
type newShare struct {
	ask    ask
	limits cgroup.Limits // decided
	had    cgroup.Limits // in force
	notes  []string
	there  host
}

// newSize reads what the job has and decides what it gets, with its own counted as free. The caller has the lock.
func (h *hook) newSize(j *cgroup.Job, a *ask) (z newShare, err error) {
	fail := func(err error) (newShare, error) {
		return newShare{}, hostapi.Errorf(hostapi.KindNode, "resize job %s: %w", j.ID(), err)
	}
	if z.had, err = j.Limits(); err != nil {
		return fail(err)
	}
	ids, err := h.tree.JobIDs()
	if err != nil {
		return fail(err)
	}
	if z.there, err = h.survey(); err != nil {
		return fail(err)
	}
	held, err := h.holdings(ids)
	if err != nil {
		return fail(err)
	}
	if i := slices.IndexFunc(held, func(o holding) bool { return o.id == j.ID() }); i >= 0 {
		own := held[i]
		held = slices.Delete(held, i, i+1)
		a.had = cgroup.Limits{CPUs: own.limits.CPUs, Hugetlb: own.limits.Hugetlb}
		if h.policy.asked(own, h.node) {
			a.had.Mem = own.limits.Mem
		}
		if own.vmem || own.limits.MemSwap != nil && *own.limits.MemSwap < h.policy.memTotal(h.node)+h.policy.swapTotal(h.node) {
			a.had.MemSwap = own.limits.MemSwap
		}
	}
	z.limits, z.notes, err = h.choose(z.there, *a, held)
	z.ask = *a
	return z, err
}

// change brings the job to its new size, and its record with it, or leaves both as they were. The caller has the lock, and
// is rid of it as soon as others can see what the job gets: to give memory back, or move it, takes seconds, and what
// the job gives up is nobody else's before it has.
func (h *hook) change(j *cgroup.Job, z newShare, unlock func(), record func(*cgroup.Record)) error {
	to := h.inKernel(z.limits, z.ask)
	both, narrows := to.Cover(z.had)
	if err := h.apply(j, both, z); err != nil {
		return err
	}
	var old *cgroup.Record
	amend := func() error {
		err := h.amend(j, func(r *cgroup.Record) {
			was := *r
			old = &was
			record(r)
		})
		if err != nil {
			err = hostapi.Errorf(recordKind(err), "resize job %s: %w", j.ID(), err)
		}
		return err
	}
	// A smaller mem is in the record when the job has come down to it: the sampler kills for what stands there.
	late := h.policy.kernelLimitsMem() && both.Mem != to.Mem
	var err error
	if !late {
		err = amend()
	}
	if err == nil && narrows {
		unlock()
		err = h.apply(j, to, z)
	}
	if err == nil && late {
		err = amend()
	}
	if err == nil {
		return nil
	}
	undo := j.Apply(z.had)
	if old != nil {
		undo = errors.Join(undo, h.amend(j, func(r *cgroup.Record) { r.Begin, r.State = old.Begin, old.State }))
	}
	if undo != nil && !errors.Is(undo, cgroup.ErrNotFound) {
		return hostapi.Errorf(hostapi.KindNode, "resize job %s: %w", j.ID(), errors.Join(err, undo))
	}
	return err
}

// apply changes the limits that are in force. Where mem is not the kernel's to limit, the job must not be over its new one
// from the start.
func (h *hook) apply(j *cgroup.Job, limits cgroup.Limits, z newShare) error {
	if b := h.policy.boundsOf(z.ask); !h.policy.kernelLimitsMem() && b.mem != nil {
		if used, ok := memUsed(j); ok && used > *b.mem {
			return hostapi.Errorf(hostapi.KindBusy, "%w", belowUse("mem", *b.mem, used))
		}
	}
	err := j.Apply(limits)
	kind := hostapi.KindNode
	switch {
	case err == nil:
		return nil
	case errors.Is(err, cgroup.ErrUnsupported): // for this job
		kind = hostapi.KindJob
		had, gets := !z.had.CPUs.IsEmpty(), !limits.CPUs.IsEmpty()
		switch {
		case z.there.v2 || had == gets:
		case had:
			err = errors.New("a job with cpus of its own cannot be without on cgroup v1")
		default:
			err = errors.New("a job without cpus of its own cannot get any on cgroup v1")
		}
	case errors.Is(err, cgroup.ErrNotFound), errors.Is(err, cgroup.ErrTaken): // it ends at this moment; another's end is near
		kind = hostapi.KindBusy
	case errors.Is(err, cgroup.ErrInUse):
		kind = hostapi.KindBusy
		used, ok := memUsed(j)
		switch {
		case ok && z.limits.Mem != nil && used > *z.limits.Mem:
			err = belowUse("mem", *z.limits.Mem, used)
		case ok && z.limits.MemSwap != nil && used > *z.limits.MemSwap:
			err = belowUse("vmem", *z.limits.MemSwap, used)
		}
	}
	return hostapi.Errorf(kind, "resize job %s: %w", j.ID(), err)
}

// memUsed is what the job could give back only by swapping.
func memUsed(j *cgroup.Job) (int64, bool) {
	u, err := j.Usage()
	if err != nil || u.Anon == nil || u.Shmem == nil {
		return 0, false
	}
	return *u.Anon + *u.Shmem, true
}

func belowUse(resource string, limit, used int64) error {
	return fmt.Errorf("%s requested (%s) is below what the job uses (%s)", resource, pbs.Size(limit).KB(), pbs.Size(used).KB())
}
