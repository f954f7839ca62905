package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/inventory"
	"github.com/hookhost/hookhost/internal/pbs"
)

// ExecjobResize gives the job its new size. Either everything changes or nothing does. If the job
// uses more than a limit, or if there is not enough room, the error is KindBusy, since that may
// pass. MoM requeues the job in any case.
func (h *hook) ExecjobResize(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	a, err := h.policy.askWithDevices(req)
	if err != nil {
		return nil, err
	}
	if _, err := h.limitsOf(a); err != nil { // programs launched from now on need them
		return nil, err
	}
	j, release, err := h.live(ctx, req)
	if err != nil {
		return nil, err
	}
	if j == nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "resize job %s: it has no cgroup on this host", req.Job.ID)
	}
	defer release()
	old, err := j.JobMark()
	if err != nil {
		return nil, hostapi.Errorf(kindOf(err), "resize job %s: %w", j.ID(), err)
	}
	z, err := h.grow(ctx, j, a)
	if err != nil {
		return nil, err
	}
	mark := resized(old, req.Job, z)
	if err := h.change(j, z, old, mark); err != nil {
		return nil, err
	}
	h.resized(j.ID())
	u := z.usage(z.there)
	u.ProcessesAttached, _ = j.Attached()
	s, _, err := stateOf(req.Job, req.Node, j)
	s.JobMark = old // its usage until now counts for the old size
	if err := errors.Join(err, h.bill(&s, req.Job, u, true)); err != nil {
		h.logOf(j.ID()).Warn(err)
	}
	out := &hostapi.Outcome{
		Notes: z.notes, ResourcesUsed: hostapi.Resources{"ncpus": fmt.Sprint(u.NCPUs)}, Usage: u,
		AttachEnv: h.policy.variables(mark, a),
	}
	if s.account != (account{}) {
		out.State = s.encode()
	}
	return out, nil
}

// resized returns the mark of a job with its new size.
func resized(old cgroup.JobMark, asked *hostapi.Job, z newShare) cgroup.JobMark {
	begin, job := *old.Begin, *asked
	job.State, job.Phase, job.Elapsed = nil, "", 0
	if job.KillDelay == nil {
		job.KillDelay = begin.Job.KillDelay
	}
	begin.Job = &job
	r := cgroup.JobMark{Begin: &begin, Assigned: old.Assigned}
	r.Limits, r.AllMem, r.NCPUs = &z.limits, z.allMem, z.ask.NCPUs
	return r
}

// newShare holds the share that a job is about to get, and its current one.
type newShare struct {
	assignment
	had      cgroup.Limits    // the limits in force
	hadGrant *inventory.Grant // as stored on its cgroup
	there    host
}

// newSize reads the job's current share and decides the new one, counting the current one as free.
// The caller holds the lock.
func (h *hook) newSize(j *cgroup.Job, a ask) (z newShare, err error) {
	fail := func(err error) (newShare, error) {
		return newShare{}, hostapi.Errorf(hostapi.KindNode, "resize job %s: %w", j.ID(), err)
	}
	if z.had, err = j.Limits(); err != nil {
		return fail(err)
	}
	if z.there, err = h.survey(); err != nil {
		return fail(err)
	}
	own, held, err := h.holdingsBeside(j.ID(), z.there)
	if err != nil {
		return newShare{}, err
	}
	a.had = own.limits
	if h.policy.Devices.Enabled {
		if a.hadGrant, err = inventory.GrantOf(j); err != nil {
			return fail(err)
		}
	}
	if err := h.readDevices(&z.there, a, held); err != nil {
		return newShare{}, err
	}
	if z.assignment, err = h.assignBeside(z.there, a, held); err != nil {
		return newShare{}, err
	}
	z.hadGrant, z.grant = a.hadGrant, regrant(a.hadGrant, z.grant)
	return z, h.raiseParent(z.there, append(held, own.or(h.policy.holdingOf(z.there, z.assignment))))
}

// grow chooses the new size. From then until change returns, the job holds the larger of both
// sizes.
func (h *hook) grow(ctx context.Context, j *cgroup.Job, a ask) (z newShare, err error) {
	unlock, err := h.lock(ctx)
	if err != nil {
		return newShare{}, err
	}
	defer unlock()
	if z, err = h.newSize(j, a); err != nil {
		return newShare{}, err
	}
	if err := ctx.Err(); err != nil { // nobody waits for an answer after the alarm
		return newShare{}, hostapi.Errorf(hostapi.KindBusy, "resize job %s: %w", j.ID(), err)
	}
	h.with(j.ID(), func(e *job) { e.growing = &z.assignment })
	return z, nil
}

// errNotUndone means that a resize failed and left the job with neither its old nor its new size.
// MoM requeues the job.
var errNotUndone = errors.New("undo")

// change brings the job and its marks to the new size, or restores everything. If that fails too,
// the error is errNotUndone. Reclaiming or moving memory can take seconds. If the hook dies
// meanwhile, the old mark is still there, and the next process applies the old size (settle).
func (h *hook) change(j *cgroup.Job, z newShare, old, mark cgroup.JobMark) error {
	err := h.apply(j, h.inKernel(z.limits, z.ask), z, old.Begin.Job.Owner.UID)
	if err == nil {
		err = h.note(j, z, mark)
	}
	if err == nil {
		h.setAssigned(j, z.assignment)
		return nil
	}
	undo := errors.Join(j.Apply(z.had, nil), j.SetJobMark(old))
	if undo != nil && !errors.Is(undo, cgroup.ErrNotFound) { // the node is at fault
		// The job may have more or less than before. Until it ends, it holds the larger of both
		// sizes.
		return hostapi.Errorf(hostapi.KindNode, "%w; %w: %w", err, errNotUndone, undo)
	}
	h.with(j.ID(), func(e *job) { e.growing = nil })
	return err
}

// checkMaps fails with proc.ErrHangs if the memory map of one of the job's processes is held.
func (h *hook) checkMaps(j *cgroup.Job, owner int) error {
	pids, err := j.Processes()
	var waited time.Duration
	for i := 0; err == nil && i < len(pids); i++ {
		err = h.checkMap(owner, pids[i], &waited)
	}
	return err
}

// note writes the marks of the new size. It writes the grant last, because hook devices may act on
// that at any moment.
func (h *hook) note(j *cgroup.Job, z newShare, mark cgroup.JobMark) error {
	err := j.SetJobMark(mark)
	if err == nil && z.grant != z.hadGrant {
		err = z.grant.Mark(j)
	}
	if err != nil {
		return hostapi.Errorf(kindOf(err), "resize job %s: %w", j.ID(), err)
	}
	return nil
}

// apply changes the limits in the kernel. If the follower enforces mem, the job must not exceed its
// new mem at the start. owner is the uid of the job's owner.
func (h *hook) apply(j *cgroup.Job, limits cgroup.Limits, z newShare, owner int) error {
	if b := h.policy.boundsOf(&z.assignment); !h.policy.kernelLimitsMem() && b.mem > 0 {
		if used, ok := memUsed(j); ok && used > b.mem {
			return hostapi.Errorf(hostapi.KindBusy, "%w", belowUse("mem", b.mem, used))
		}
	}
	err := j.Apply(limits, func() error { return h.checkMaps(j, owner) })
	kind := kindOf(err)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, cgroup.ErrUnsupported): // this job cannot change
		kind = hostapi.KindJob
		had, gets := !z.had.CPUs.IsEmpty(), !limits.CPUs.IsEmpty()
		switch {
		case z.there.v2 || had == gets:
		case had:
			err = errors.New("a job with a cpuset cannot lose it on cgroup v1")
		default:
			err = errors.New("a job without a cpuset cannot get one on cgroup v1")
		}
	case errors.Is(err, cgroup.ErrInUse):
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

// memUsed returns the memory that the job could give back only by swapping.
func memUsed(j *cgroup.Job) (int64, bool) {
	u, err := j.Usage()
	if err != nil || u.Anon == nil || u.Shmem == nil {
		return 0, false
	}
	return *u.Anon + *u.Shmem, true
}

func belowUse(resource string, limit, used int64) error {
	return fmt.Errorf("%s requested (%s) is below what the job uses (%s)",
		resource, pbs.Size(limit).KB(), pbs.Size(used).KB())
}
