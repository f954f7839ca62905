package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/proc"
)

// ExecjobEpilogue kills what the job left behind and tells what it used. The cgroup, with all its
// counters, stays until the host has noted that and sends end: an epilogue that is broken off can
// be repeated. The cpus, the memory and the devices of the job are free all the same (isOver).
func (h *hook) ExecjobEpilogue(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	j, s, release, err := h.last(ctx, req)
	if err != nil || j == nil {
		return &hostapi.Outcome{}, err
	}
	defer release()
	if s.Ended { // and reported
		return &hostapi.Outcome{}, nil
	}
	out, err := h.finish(ctx, j, s, req.Job)
	return out, errors.Join(ended(j, err), h.stuck(req, out, err))
}

// ExecjobEnd removes the cgroup, and does before what epilogue did not get to.
func (h *hook) ExecjobEnd(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	j, s, release, err := h.last(ctx, req)
	if err != nil || j == nil {
		return &hostapi.Outcome{}, err
	}
	defer release()
	out := &hostapi.Outcome{}
	if !s.Ended {
		out, err = h.finish(ctx, j, s, req.Job)
	}
	removed := h.removeEmpty(ctx, j)
	if removed == nil { // else the host sends end again
		h.disown(j.ID())
	}
	err = errors.Join(err, removed)
	return out, errors.Join(ended(j, err), h.stuck(req, out, err))
}

// ExecjobAbort undoes begin.
func (h *hook) ExecjobAbort(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	return h.ExecjobEnd(ctx, req)
}

// last takes the turn of a job that is to end. j is nil if there is nothing of it.
func (h *hook) last(ctx context.Context, req *hostapi.Request) (j *cgroup.Job, s state, release func(), err error) {
	if j, release, err = h.turn(ctx, req); err != nil {
		return nil, state{}, nil, err
	}
	s, exists, err := stateOf(req.Job, req.Node, j)
	if !exists {
		h.unwatch(j.ID())
		h.disown(j.ID())
		h.letGo(j.ID())
		release()
		return nil, state{}, nil, nil
	}
	if err != nil {
		h.logOf(j.ID()).Error(err) // what is left to do needs none
	}
	h.setPhase(j.ID(), hostapi.PhaseExiting)
	return j, s, release, nil
}

// ended gives an error of a job's last events its kind. The remains of the job are the
// administrator's affair.
func ended(j *cgroup.Job, err error) error {
	if err == nil {
		return nil
	}
	return hostapi.Errorf(hostapi.KindNode, "end job %s: %w", j.ID(), err)
}

// finish kills and then measures, so that what stragglers used until they died counts. Each step is
// tried whatever fails, and the outcome has what could be found out.
func (h *hook) finish(ctx context.Context, j *cgroup.Job, s state, job *hostapi.Job) (*hostapi.Outcome, error) {
	report, notes, killErr := h.kill(ctx, j)
	h.chartOf(j).end()
	h.stopWatch(j.ID())
	out := &hostapi.Outcome{Notes: notes}
	u, counters, usageErr := h.measure(j, s)
	if u != nil {
		u.Kill = report
		settleMem(u)
		if err := h.bill(&s, job, u, true); err != nil { // no reason for the job not to have ended
			h.logOf(j.ID()).Warn(err)
		}
		out.Usage, out.ResourcesUsed = u, h.policy.resourcesUsed(u, job.Elapsed)
		if u.OOMKills != nil && *u.OOMKills > 0 {
			h.reportOOM(out, j, s, counters)
		}
		h.reportExcess(out, j)
	}
	if errors.Is(killErr, cgroup.ErrNotEmpty) || errors.Is(killErr, errStarved) {
		out.Notes = append(out.Notes, fmt.Sprintf("processes are left after %.1f seconds: %v", report.Seconds, killErr))
	}
	err := errors.Join(killErr, usageErr)
	if err == nil {
		s.Ended = true
		out.State = s.encode()
	}
	return out, err
}

// kill ends every process of the job: SIGTERM and a grace where that is configured, then SIGKILL
// until the cgroup is empty or kill_timeout is over. A cgroup that looks empty is left at that: the
// kernel does not remove one that is not. Notes tell what was ended outside of the job for that.
func (h *hook) kill(ctx context.Context, j *cgroup.Job) (r *hostapi.KillReport, notes []string, err error) {
	r = &hostapi.KillReport{Signal: "none"}
	pids, err := j.Processes()
	if errors.Is(err, cgroup.ErrNotFound) || err == nil && len(pids) == 0 {
		return r, nil, nil
	}
	start := time.Now()
	if r.Stragglers = len(pids); h.policy.Cgroup.KillGrace > 0 {
		r.Signal = "SIGTERM"
		err = errors.Join(err, h.terminate(ctx, j))
	}
	ctx, cancel := context.WithTimeout(ctx, h.killTimeout())
	defer cancel()
	result, killErr := h.killAll(ctx, j)
	if result.Processes > 0 {
		r.Signal = "SIGKILL"
	}
	r.Stragglers = max(r.Stragglers, result.Processes)
	r.Seconds = time.Since(start).Seconds()
	return r, result.Notes(), errors.Join(err, killErr)
}

// errStarved says that what is left of a job waits for a cpu to end on, which other jobs use. The
// end takes longer then, and the host sends it again. errStarved is none of ErrNotEmpty and
// ErrBusy: it does not take the node offline.
var errStarved = errors.New("what is left waits for a cpu")

// killAll is j.Kill, which logs what it killed outside of the job. killAll fails with errStarved
// where ctx was too short for what is left.
func (h *hook) killAll(ctx context.Context, j *cgroup.Job) (cgroup.KillResult, error) {
	result, err := j.Kill(ctx)
	for _, note := range result.Notes() {
		h.logOf(j.ID()).Warn(note)
	}
	if errors.Is(err, cgroup.ErrNotEmpty) {
		if pids, listErr := j.Processes(); listErr == nil && proc.Runnable(h.roots.Proc, pids) {
			err = fmt.Errorf("%w: %v", errStarved, err)
		}
	}
	return result, err
}

// terminate sends SIGTERM and waits for the processes to go, no longer than the grace and no longer
// than leaves kill_timeout before the alarm.
func (h *hook) terminate(ctx context.Context, j *cgroup.Job) error {
	grace := time.Duration(h.policy.Cgroup.KillGrace)
	if alarm, ok := ctx.Deadline(); ok {
		grace = min(grace, time.Until(alarm)-h.killTimeout())
	}
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	// A process that is stopped, or frozen, takes SIGTERM only when it goes on.
	err := errors.Join(j.Hasten(), j.Signal(unix.SIGTERM), j.Signal(unix.SIGCONT))
	if thawErr := j.Thaw(ctx); !errors.Is(thawErr, cgroup.ErrUnsupported) && !errors.Is(thawErr, cgroup.ErrNotFound) {
		err = errors.Join(err, thawErr)
	}
	if waitErr := j.Wait(ctx); !errors.Is(waitErr, cgroup.ErrNotEmpty) { // what is left has had its time
		err = errors.Join(err, waitErr)
	}
	return err
}

// remove kills what is in the cgroup and removes it. Each step is tried whatever fails. A cgroup of
// processes that end later is left to a sweep.
func (h *hook) remove(ctx context.Context, j *cgroup.Job) error {
	h.stopWatch(j.ID())
	kill, cancel := context.WithTimeout(ctx, h.killTimeout())
	defer cancel()
	_, err := h.killAll(kill, j)
	if errors.Is(err, errStarved) {
		h.unwatch(j.ID())
		return err
	}
	return errors.Join(err, h.removeDirs(ctx, j))
}

// removeEmpty removes a cgroup that should be empty; the kernel refuses to if it is not.
func (h *hook) removeEmpty(ctx context.Context, j *cgroup.Job) error {
	err := h.removeDirs(ctx, j)
	if errors.Is(err, cgroup.ErrBusy) {
		return h.remove(ctx, j)
	}
	return err
}

func (h *hook) removeDirs(ctx context.Context, j *cgroup.Job) error {
	h.unwatch(j.ID())
	// Removal has its own short limit, so that it is tried even when killing used up the alarm.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := j.Remove(ctx); err != nil {
		return err
	}
	h.letGo(j.ID())
	return nil
}
