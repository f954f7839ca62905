package cgroup

import (
	"slices"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// entrance is the directory that the job's tasks go to in a hierarchy. Mostly that is the job's
// own. For a cpuset that the job does not have it is the parent of all jobs (PBS's rule for
// ncpus=0). The parent it is also for a job that began before jobs were in a hierarchy: systemd's,
// or one that only places processes. In the v2 tree it is main for a job that was split.
func (j *Job) entrance(i int) *kernfs.FS {
	d := j.dirs[i]
	if j.split && d.h.v2 && j.tree.hasSubgroups(d.h) {
		if main, err := d.Sub(mainGroup); err == nil {
			return main
		}
	}
	if !j.mayLack(i) || d.Exists(".") {
		return d.FS
	}
	return d.h.jobs
}

// left reports whether the hierarchy is none of the job's: see hierarchy.leaving.
func (j *Job) left(i int) bool { return j.dirs[i].h.leaving && !j.dirs[i].Exists(".") }

// mayLack reports whether the job may be without its directory in a hierarchy: its tasks are in the
// parent of all jobs then.
func (j *Job) mayLack(i int) bool {
	h := j.dirs[i].h
	return j.optional(i) || h.has(systemdHierarchy) ||
		!h.v2 && !slices.ContainsFunc(h.controllers(), func(c string) bool { return !slices.Contains(placing, c) })
}
