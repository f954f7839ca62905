package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// Where a job's cgroup is, with the prefix pbs_jobs and the job 12.server:
//
//	v1, once for each mounted hierarchy       v2
//
//	/sys/fs/cgroup/memory                     /sys/fs/cgroup          (hybrid: /sys/fs/cgroup/unified)
//	└── pbs_jobs.service                      └── pbs_jobs.service         subtree_control: +memory +cpuset ...
//	    └── jobid       cpuset filled             └── jobs                 subtree_control: +memory +cpuset ...
//	        └── 12.server   limits, tasks             └── 12.server        limits, processes
//	            └── ...         what the job makes        └── ...              what the job makes
//
// Where the configuration asks for them, a job also has directories in blkio, net_cls, net_prio,
// perf_event and rdma. net_cls and net_prio are of v1 alone, and may be mounted beside a v2 tree
// that has all other controllers.
//
// A hybrid job has all of both: limits where the controllers are, kill and freeze in the v2 tree, which holds the same
// processes. A job without cpus of its own has no directory in cpuset, and its tasks are in pbs_jobs.service/jobid
// there.

// Job is the cgroup of one job: its directories in all hierarchies. It holds no state but its name, so any number of
// values, in any number of processes, may stand for one job. It is safe for concurrent use.
type Job struct {
	tree *Tree
	id   string
	dirs []directory // one for each hierarchy of tree, in its order

	perTask bool // see PerTask
}

// directory is a job's directory in one hierarchy. It may not exist.
type directory struct {
	*kernfs.FS
	h *hierarchy
}

// optional tells whether the job may be without d: a hierarchy of cpuset alone, for a job without cpus of its own. The
// first hierarchy never is, since the job's marks are there.
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

// MemoryPath returns the job's cgroup as the kernel names it in /proc/PID/cgroup and in its log when memory runs out; ""
// without a memory controller.
func (j *Job) MemoryPath() string {
	d, ok := j.with("memory")
	if !ok {
		return ""
	}
	return path.Join(d.h.root, d.h.unit, d.h.leaf, j.id)
}

// Exists tells whether the job has a directory in any hierarchy.
func (j *Job) Exists() bool {
	return slices.ContainsFunc(j.dirs, func(d directory) bool { return d.Exists(".") })
}

// Create makes the job's directory in every hierarchy and sets its limits, each of which is read back. It fails with
// ErrExists when any of the directories is there, with ErrNotInForce when a limit does not hold, with ErrUnsupported when
// a limit cannot be had here. When it fails it leaves nothing it made and touches nothing it did not make. The parents
// are made on the way where Prepare has not.
func (j *Job) Create(l Limits) (err error) {
	l, err = j.check(l)
	if err == nil {
		err = j.freeCPUs(l.CPUs, kernfs.IDSet{})
	}
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
	takeBack, err := j.grantCPUs(l)
	defer func() {
		if err != nil {
			err = errors.Join(err, takeBack())
		}
	}()
	if err != nil {
		return err
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

// SetMark keeps value with the job, as the extended attribute name (trusted.*) of its cgroup, until the cgroup is
// removed. It replaces an earlier value.
func (j *Job) SetMark(name string, value []byte) error {
	return j.found(j.home().SetXattr(".", name, value))
}

// Mark returns what SetMark kept; an error that is unix.ENODATA when there is nothing under that name.
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

// gone tells whether err says that a cgroup is not there: ENODEV is what an open file of a removed one answers.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) }
