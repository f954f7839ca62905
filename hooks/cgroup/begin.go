package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/inventory"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/proc"
	"github.com/hookhost/hookhost/internal/topology"
)

// ExecjobBegin creates the job's cgroup with its limits. If any step fails, it cleans up.
func (h *hook) ExecjobBegin(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	out, err := h.beginJob(ctx, req)
	if err != nil {
		return holdBeyond(req, err)
	}
	return out, nil
}

func (h *hook) beginJob(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	a, err := h.policy.askWithDevices(req)
	if err != nil {
		return nil, err
	}
	if _, err := h.limitsOf(a); err != nil { // at launch it would be too late to refuse
		return nil, err
	}
	j, release, err := h.turn(ctx, req)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := h.ensureParent(ctx); err != nil {
		return nil, err
	}
	h.awaitInventory(ctx, a)
	unlock, err := h.enter(ctx, j, req.MoM)
	if err != nil {
		return nil, err
	}
	defer unlock()
	there, err := h.survey()
	if err != nil {
		return nil, err
	}
	held, err := h.holdings(there)
	if err != nil {
		return nil, err
	}
	if err := h.readDevices(&there, a, held); err != nil {
		return nil, err
	}
	got, err := h.assignBeside(there, a, held)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil { // nobody waits for an answer after the alarm
		return nil, hostapi.Errorf(hostapi.KindBusy, "begin job %s: %w", j.ID(), err)
	}
	if err := h.raiseParent(there, append(held, h.policy.holdingOf(there, got))); err != nil {
		return nil, err
	}
	out := h.begun(got, there)
	if got.grant == nil && h.policy.Devices.Enabled {
		// An empty grant marks a job without devices. Hook devices does not touch jobs that have no
		// grant: they began before [devices] was enabled.
		got.grant = &inventory.Grant{Devices: []topology.Device{}}
	}
	mark := cgroup.JobMark{Begin: req, Assigned: cgroup.Assigned{
		Limits: &got.limits, AllMem: got.allMem, NCPUs: got.ask.NCPUs, BegunMicros: sinceBoot(),
		PerTask: h.policy.perTask(), Delegated: h.policy.Cgroup.Delegate && h.tree.Delegates(),
	}}
	if err := h.create(ctx, j, got, mark); err != nil {
		return nil, err
	}
	if err := h.bill(&state{JobMark: mark}, req.Job, out.Usage, true); err != nil { // counting starts here
		h.logOf(j.ID()).Warn(err)
	}
	out.AttachEnv = h.policy.variables(mark, a)
	out.CallAgain = h.soonestCall(0)
	return out, nil
}

// askFor returns the job's requests on this host; see askOf.
func askFor(req *hostapi.Request) (ask, error) {
	a, err := askOf(req.Job, req.Node)
	if errors.Is(err, pbs.ErrNotOnHost) { // MoM and hookhost know this host by different names
		return ask{}, hostapi.Errorf(hostapi.KindNode, "job %s: %w", req.Job.ID, err)
	}
	if err != nil {
		return ask{}, hostapi.Errorf(hostapi.KindJob, "job %s: %w", req.Job.ID, err)
	}
	return a, nil
}

// askWithDevices is like askFor and adds devices where [devices] is enabled.
func (p *policy) askWithDevices(req *hostapi.Request) (ask, error) {
	a, err := askFor(req)
	if err != nil || !p.Devices.Enabled {
		return a, err
	}
	if err := a.addWants(req.Job, p.resources()); err != nil {
		return ask{}, hostapi.Errorf(hostapi.KindJob, "job %s: %w", req.Job.ID, err)
	}
	return a, nil
}

// enter takes the lock after removing any cgroup that an earlier run of the job left.
func (h *hook) enter(ctx context.Context, j *cgroup.Job, mom *hostapi.ProcessID) (unlock func(), err error) {
	h.unwatch(j.ID())
	if j.Exists() {
		if err := h.clear(ctx, j, mom); err != nil {
			return nil, err
		}
	}
	h.forget(j.ID())
	return h.lock(ctx)
}

// clear removes a cgroup that already has the job's id. It is left over from a run that ended
// without its end event, or from this same event before a crash. The caller does not hold the lock,
// because killing takes time.
func (h *hook) clear(ctx context.Context, j *cgroup.Job, mom *hostapi.ProcessID) error {
	// Two jobs can have the same id, for example after PBS's records were deleted. In that case the
	// other job's MoM is still alive.
	if r, err := j.JobMark(); err == nil && r.Begin.MoM != nil && (mom == nil || *mom != *r.Begin.MoM) &&
		proc.Alive(h.roots.Proc, *r.Begin.MoM) {
		return hostapi.Errorf(hostapi.KindBusy, "job %s already runs here: process %d began it",
			j.ID(), r.Begin.MoM.PID)
	}
	err := h.remove(ctx, j)
	if err == nil {
		h.logOf(j.ID()).Warn("removed the cgroup of an earlier run")
		return nil
	}
	kind := hostapi.KindNode
	if cannotRemove(err) || errors.Is(err, errStarved) || ctx.Err() != nil {
		kind = hostapi.KindBusy
	}
	return hostapi.Errorf(kind, "job %s has a cgroup of an earlier run: %w", j.ID(), err)
}

// create makes the cgroup and writes two marks on it: the job, and the devices assigned to it. If
// any step fails, it removes the cgroup again.
func (h *hook) create(
	ctx context.Context,
	j *cgroup.Job,
	got assignment,
	r cgroup.JobMark,
) error {
	err := j.Create(h.inKernel(got.limits, got.ask))
	if err != nil {
		return hostapi.Errorf(kindOf(err), "%w", err)
	}
	// The job's mark is written last, so a cgroup whose mark names the job is complete.
	if r.Grouped() {
		err = j.Split()
	}
	if err == nil && r.Delegated {
		err = j.Delegate(r.Begin.Job.Owner.UID)
	}
	if err == nil && got.grant != nil {
		err = got.grant.Mark(j)
	}
	if err == nil {
		err = j.SetJobMark(r)
	}
	if err != nil {
		return hostapi.Errorf(kindOf(err), "mark cgroup of job %s: %w", j.ID(), errors.Join(err, h.remove(ctx, j)))
	}
	h.setAssigned(j, got)
	h.learn(r.Begin.Job)
	h.watch(j)
	return nil
}

// begun is the outcome of an accepted begin. The zeros make MoM leave these resources to the hook
// from the start (openpbs mom_mach.c, ATR_VFLAG_HOOK). Resources that cannot be measured on this
// host are left to MoM.
func (h *hook) begun(got assignment, there host) *hostapi.Outcome {
	used := hostapi.Resources{"ncpus": fmt.Sprint(got.ask.NCPUs)}
	if h.tree.Has("cpuacct") || h.tree.Mode() != cgroup.ModeV1 {
		used["cput"], used["cpupercent"] = "00:00:00", "0"
	}
	for name, measured := range map[string]bool{
		"mem":   h.tree.Has("memory"),
		"vmem":  h.tree.Has("swappeak"),
		"hpmem": h.policy.Hugetlb.Enabled && h.tree.Has("hugepeak"),
	} {
		if measured {
			used[name] = "0kb"
		}
	}
	return &hostapi.Outcome{ResourcesUsed: used, Usage: got.usage(there), Notes: got.notes}
}
