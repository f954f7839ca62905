package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
)

// ExecjobEpilogue reads what the job used, kills what it left behind and removes its cgroup.
func (h *hook) ExecjobEpilogue(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	return h.finish(ctx, req)
}

// ExecjobEnd does what epilogue did not get to; normally nothing is left.
func (h *hook) ExecjobEnd(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	return h.finish(ctx, req)
}

// ExecjobAbort undoes begin.
func (h *hook) ExecjobAbort(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	return h.finish(ctx, req)
}

// finish ends a job's cgroup: kill, measure, remove, in this order, so that the report includes what stragglers used
// until they died. It goes on to the end whatever fails.
func (h *hook) finish(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	j, err := h.job(req)
	if err != nil {
		return nil, err
	}
	h.forget(j.ID())
	if !j.Exists() {
		return &hostapi.Outcome{}, nil
	}
	s, stateErr := stateOf(req.Job)
	report, killErr := h.kill(ctx, j)
	u, usageErr := h.measure(j, s)
	out := &hostapi.Outcome{}
	if u != nil {
		u.Kill = report
		out.Usage, out.ResourcesUsed = u, resourcesUsed(u, s)
		if u.OOMKills != nil && *u.OOMKills > 0 {
			h.tellOOM(out, j, s, *u.OOMKills)
		}
	}
	removeErr := h.removeDirs(ctx, j)
	err = errors.Join(stateErr, killErr, usageErr, removeErr)
	if err != nil {
		err = hostapi.Errorf(hostapi.KindNode, "end cgroup of job %s: %w", j.ID(), err)
	}
	return out, err
}

// kill ends every process of the job: SIGTERM and a grace where that is configured, then SIGKILL until the cgroup is
// empty or kill_timeout is over.
func (h *hook) kill(ctx context.Context, j *cgroup.Job) (*hostapi.KillReport, error) {
	start := time.Now()
	r := &hostapi.KillReport{Signal: "none"}
	var errs []error
	if h.policy.Cgroup.KillGrace > 0 {
		pids, err := j.Processes()
		if r.Stragglers = len(pids); r.Stragglers > 0 {
			r.Signal = "SIGTERM"
			err = errors.Join(err, h.terminate(ctx, j))
		}
		errs = append(errs, err)
	}
	// Kill even what looks empty: a fork may have been under way while the list was read.
	ctx, cancel := context.WithTimeout(ctx, h.killTimeout())
	defer cancel()
	result, err := j.Kill(ctx)
	if result.Processes > 0 {
		r.Signal = "SIGKILL"
	}
	r.Stragglers = max(r.Stragglers, result.Processes)
	if r.Signal != "none" {
		r.Seconds = time.Since(start).Seconds()
	}
	return r, errors.Join(append(errs, err)...)
}

// terminate sends SIGTERM and waits for the processes to go, no longer than the grace.
func (h *hook) terminate(ctx context.Context, j *cgroup.Job) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(h.policy.Cgroup.KillGrace))
	defer cancel()
	if err := j.Signal(unix.SIGTERM); err != nil {
		return err
	}
	if err := j.Wait(ctx); !errors.Is(err, cgroup.ErrNotEmpty) {
		return err
	}
	return nil // what is left has had its time
}

// remove kills and removes a cgroup that nobody wants a report of.
func (h *hook) remove(ctx context.Context, j *cgroup.Job) error {
	h.forget(j.ID())
	if !j.Exists() {
		return nil
	}
	_, err := h.kill(ctx, j)
	return errors.Join(err, h.removeDirs(ctx, j))
}

func (h *hook) removeDirs(ctx context.Context, j *cgroup.Job) error {
	// Removal has its own short limit, so that it is tried even when killing used up the alarm.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := j.Remove(ctx); err != nil {
		return fmt.Errorf("remove: %w", err)
	}
	return nil
}
