package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/proc"
)

// A process outside of a job may trace one of the job's and hold it in its very end, long after
// SIGKILL (PTRACE_O_TRACEEXIT, ptrace(2)). It is killed if the job's owner could kill it himself.
// It may also serve a FUSE file system and not answer (see proc.FUSE), which is aborted if it is the
// owner's. Others stay. The process that they hold has nothing that the next job needs but devices,
// so the node stays in service.

// errHeld says that nothing is left of a job but processes that somebody outside holds in their end.
// It is none of ErrNotEmpty and ErrBusy.
var errHeld = errors.New("a tracer, or a FUSE file system, holds what is left")

const (
	beforeTracers = time.Second           // a kill goes on before tracers are looked for
	afterTracer   = 50 * time.Millisecond // the same, once one was killed
)

// killAll is j.Kill that ends the owner's tracers and FUSE connections as well that hold up the end
// of a process of the job. Notes tell of them. It fails with errHeld without waiting until ctx
// ends.
func (h *hook) killAll(ctx context.Context, j *cgroup.Job) (result cgroup.KillResult, notes []string, err error) {
	start := time.Now()
	half := h.killTimeout() / 2
	if end, ok := ctx.Deadline(); ok {
		half = time.Until(end) / 2
	}
	wait := min(beforeTracers, half)
	result, over, err := killFor(ctx, j, wait)
	killed, fuse, last := map[hostapi.ProcessID]bool{}, proc.NewFUSE(h.roots.Sys), time.Time{}
	for ; err != nil && !over && ctx.Err() == nil; _, over, err = killFor(ctx, j, wait) {
		more, fresh := h.killTracers(j, killed)
		if fuse.Look(); time.Since(start) >= half { // it may be slow without any malice
			more = append(more, h.abortFUSE(j, fuse)...)
		}
		notes = append(notes, more...)
		switch {
		case fresh || len(more) > 0:
			wait, last = afterTracer, time.Now()
		case time.Since(last) > beforeTracers && h.traced(j):
			result.Took = time.Since(start)
			return result, notes, h.heldError(j, err)
		default:
			wait = min(2*wait, beforeTracers)
		}
	}
	result.Took = time.Since(start)
	if errors.Is(err, cgroup.ErrNotEmpty) && h.held(j) {
		err = h.heldError(j, err)
	}
	return result, notes, err
}

// killFor is j.Kill that lasts no longer than limit. Over tells whether it ended for another
// reason.
func killFor(ctx context.Context, j *cgroup.Job, limit time.Duration) (r cgroup.KillResult, over bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	r, err = j.Kill(ctx)
	return r, ctx.Err() == nil, err
}

// mostHeld bounds how many processes notes and errors name.
const mostHeld = 10

// killTracers kills the owner's tracers that hold processes of the job. Before has those that were
// killed already, and fresh tells whether another one was. Notes name the first of them. A tracer
// that is in another job is a note of that job's too.
func (h *hook) killTracers(j *cgroup.Job, before map[hostapi.ProcessID]bool) (notes []string, fresh bool) {
	log := h.logOf(j.ID())
	r, err := j.Record()
	if err != nil {
		return nil, false
	}
	pids, err := j.Processes()
	if err != nil {
		return nil, false
	}
	killed, err := proc.KillTracers(h.roots.Proc, pids, r.Begin.Job.Owner.UID, j.ID(), h.tree.JobOf)
	if err != nil {
		log.Warn(err)
	}
	for _, t := range killed {
		if before[t.ID()] {
			continue
		}
		before[t.ID()], fresh = true, true
		if len(before) > mostHeld {
			continue
		}
		log.Warn(t)
		notes = append(notes, t.String())
		if t.In != "" && t.In != j.ID() {
			h.tell(t.In, &hostapi.JobUpdate{Notes: []string{fmt.Sprintf("%v of job %s", t, j.ID())}})
		}
	}
	return notes, fresh
}

// abortFUSE aborts the owner's connections that have not answered since the kill began, where they
// may be what a process of the job waits for.
func (h *hook) abortFUSE(j *cgroup.Job, fuse *proc.FUSE) (notes []string) {
	r, err := j.Record()
	if err != nil {
		return nil
	}
	pids, err := j.Processes()
	if err != nil || !proc.Uninterruptible(h.roots.Proc, pids) {
		return nil
	}
	uid := r.Begin.Job.Owner.UID
	aborted, err := fuse.Abort(uid)
	if err != nil {
		h.logOf(j.ID()).Warn(err)
	}
	if len(aborted) == 0 {
		return nil
	}
	text := proc.AbortedText(aborted, uid)
	h.logOf(j.ID()).Warn(text)
	return []string{text}
}

// traced is held where no process waits for a FUSE file system, whose connection may yet be aborted.
func (h *hook) traced(j *cgroup.Job) bool {
	pids, err := j.Processes()
	return err == nil && !proc.Uninterruptible(h.roots.Proc, pids) && proc.AllHeld(h.roots.Proc, pids)
}

// held tells whether nothing is left of a job that was killed but processes that a tracer or a FUSE
// file system holds.
func (h *hook) held(j *cgroup.Job) bool {
	pids, err := j.Processes()
	return err == nil && proc.AllHeld(h.roots.Proc, pids)
}

// heldError is errHeld in place of a kill's error. It takes the memory from what is left: PBS gives
// that to the next job.
func (h *hook) heldError(j *cgroup.Job, err error) error {
	pids, listErr := j.Processes()
	if listErr != nil {
		return err
	}
	for _, pid := range pids {
		if err := proc.ReleaseMemory(pid); err != nil && !errors.Is(err, proc.ErrGone) {
			h.logOf(j.ID()).Debug(err)
		}
	}
	return fmt.Errorf("%w: %s: %v", errHeld, h.heldText(pids), err)
}

// heldText names processes and the threads that trace them; a process without one waits for FUSE.
func (h *hook) heldText(pids []int) string {
	var names []string
	for _, pid := range pids[:min(len(pids), mostHeld)] {
		held := false
		for _, thread := range proc.Holders(h.roots.Proc, pid) {
			name := fmt.Sprintf("process %d by %d", pid, thread)
			if p, err := proc.Read(h.roots.Proc, thread); err == nil {
				name += fmt.Sprintf(" (%q) of uid %d", p.Comm, p.UID)
			}
			names, held = append(names, name), true
			break
		}
		if !held {
			names = append(names, fmt.Sprintf("process %d by FUSE", pid))
		}
	}
	if more := len(pids) - mostHeld; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}
