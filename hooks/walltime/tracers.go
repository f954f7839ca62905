package main

import (
	"fmt"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/proc"
)

// killTracers kills the owner's tracers that hold the end of a process of the job, which has got
// SIGKILL. A tracer in another job is a note of that job's too.
func (h *hook) killTracers(j *cgroup.Job, job *hostapi.Job) (notes []string) {
	log := h.logOf(j.ID())
	pids, err := j.Processes()
	if err != nil {
		return nil
	}
	killed, err := proc.KillTracers(h.roots.Proc, pids, job.Owner.UID, j.ID(), h.tree.JobOf)
	if err != nil {
		log.Warn(err)
	}
	for _, t := range killed[:min(len(killed), mostTold)] {
		log.Warn(t)
		notes = append(notes, t.String())
		if t.In != "" && t.In != j.ID() {
			h.tell(t.In, &hostapi.JobUpdate{Notes: []string{fmt.Sprintf("%v of job %s", t, j.ID())}})
		}
	}
	return notes
}

// triesBeforeFUSE is how often a job gets SIGKILL before its owner's FUSE file systems are given
// up: seven seconds, by the pauses of policy.kill.
const triesBeforeFUSE = 4

// abortFUSE aborts the owner's FUSE connections that have not answered since the job got SIGKILL.
// abortFUSE does so where one of the job's processes may wait for them.
func (h *hook) abortFUSE(j *cgroup.Job, job *hostapi.Job, tries int) (notes []string) {
	pids, err := j.Processes()
	if err != nil || !proc.Uninterruptible(h.roots.Proc, pids) {
		h.fuse.Delete(j.ID())
		return nil
	}
	kept, _ := h.fuse.LoadOrStore(j.ID(), proc.NewFUSE(h.roots.Sys))
	fuse := kept.(*proc.FUSE)
	if fuse.Look(); tries < triesBeforeFUSE {
		return nil
	}
	aborted, err := fuse.Abort(job.Owner.UID)
	if err != nil {
		h.logOf(j.ID()).Warn(err)
	}
	if len(aborted) == 0 {
		return nil
	}
	text := proc.AbortedText(aborted, job.Owner.UID)
	h.logOf(j.ID()).Warn(text)
	return []string{text}
}
