package cgroup

import (
	"slices"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// entrance returns the directory that the job's tasks enter in a hierarchy. Usually that is the
// job's directory. If the job has no cpuset directory, it is the parent of all jobs (PBS's rule for
// ncpus=0). The same is true if the job began before jobs used the hierarchy, which may be
// systemd's or one that only places processes. If the job has subgroups in the v2 tree, it is main.
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

// left reports whether the job does not use the hierarchy; see hierarchy.leaving.
func (j *Job) left(i int) bool { return j.dirs[i].h.leaving && !j.dirs[i].Exists(".") }

// mayLack reports whether the job may have no directory in a hierarchy. In that case its tasks are
// in the parent of all jobs.
func (j *Job) mayLack(i int) bool {
	h := j.dirs[i].h
	return j.optional(i) || h.has(systemdHierarchy) ||
		!h.v2 && !slices.ContainsFunc(h.controllers(), func(c string) bool { return !slices.Contains(placing, c) })
}
