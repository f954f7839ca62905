package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// Join tells how to start a process inside a job's cgroup, so that not one instruction of it runs outside.
type Join struct {
	// CgroupDir is the job's v2 directory, to clone into (CLONE_INTO_CGROUP); "" where there is no v2 tree.
	CgroupDir string
	// Tasks are the job's v1 tasks files. A thread that writes 0 to each and then forks has its child in all of them.
	Tasks []string
}

// Join returns how to start a process inside the cgroup. It does not look whether the cgroup exists; starting fails if it
// does not.
func (j *Job) Join() Join {
	var join Join
	for i := range j.dirs {
		if j.left(i) {
			continue
		}
		if j.dirs[i].h.v2 {
			join.CgroupDir = j.entrance(i).Path(".")
		} else {
			join.Tasks = append(join.Tasks, j.entrance(i).Path("tasks"))
		}
	}
	return join
}

// entrance is the directory that the job's tasks go to in a hierarchy: the job's own, or the parent
// of all jobs for a cpuset that the job does not have (PBS's rule for ncpus=0). A job may also have
// begun before jobs were in a hierarchy: systemd's, or one that only places processes. In the v2
// tree it is main for a job that was split.
func (j *Job) entrance(i int) *kernfs.FS {
	d := j.dirs[i]
	if j.perTask && d.h.v2 && j.tree.hasTasks(d.h) {
		if main, err := d.Sub(mainGroup); err == nil {
			return main
		}
	}
	if !j.mayLack(i) || d.Exists(".") {
		return d.FS
	}
	return d.h.jobs
}

// left tells whether the hierarchy is none of the job's: see hierarchy.leaving.
func (j *Job) left(i int) bool { return j.dirs[i].h.leaving && !j.dirs[i].Exists(".") }

// mayLack tells whether the job may be without its directory in a hierarchy: its tasks are in the parent of all jobs then.
func (j *Job) mayLack(i int) bool {
	h := j.dirs[i].h
	return j.optional(i) || h.has(systemdHierarchy) ||
		!h.v2 && !slices.ContainsFunc(h.controllers(), func(c string) bool { return !slices.Contains(placing, c) })
}

// Attach moves processes into the cgroup, all threads of each. The moves are made back to back, since only the first after
// a quiet while waits for a grace period of the kernel. A process that has ended is passed over. Attach goes on
// after an error and returns all of them; it is idempotent. Children that a process forks meanwhile may stay outside. Of a job that was
// split, what is in a task stays there.
func (j *Job) Attach(pids []int) error {
	doors := make([]door, len(j.dirs))
	defer func() {
		for i := range doors {
			doors[i].close()
		}
	}()
	for i, d := range j.dirs {
		if j.left(i) {
			continue
		}
		if j.mayLack(i) { // the first move tells whether it does
			doors[i] = doorOf(d.FS, d.h.jobs)
		} else {
			doors[i] = doorOf(j.entrance(i), nil)
		}
	}
	var errs []error
	for _, pid := range pids {
		if pid <= 0 { // 0 would be this process
			errs = append(errs, fmt.Errorf("attach process %d to job %s: not a process id", pid, j.id))
			continue
		}
		stays, number := j.stays(pid), strconv.Itoa(pid)
		for i := range doors {
			if stays[j.dirs[i].h] || doors[i].dir == nil {
				continue
			}
			err := doors[i].enter(number)
			if errors.Is(err, unix.ESRCH) {
				break
			}
			if gone(err) {
				return fmt.Errorf("attach process %d to job %s: %s: %w", pid, j.id, doors[i].dir.Path("."), ErrNotFound)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("attach process %d to job %s: %w", pid, j.id, err))
			}
		}
	}
	return errors.Join(errs...)
}

// door is where processes enter a hierarchy.
type door struct {
	dir   *kernfs.FS
	procs *kernfs.Writer
	other *kernfs.FS // where they go instead when there is no dir
}

func doorOf(dir, other *kernfs.FS) door { return door{dir, dir.Writer("cgroup.procs"), other} }

func (d *door) close() {
	if d.procs != nil {
		d.procs.Close()
	}
}

func (d *door) enter(pid string) error {
	err := d.procs.Write(pid)
	if d.other != nil && errors.Is(err, fs.ErrNotExist) { // nothing was opened
		*d = doorOf(d.other, nil)
		err = d.procs.Write(pid)
	}
	return err
}

// stays tells in which hierarchies the process is in a task of a job that was split.
func (j *Job) stays(pid int) map[*hierarchy]bool {
	if !j.perTask {
		return nil
	}
	at, err := j.tree.cgroupsOf(pid)
	if err != nil { // it is gone, as will be found
		return nil
	}
	in := map[*hierarchy]bool{}
	for _, d := range j.taskDirs() {
		_, in[d.h] = j.below(d.h, at)
	}
	return in
}
