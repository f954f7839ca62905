package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/inventory"
	"github.com/hookhost/hookhost/internal/pbs"
)

// ExecjobResize gives the job its new size: all of it, or nothing changes. A limit below what the job uses is KindBusy, as
// is a lack of room: both may pass. MoM requeues the job in either case.
func (h *hook) ExecjobResize(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	a, err := h.policy.askWithDevices(req)
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
	lock := &treeLock{hook: h, unlock: unlock}
	defer lock.release()
	z, err := h.newSize(j, &a)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil { // nobody takes an answer after the alarm
		return nil, hostapi.Errorf(hostapi.KindBusy, "resize job %s: %w", j.ID(), err)
	}
	s.NCPUs, s.CPUs, s.Mems, s.MemLimit = z.ask.NCPUs, z.limits.CPUs.String(), z.limits.Mems.String(), h.policy.memLimit(z.limits)
	if z.limits.CPUs.IsEmpty() {
		s.CPUs, s.Mems = z.there.cpus.String(), z.there.mems.String()
	}
	if err := h.change(ctx, j, z, lock, func(r *cgroup.Record) {
		begin, job := *r.Begin, *req.Job
		job.State = nil
		if job.KillDelay == nil {
			job.KillDelay = begin.Job.KillDelay
		}
		begin.Job = &job
		r.Begin, r.State, r.Limits = &begin, s.encode(), &z.limits
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
	grants regrant
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
	if h.policy.Devices.Enabled {
		if a.hadGrant, err = inventory.GrantOf(j); err != nil {
			return fail(err)
		}
	}
	if err := h.tellDevices(&z.there, *a, held); err != nil {
		return newShare{}, err
	}
	got, err := h.assign(z.there, *a, held)
	z.ask, z.limits, z.grants, z.notes = got.ask, got.limits, newRegrant(a.hadGrant, got.grant), got.notes
	return z, err
}

// change brings the job to its new size, and its record with it, or leaves both as they were. The caller has the lock, and
// is rid of it as soon as others can see what the job gets: to give memory back, or move it, takes seconds, and what
// the job gives up is nobody else's before it has. It is taken again for what stands there of devices, which hook devices
// changes too. When it has, that may be another's, and the job keeps its new size in the
// kernel whatever fails then. A mark stands on the cgroup until kernel and record agree: see bringDown.
func (h *hook) change(ctx context.Context, j *cgroup.Job, z newShare, lock *treeLock, record func(*cgroup.Record)) error {
	earlier := marked(j)
	if err := j.SetMark(resizeMark, []byte(resizing)); err != nil {
		kind := hostapi.KindNode
		if errors.Is(err, cgroup.ErrNotFound) { // it ends at this moment
			kind = hostapi.KindBusy
		}
		return hostapi.Errorf(kind, "resize job %s: %w", j.ID(), err)
	}
	var old *cgroup.Record // once it has been replaced
	narrowed, err := h.steps(ctx, j, z, lock, func() error {
		var was cgroup.Record
		err := h.amend(j, func(r *cgroup.Record) {
			was = *r
			record(r)
		})
		if err != nil {
			return hostapi.Errorf(recordKind(err), "resize job %s: %w", j.ID(), err)
		}
		old = &was
		return nil
	})
	switch {
	case err == nil:
		if err := j.SetMark(resizeMark, nil); err != nil && !errors.Is(err, cgroup.ErrNotFound) {
			h.logOf(j.ID()).Warn(err)
		}
		return nil
	case narrowed:
		return hostapi.Errorf(hostapi.KindOf(err), "resize job %s: others may have been given what it gave up, and it keeps its new limits: %w", j.ID(), err)
	}
	now, undo := j.Limits()
	if undo == nil {
		undo = j.Apply(z.had.Within(now))
	}
	undo = errors.Join(undo, z.grants.undo(ctx, j, lock))
	if old != nil && old.Begin != nil {
		undo = errors.Join(undo, h.amend(j, func(r *cgroup.Record) { r.Begin, r.State, r.Limits = old.Begin, old.State, old.Limits }))
	}
	if undo == nil {
		undo = j.SetMark(resizeMark, []byte(earlier))
	}
	return withUndo(j, err, undo)
}

// steps does it, and tells whether it got as far as to take from the job what it gives up, with nobody kept from that.
func (h *hook) steps(ctx context.Context, j *cgroup.Job, z newShare, lock *treeLock, amend func() error) (narrowed bool, err error) {
	to := h.inKernel(z.limits, z.ask)
	both, narrows := to.Cover(z.had)
	if err := z.grants.begin(ctx, j, lock); err != nil {
		return false, err
	}
	if err := h.apply(j, both, z); err != nil {
		return false, err
	}
	// A smaller mem is in the record when the job has come down to it: the sampler kills for what stands there, and where the
	// kernel has another limit others are given what is not there any more.
	late := both.Mem != to.Mem
	if !h.policy.kernelLimitsMem() {
		had := z.ask.had.Mem
		late = had != nil && (z.ask.Mem == nil || z.limits.Mem == nil || *z.limits.Mem < *had)
	}
	if !late {
		if err := amend(); err != nil {
			return false, err
		}
	}
	if narrows {
		lock.release()
		if err := h.apply(j, to, z); err != nil {
			return false, err
		}
	}
	if late {
		if err := amend(); err != nil {
			return narrows, err
		}
	}
	return narrows, z.grants.finish(ctx, j, lock)
}

// withUndo returns why a resize failed; where it could not be undone that is the node's.
func withUndo(j *cgroup.Job, err, undo error) error {
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
