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
// SIGKILL (PTRACE_O_TRACEEXIT, ptrace(2)). Such a tracer is killed if the job's owner could kill it
// himself. A process may also serve a FUSE file system and not answer (see proc.HolderKiller),
// which is aborted if it is the owner's. Others stay. The process that they hold has nothing that
// the next job needs but devices, so the node stays in service.

// errHeld says that nothing is left of a job but processes that somebody outside holds in their
// end. errHeld is none of ErrNotEmpty and ErrBusy.
var errHeld = errors.New("a tracer, or a FUSE file system, holds what is left")

// errStarved says that what is left of a job waits for a cpu to end on, which other jobs use. The
// end takes longer then, and the host sends it again. errStarved is none of ErrNotEmpty and ErrBusy
// either.
var errStarved = errors.New("what is left waits for a cpu")

// endsLater reports whether the rest of a job ends without harm to the node, some time.
func endsLater(err error) bool { return errors.Is(err, errHeld) || errors.Is(err, errStarved) }

const (
	beforeTracers = time.Second           // a kill goes on before tracers are looked for
	afterTracer   = 50 * time.Millisecond // the same, once one was killed
)

// killAll is j.Kill that ends the owner's tracers and FUSE connections as well that hold up the end
// of a process of the job. Notes tell of them. killAll fails with errHeld without waiting until ctx
// ends, and with errStarved where ctx was too short.
func (h *hook) killAll(ctx context.Context, j *cgroup.Job) (result cgroup.KillResult, notes []string, err error) {
	start := time.Now()
	half := h.killTimeout() / 2
	if end, ok := ctx.Deadline(); ok {
		half = time.Until(end) / 2
	}
	wait := min(beforeTracers, half)
	result, over, err := killFor(ctx, j, wait)
	holders, last := h.holdersOf(j), time.Time{}
	for ; err != nil && !over && ctx.Err() == nil; _, over, err = killFor(ctx, j, wait) {
		slow := time.Since(start) >= half // a FUSE file system may be so without any malice
		more, fresh := h.endHolders(j, holders, slow)
		notes = append(notes, more...)
		switch {
		case fresh:
			wait, last = afterTracer, time.Now()
		case time.Since(last) > beforeTracers && h.traced(j):
			result.Took = time.Since(start)
			return result, notes, h.heldError(j, err)
		default:
			wait = min(2*wait, beforeTracers)
		}
	}
	result.Took = time.Since(start)
	if errors.Is(err, cgroup.ErrNotEmpty) {
		pids, listErr := j.Processes()
		switch {
		case listErr != nil:
		case proc.AllHeld(h.roots.Proc, pids):
			err = h.heldError(j, err)
		case proc.Runnable(h.roots.Proc, pids):
			err = fmt.Errorf("%w: %v", errStarved, err)
		}
	}
	return result, notes, err
}

// killFor is j.Kill that lasts no longer than limit. Over reports whether it ended for another
// reason.
func killFor(ctx context.Context, j *cgroup.Job, limit time.Duration) (r cgroup.KillResult, over bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	r, err = j.Kill(ctx)
	return r, ctx.Err() == nil, err
}

// mostHeld bounds how many processes errors name.
const mostHeld = 10

// holdersOf returns what kills the holders of a job's processes.
func (h *hook) holdersOf(j *cgroup.Job) *proc.HolderKiller {
	k := &proc.HolderKiller{Procfs: h.roots.Proc, Sysfs: h.roots.Sys, Job: j.ID(), JobOf: h.tree.JobOf}
	if r, err := j.JobMark(); err == nil {
		k.UID = r.Begin.Job.Owner.UID
	}
	return k
}

// endHolders ends what holds processes of the job. A tracer that is in another job is a note of
// that job's too. fresh reports whether anything was ended that was not before.
func (h *hook) endHolders(j *cgroup.Job, k *proc.HolderKiller, abort bool) (notes []string, fresh bool) {
	pids, err := j.Processes()
	if err != nil {
		return nil, false
	}
	ended, fresh, err := k.End(pids, abort)
	if err != nil {
		h.logOf(j.ID()).Warn(err)
	}
	for _, e := range ended {
		h.logOf(j.ID()).Warn(e.Text)
		notes = append(notes, e.Text)
		if e.Job != "" {
			h.tell(e.Job, &hostapi.JobUpdate{Notes: []string{e.Text + " of job " + j.ID()}})
		}
	}
	return notes, fresh
}

// traced is held where no process waits for a FUSE file system, whose connection may yet be
// aborted.
func (h *hook) traced(j *cgroup.Job) bool {
	pids, err := j.Processes()
	return err == nil && !proc.Uninterruptible(h.roots.Proc, pids) && proc.AllHeld(h.roots.Proc, pids)
}

// held reports whether nothing is left of a job that was killed but processes that a tracer or a
// FUSE file system holds.
func (h *hook) held(j *cgroup.Job) bool {
	pids, err := j.Processes()
	return err == nil && proc.AllHeld(h.roots.Proc, pids)
}

// heldError is errHeld in place of a kill's error. heldError takes the memory from what is left:
// PBS gives that to the next job.
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
