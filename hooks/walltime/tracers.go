package main

import (
	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/proc"
)

// triesBeforeFUSE is how often a job gets SIGKILL before its owner's FUSE file systems are given
// up: seven seconds, by the pauses of policy.kill.
const triesBeforeFUSE = 4

// endHolders ends what holds processes of the job, which has got SIGKILL so often. A tracer in
// another job is a note of that job's too.
func (h *hook) endHolders(j *cgroup.Job, job *hostapi.Job, tries int) (notes []string) {
	pids, err := j.Processes()
	if err != nil {
		return nil
	}
	kept, _ := h.holders.LoadOrStore(j.ID(), &proc.HolderKiller{Procfs: h.roots.Proc, Sysfs: h.roots.Sys,
		UID: job.Owner.UID, Job: j.ID(), JobOf: h.tree.JobOf})
	ended, _, err := kept.(*proc.HolderKiller).End(pids, tries >= triesBeforeFUSE)
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
	return notes
}
