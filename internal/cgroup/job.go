package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// The cgroup of the job 12.server with the prefix pbs_jobs is:
//
//	v1, once for each mounted hierarchy    v2
//
//	/sys/fs/cgroup/memory                  /sys/fs/cgroup    (hybrid: /sys/fs/cgroup/unified)
//	└── pbs_jobs.service                   └── pbs_jobs.service  controllers are passed down
//	    └── jobid      cpuset filled           └── jobs          controllers are passed down
//	        └── 12.server  limits, tasks           └── 12.server     limits, processes
//	            └── ...    of the job's making         └── ...       of the job's making
//
// If the configuration asks for them, a job also has directories in blkio, net_cls, net_prio,
// perf_event and rdma. net_cls and net_prio are of v1 alone, and may be mounted beside a v2 tree
// that has all other controllers.
//
// A hybrid job has all of both: limits where the controllers are, kill and freeze in the v2 tree,
// which holds the same processes. A job without cpus of its own has no directory in cpuset, and its
// tasks are in pbs_jobs.service/jobid there.

// Job is the cgroup of one job: its directories in all hierarchies. A Job holds no state but its
// name. So any number of values, in any number of processes, may stand for one job. A Job is safe
// for concurrent use.
type Job struct {
	tree *Tree
	id   string
	dirs []directory // one for each hierarchy of tree, in its order

	split bool // see WithSubgroups
}

// directory is a job's directory in one hierarchy. The directory may not exist.
type directory struct {
	*kernfs.FS
	h *hierarchy
}

// optional reports whether the job may be without d: a hierarchy of cpuset alone, for a job without
// cpus of its own. The first hierarchy never is, since the job's marks are there.
func (j *Job) optional(i int) bool {
	c := j.dirs[i].h.controllers()
	return i > 0 && len(c) == 1 && c[0] == "cpuset" && !j.dirs[i].h.v2
}

// with returns the job's directory in the hierarchy of a controller.
func (j *Job) with(controller string) (directory, bool) {
	for _, d := range j.dirs {
		if d.h.has(controller) {
			return d, true
		}
	}
	return directory{}, false
}

// v2 returns the job's directory in the v2 tree.
func (j *Job) v2() (directory, bool) {
	i := slices.IndexFunc(j.dirs, func(d directory) bool { return d.h.v2 })
	if i < 0 {
		return directory{}, false
	}
	return j.dirs[i], true
}

// home is the directory that carries the job's marks.
func (j *Job) home() directory { return j.dirs[0] }

// ID returns the job's id.
func (j *Job) ID() string { return j.id }

// MemoryPath returns the job's cgroup as the kernel names it in /proc/PID/cgroup and in its log
// when memory runs out; "" without a memory controller.
func (j *Job) MemoryPath() string {
	d, ok := j.with("memory")
	if !ok {
		return ""
	}
	return path.Join(d.h.root, d.h.unit, d.h.leaf, j.id)
}

// Exists reports whether the job has a directory in any hierarchy.
func (j *Job) Exists() bool {
	return slices.ContainsFunc(j.dirs, func(d directory) bool { return d.Exists(".") })
}

// Create makes the job's directory in every hierarchy and sets its limits, each of which is read
// back. Parents that Prepare has not made are made on the way. Create fails with ErrExists when any
// of the directories is there, and with ErrNotInForce when a limit does not hold. ErrUnsupported is
// for a limit that cannot be had here. A Create that fails leaves nothing it made and touches
// nothing it did not make.
func (j *Job) Create(l Limits) (err error) {
	l, err = j.check(l)
	if err != nil {
		return fmt.Errorf("create cgroup of job %s: %w", j.id, err)
	}
	var made []directory
	defer func() {
		if err == nil {
			return
		}
		err = fmt.Errorf("create cgroup of job %s: %w", j.id, err)
		for _, d := range slices.Backward(made) {
			if undo := d.Rmdir("."); undo != nil {
				err = errors.Join(err, undo)
			}
		}
	}()
	for i, d := range j.dirs {
		if d.h.leaving {
			continue
		}
		if l.CPUs.IsEmpty() && j.optional(i) {
			if d.Exists(".") {
				return fmt.Errorf("%s: %w", d.Path("."), ErrExists)
			}
			continue
		}
		if err := d.make(); err != nil {
			return err
		}
		made = append(made, d)
		if err := d.countSockets(""); err != nil {
			return err
		}
	}
	if _, err := j.apply(j.plan(nil, l)); err != nil {
		return err
	}
	if l.MemSoft != nil {
		if err := j.tree.protect(); err != nil {
			return err
		}
	}
	if d, ok := j.with("memory"); ok {
		if err := d.storePeak(noPeak()); err != nil && !errors.Is(err, ErrUnsupported) {
			return err
		}
	}
	return nil
}

// make makes d, and its parents when they have gone, as when somebody tidied up an empty tree.
func (d directory) make() error {
	err := d.Mkdir(".")
	if errors.Is(err, fs.ErrNotExist) {
		if err := d.h.prepare(); err != nil {
			return err
		}
		err = d.Mkdir(".")
	}
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s: %w", d.Path("."), ErrExists)
	}
	return err
}

// SetMark keeps value with the job, as the extended attribute name (trusted.*) of its cgroup, until
// the cgroup is removed. An earlier value is replaced.
func (j *Job) SetMark(name string, value []byte) error {
	return j.found(j.home().SetXattr(".", name, value))
}

// Mark returns what SetMark kept; an error that is unix.ENODATA when there is nothing under that
// name.
func (j *Job) Mark(name string) ([]byte, error) {
	b, err := j.home().Xattr(".", name)
	return b, j.found(err)
}

// found turns the kernel's ways to say that a cgroup is not there into ErrNotFound.
func (j *Job) found(err error) error {
	if gone(err) {
		return fmt.Errorf("job %s: %w", j.id, ErrNotFound)
	}
	return err
}

// gone reports whether err says that a cgroup is not there: ENODEV is what an open file of a
// removed one answers.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) }

// attachedMark is the extended attribute of a job's cgroup that holds SetAttached's number.
const attachedMark = "trusted.hookhost.attached"

// SetAttached keeps with the job's cgroup how many processes were taken in that MoM did not start.
// The number has a mark of its own since it changes with each of them.
func (j *Job) SetAttached(n int) error {
	return j.SetMark(attachedMark, strconv.AppendInt(nil, int64(n), 10))
}

// Attached returns what SetAttached kept, 0 if nothing is kept. Attached fails with ErrNotFound
// when the job has no cgroup.
func (j *Job) Attached() (int, error) {
	b, err := j.Mark(attachedMark)
	if errors.Is(err, unix.ENODATA) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(string(b))
	if err != nil {
		return 0, fmt.Errorf("attached to job %s: %w", j.id, err)
	}
	return n, nil
}
