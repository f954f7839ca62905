package main

import (
	"context"
	"errors"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
)

// A suspended job is frozen, and its place is given to others if nothing else is free. MoM stops
// only the job's session, with a signal. The freezer also stops processes that escaped the session,
// and prevents the job from resuming itself with SIGCONT.
//
// The host knows the job's phase, and the kernel knows whether it is frozen. Startup and periodic
// report jobs for which the two differ, for example after a crash. Then the host repeats the event
// in the job's turn.

// freezeTime limits the wait for processes to stop, because MoM is blocked meanwhile. A process
// that is in the kernel stops when it returns from there.
const freezeTime = 3 * time.Second

// ExecjobPostsuspend freezes the job. If processes do not stop in time, the error is KindBusy. MoM
// only logs that: the job is suspended anyway.
func (h *hook) ExecjobPostsuspend(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	j, release, err := h.live(ctx, req)
	if err != nil || j == nil {
		return &hostapi.Outcome{}, err
	}
	defer release()
	h.setPhase(j.ID(), hostapi.PhaseSuspended)
	out := &hostapi.Outcome{}
	ctx, cancel := context.WithTimeout(ctx, freezeTime)
	defer cancel()
	err = j.Suspend(ctx)
	switch {
	case errors.Is(err, cgroup.ErrUnsupported):
		out.Notes = []string{"the job was not frozen while it was suspended, as this kernel has no freezer: " +
			"only its session was stopped"}
		return out, nil
	case errors.Is(err, cgroup.ErrNotFound): // the job is ending
		return out, nil
	case err != nil && ctx.Err() != nil:
		return out, hostapi.Errorf(hostapi.KindBusy, "%w", err)
	case err != nil:
		return out, hostapi.Errorf(hostapi.KindNode, "%w", err)
	}
	return out, nil
}

// ExecjobPreresume thaws the job. Its processes stay stopped until MoM's SIGCONT. If it cannot be
// thawed, the job stays suspended.
func (h *hook) ExecjobPreresume(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	j, release, err := h.live(ctx, req)
	if err != nil || j == nil {
		return &hostapi.Outcome{}, err
	}
	defer release()
	if err := h.resume(ctx, j); err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "%w", err)
	}
	return &hostapi.Outcome{}, nil
}

// ExecjobPreterm prepares the job for the signals that follow: SIGTERM, and SIGKILL from a MoM that
// runs no further hook. It gives the job the cpu time to handle them, and thaws it if it is
// suspended. The event is never rejected: a job that cannot be thawed is killed as it is.
func (h *hook) ExecjobPreterm(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	j, release, err := h.live(ctx, req)
	if err != nil {
		h.log.Warn(err)
	}
	if j == nil {
		return &hostapi.Outcome{}, nil
	}
	defer release()
	err = j.Hasten()
	if req.Job.Phase == hostapi.PhaseSuspended {
		err = errors.Join(err, h.resume(ctx, j))
	}
	if err != nil {
		h.logOf(j.ID()).Warn(err)
	}
	return &hostapi.Outcome{}, nil
}

// resume ends a suspension. If that fails, the job stays frozen.
func (h *hook) resume(ctx context.Context, j *cgroup.Job) error {
	err := j.Thaw(ctx)
	if err == nil || errors.Is(err, cgroup.ErrUnsupported) || errors.Is(err, cgroup.ErrNotFound) {
		h.setPhase(j.ID(), hostapi.PhaseRunning)
		return nil
	}
	freeze, cancel := context.WithTimeout(context.WithoutCancel(ctx), freezeAgain)
	defer cancel()
	return errors.Join(err, j.Suspend(freeze))
}

// freezeAgain limits the wait for a job to freeze again when thawing it failed.
const freezeAgain = 100 * time.Millisecond

// live takes the turn of a job that runs here. j is nil if the job has ended or has no cgroup.
func (h *hook) live(ctx context.Context, req *hostapi.Request) (j *cgroup.Job, release func(), err error) {
	if j, release, err = h.turn(ctx, req); err != nil {
		return nil, nil, err
	}
	s, exists, err := stateOf(req.Job, req.Node, j)
	if err != nil || !exists || s.Ended {
		release()
		return nil, nil, err
	}
	return j, release, nil
}

// frozenUnlike returns whether the kernel has frozen a job, if that contradicts the job's phase. It
// returns nil if the two agree or the kernel does not have a freezer.
func (h *hook) frozenUnlike(j *cgroup.Job, phase hostapi.Phase) (*bool, error) {
	frozen, err := j.Frozen()
	switch {
	case errors.Is(err, cgroup.ErrUnsupported), errors.Is(err, cgroup.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	case frozen == (phase == hostapi.PhaseSuspended):
		return nil, nil
	}
	return &frozen, nil
}

// suspended reports whether a job is suspended. The host's phase alone may be out of date. The
// freezer alone is not reliable either, because it briefly stops a job while signals are sent.
// Without a freezer the phase decides.
func (h *hook) suspended(j *cgroup.Job) bool {
	if h.snapshot(j.ID()).phase != hostapi.PhaseSuspended {
		return false
	}
	frozen, err := j.Frozen()
	return err == nil && frozen || errors.Is(err, cgroup.ErrUnsupported)
}
