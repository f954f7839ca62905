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

// ExecjobEpilogue kills the job's remaining processes and reports what the job used. The cgroup and
// its counters stay until the host has stored the report and sends end. So an interrupted epilogue
// can be repeated. Other jobs can get the job's cpus, memory and devices right away (see
// assignBeside).
func (h *hook) ExecjobEpilogue(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	j, s, release, err := h.last(ctx, req)
	if err != nil || j == nil {
		return &hostapi.Outcome{}, err
	}
	defer release()
	if s.Ended { // the host has the report; MoM may not have got the usage
		out, _, err := h.atEnd(j, &s, req.Job)
		return out, ended(j, err)
	}
	out, err := h.finish(ctx, j, s, req.Job)
	h.stuck(req, out, err)
	return out, ended(j, err)
}

// ExecjobEnd removes the cgroup. Before that it completes what epilogue did not finish.
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
	err = errors.Join(err, h.removeEmpty(ctx, j)) // on failure the host sends end again
	h.stuck(req, out, err)
	return out, ended(j, err)
}

// ExecjobAbort undoes begin.
func (h *hook) ExecjobAbort(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	return h.ExecjobEnd(ctx, req)
}

// last takes the turn of a job that is ending. j is nil if the job has no cgroup here.
func (h *hook) last(ctx context.Context, req *hostapi.Request) (j *cgroup.Job, s state, release func(), err error) {
	if j, release, err = h.turn(ctx, req); err != nil {
		return nil, state{}, nil, err
	}
	s, exists, err := stateOf(req.Job, req.Node, j)
	if !exists {
		h.unwatch(j.ID())
		h.forget(j.ID())
		release()
		return nil, state{}, nil, nil
	}
	if err != nil {
		h.logOf(j.ID()).Error(err) // the remaining steps work without it
	}
	h.setPhase(j.ID(), hostapi.PhaseExiting)
	return j, s, release, nil
}

// ended sets the kind of an error in a job's last events. If part of a job remains, the
// administrator has to clean it up.
func ended(j *cgroup.Job, err error) error {
	if err == nil {
		return nil
	}
	return hostapi.Errorf(hostapi.KindNode, "end job %s: %w", j.ID(), err)
}

// finish kills first and measures afterwards, so that the count includes what stragglers used until
// they died. Each step runs even if an earlier one failed, and the outcome has whatever could be
// measured.
func (h *hook) finish(ctx context.Context, j *cgroup.Job, s state, job *hostapi.Job) (*hostapi.Outcome, error) {
	if mem := j.Mem(); mem != nil { // it is released together with the processes
		h.recordMem(j.ID(), *mem)
	}
	report, notes, killErr := h.kill(ctx, j)
	h.unwatch(j.ID())
	out, counters, usageErr := h.atEnd(j, &s, job)
	if u := out.Usage; u != nil {
		c := h.chartOf(j)
		c.end(counters)
		u.Kill, u.Series = report, c.answer()
	}
	out.Notes = append(notes, out.JobStderr...)
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

// atEnd measures what a job without processes has used, and updates its account in s. Idempotent:
// once the job has ended, the account does not change.
func (h *hook) atEnd(j *cgroup.Job, s *state, job *hostapi.Job) (*hostapi.Outcome, cgroup.Usage, error) {
	out := &hostapi.Outcome{}
	u, counters, err := h.measure(j, *s)
	if u == nil {
		return out, counters, err
	}
	memAtEnd(u, counters, h.snapshot(j.ID()).mem)
	if err := h.bill(s, job, u, true); err != nil { // the job has ended in any case
		h.logOf(j.ID()).Warn(err)
	}
	out.Usage, out.ResourcesUsed = u, h.policy.resourcesUsed(u, job.Elapsed)
	out.Diag, out.JobStderr = h.reportKills(context.Background(), j, *s, u, counters, true)
	return out, counters, err
}

// kill ends every process of the job. It sends SIGTERM first if a grace period is configured. Then
// it sends SIGKILL until the cgroup is empty or kill_timeout runs out. It does no harm if the
// cgroup only looks empty, because the kernel refuses to remove one that is not. The notes name
// processes outside the job that had to be killed as well.
func (h *hook) kill(ctx context.Context, j *cgroup.Job) (r *hostapi.KillReport, notes []string, err error) {
	r = &hostapi.KillReport{Signal: "none"}
	pids, err := j.Processes()
	if errors.Is(err, cgroup.ErrNotFound) || err == nil && len(pids) == 0 {
		return r, nil, nil
	}
	start := time.Now()
	r.Signal, r.Stragglers = "SIGKILL", len(pids)
	if h.policy.Cgroup.KillGrace > 0 {
		left, termErr := h.terminate(ctx, j, time.Duration(h.policy.Cgroup.KillGrace))
		if err = errors.Join(err, termErr); !left {
			r.Signal = "SIGTERM"
		}
	}
	ctx, cancel := context.WithTimeout(ctx, h.killTimeout())
	defer cancel()
	result, killErr := h.killAll(ctx, j)
	r.Seconds = time.Since(start).Seconds()
	return r, result.Notes(), errors.Join(err, killErr)
}

// errStarved means that other jobs use the cpus, and the remaining processes are waiting for a cpu
// on which to die. Ending the job takes longer then, and the host sends end again. Since errStarved
// is neither ErrNotEmpty nor ErrBusy, the node does not go offline.
var errStarved = errors.New("the remaining processes are waiting for a cpu")

// killAll calls j.Kill and logs which processes outside the job were killed. It returns errStarved
// if ctx ended while processes were still waiting for a cpu.
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

// terminate sends SIGTERM and waits for the processes to exit. It waits no longer than the grace
// period, and leaves time for kill_timeout before the alarm. left reports whether some have not
// exited.
func (h *hook) terminate(ctx context.Context, j *cgroup.Job, grace time.Duration) (left bool, err error) {
	if alarm, ok := ctx.Deadline(); ok {
		grace = min(grace, time.Until(alarm)-h.killTimeout())
	}
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	// A stopped or frozen process handles SIGTERM only after it continues.
	err = errors.Join(j.Hasten(), j.SignalEach(unix.SIGTERM, unix.SIGCONT))
	if thawErr := j.Thaw(ctx); !errors.Is(thawErr, cgroup.ErrUnsupported) && !errors.Is(thawErr, cgroup.ErrNotFound) {
		err = errors.Join(err, thawErr)
	}
	waitErr := j.Wait(ctx)
	if errors.Is(waitErr, cgroup.ErrNotEmpty) { // the grace period is over for the rest
		return true, err
	}
	return false, errors.Join(err, waitErr)
}

// remove kills the processes in the cgroup and then removes it. It tries both steps even if the
// first fails. If processes are only waiting for a cpu, it leaves the cgroup to a later sweep.
func (h *hook) remove(ctx context.Context, j *cgroup.Job) error {
	h.unwatch(j.ID())
	kill, cancel := context.WithTimeout(ctx, h.killTimeout())
	defer cancel()
	_, err := h.killAll(kill, j)
	if errors.Is(err, errStarved) {
		return err
	}
	return errors.Join(err, h.removeDirs(ctx, j))
}

// removeEmpty removes a cgroup that should be empty. If the kernel refuses because it is not,
// removeEmpty kills first.
func (h *hook) removeEmpty(ctx context.Context, j *cgroup.Job) error {
	err := h.removeDirs(ctx, j)
	if errors.Is(err, cgroup.ErrBusy) {
		return h.remove(ctx, j)
	}
	return err
}

func (h *hook) removeDirs(ctx context.Context, j *cgroup.Job) error {
	h.unwatch(j.ID())
	// Removal has its own short time limit, so that it is attempted even if killing used up the
	// alarm.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := j.Remove(ctx); err != nil {
		return err
	}
	h.forget(j.ID())
	return nil
}
