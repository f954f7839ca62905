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
