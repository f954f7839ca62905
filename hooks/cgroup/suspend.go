package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
)

// A suspended job is frozen, and its place is given to others when there is no other. MoM has stopped its session with
// a signal; the freezer stops what escaped that and keeps the job's own SIGCONT from undoing it. The job's Record says
// that it is suspended before the kernel is asked to freeze it, and no longer says so before it is thawed: whoever finds
// the two apart makes the kernel follow the record (settle).

// freezeTime bounds the wait for processes to stop: MoM does nothing else meanwhile. One that is in the kernel stops
// whenever it comes back from there.
const freezeTime = 3 * time.Second

// ExecjobPostsuspend freezes the job. Processes that do not stop in time are KindBusy, which MoM only logs; the job is
// suspended all the same.
func (h *hook) ExecjobPostsuspend(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	j, s, release, err := h.live(ctx, req)
	if err != nil || j == nil {
		return &hostapi.Outcome{}, err
	}
	defer release()
	if s.SuspendedAt == 0 {
		s.SuspendedAt = sinceBoot()
	}
	if err := h.amend(j, func(r *cgroup.Record) { r.Suspended, r.State = true, s.encode() }); err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "%w", err)
	}
	out := &hostapi.Outcome{State: s.encode()}
	ctx, cancel := context.WithTimeout(ctx, freezeTime)
	defer cancel()
	err = j.Suspend(ctx)
	switch {
	case errors.Is(err, cgroup.ErrUnsupported):
		out.Notes = []string{"the job was not frozen while it was suspended, as this kernel has no freezer: only its session was stopped"}
		return out, nil
	case errors.Is(err, cgroup.ErrNotFound): // it ends at this moment
		return out, nil
	case err != nil && ctx.Err() != nil:
		return out, hostapi.Errorf(hostapi.KindBusy, "%w", err)
	case err != nil:
		return out, hostapi.Errorf(hostapi.KindNode, "%w", err)
	}
	return out, nil
}

// ExecjobPreresume thaws the job; its processes stay stopped until MoM's SIGCONT. When it fails the job stays suspended.
func (h *hook) ExecjobPreresume(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	j, s, release, err := h.live(ctx, req)
	if err != nil || j == nil {
		return &hostapi.Outcome{}, err
	}
	defer release()
	if err := h.resume(ctx, j, &s); err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "%w", err)
	}
	return &hostapi.Outcome{State: s.encode()}, nil
}

// ExecjobPreterm thaws a suspended job, so that it takes the SIGTERM that comes next, and gives it its place back for its
// last moments. It never refuses: a job that cannot be thawed is killed as it is.
func (h *hook) ExecjobPreterm(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	j, s, release, err := h.live(ctx, req)
	if err != nil || j == nil || s.SuspendedAt == 0 {
		if release != nil {
			release()
		}
		if err != nil {
			h.log.Warn(err)
		}
		return &hostapi.Outcome{}, nil
	}
	defer release()
	if err := h.resume(ctx, j, &s); err != nil {
		h.logOf(j.ID()).Warn(err)
		return &hostapi.Outcome{}, nil
	}
	return &hostapi.Outcome{State: s.encode()}, nil
}

// resume ends a suspension, or leaves the job suspended.
func (h *hook) resume(ctx context.Context, j *cgroup.Job, s *state) error {
	before := *s
	s.resumed()
	if err := h.amend(j, func(r *cgroup.Record) { r.Suspended, r.State = false, s.encode() }); err != nil {
		return err
	}
	err := j.Thaw(ctx)
	if err == nil || errors.Is(err, cgroup.ErrUnsupported) || errors.Is(err, cgroup.ErrNotFound) {
		return nil
	}
	*s = before
	undo := h.amend(j, func(r *cgroup.Record) { r.Suspended, r.State = true, before.encode() })
	freeze, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	return errors.Join(err, undo, j.Suspend(freeze))
}

// live takes the turn of a job that runs here. j is nil when there is nothing of it, or it is over.
func (h *hook) live(ctx context.Context, req *hostapi.Request) (j *cgroup.Job, s state, release func(), err error) {
	if j, err = h.job(req); err != nil {
		return nil, state{}, nil, err
	}
	if release, err = h.turns.take(ctx, j.ID()); err != nil {
		return nil, state{}, nil, err
	}
	s, err = stateOf(req.Job, req.Node, j)
	if err != nil || !j.Exists() || s.Ended {
		release()
		return nil, state{}, nil, err
	}
	s.follow(j)
	return j, s, release, nil
}

// follow takes the job's size from its Record, and its suspension where the state says otherwise: a hook that died over an
// event has told the host nothing.
func (s *state) follow(j *cgroup.Job) {
	var noted state
	r, err := j.Record()
	if err != nil || json.Unmarshal(r.State, &noted) != nil {
		return
	}
	s.NCPUs, s.CPUs, s.Mems, s.MemLimit = noted.NCPUs, noted.CPUs, noted.Mems, noted.MemLimit
	if r.Suspended != (s.SuspendedAt != 0) && r.Suspended == (noted.SuspendedAt != 0) {
		s.SuspendedAt, s.SuspendedMicros = noted.SuspendedAt, noted.SuspendedMicros
	}
}

// settleTime is how long settle waits for a job to stop or to go on.
const settleTime = 100 * time.Millisecond

// settle freezes or thaws a job as its record says: the hook may have died between the one and the other, or the kernel
// may have been asked by somebody else. It ends what a resize does for a moment, in which the hook may have died as well.
// The caller has the job's turn.
func (h *hook) settle(ctx context.Context, j *cgroup.Job) error {
	r, err := j.Record()
	if err != nil || r.Ending { // made by hand; and what kills a job freezes it as well
		return nil
	}
	if err := j.Mend(); err != nil && !errors.Is(err, cgroup.ErrNotFound) {
		return err
	}
	frozen, err := j.Frozen()
	switch {
	case errors.Is(err, cgroup.ErrUnsupported), errors.Is(err, cgroup.ErrNotFound), err == nil && frozen == r.Suspended:
		return nil
	case err != nil:
		return err
	}
	wait, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	if r.Suspended {
		h.logOf(j.ID()).Warn("a suspended job was not frozen: it is now")
		err = j.Suspend(wait)
	} else {
		h.logOf(j.ID()).Warn("a job that is not suspended was frozen: it goes on")
		err = j.Thaw(wait)
	}
	if wait.Err() != nil && ctx.Err() == nil { // what could not stop or go on yet will
		return nil
	}
	return err
}

// suspended is how long the job was suspended in all.
func (s state) suspended() time.Duration {
	d := s.SuspendedMicros
	if s.SuspendedAt != 0 {
		d += sinceBoot() - s.SuspendedAt
	}
	return time.Duration(d) * time.Microsecond
}

func (s *state) resumed() {
	s.SuspendedMicros = s.suspended().Microseconds()
	s.SuspendedAt = 0
}

// suspendedNote tells people about it.
func (s state) suspendedNote() []string {
	if d := s.suspended(); d > 0 {
		return []string{fmt.Sprintf("suspended for %.1f seconds in all, which do not count as walltime", d.Seconds())}
	}
	return nil
}
