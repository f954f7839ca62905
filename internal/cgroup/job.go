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
//	            └── ...    made by the job             └── ...       made by the job
//
// If Options.Controllers names them, a job also has directories in blkio, net_cls, net_prio,
// perf_event and rdma. net_cls and net_prio exist only on v1, and may be mounted beside a v2 tree
// that has all other controllers.
//
// A hybrid job uses both. Limits are set where the controllers are. Kill and freeze use the v2
// tree, which has the same processes. A job that gets no cpus (ncpus=0) has no directory in cpuset:
// its tasks are in pbs_jobs.service/jobid there.

// Job is the cgroup of one job, with its directories in all hierarchies. A Job has no state except
// its name, so any number of values, in any number of processes, may refer to the same job. A Job
// is safe for concurrent use.
type Job struct {
	tree *Tree
	id   string
	dirs []directory // one for each hierarchy of tree, in the same order

	split bool // the job has subgroups; see WithSubgroups
	apart bool // see ApartFromOwner
}

// directory is a job's directory in one hierarchy. The directory may not exist.
type directory struct {
	*kernfs.FS
	h *hierarchy
}

// optional reports whether the job may lack the directory in hierarchy i. That is true of a
// hierarchy with only cpuset, for a job without cpus. The first hierarchy is never optional, since
// it has the job's marks.
func (j *Job) optional(i int) bool {
	c := j.dirs[i].h.controllers()
	return i > 0 && len(c) == 1 && c[0] == "cpuset" && !j.dirs[i].h.v2
}

// with returns the job's directory in the hierarchy that has the controller.
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

// home returns the directory with the job's marks.
func (j *Job) home() directory { return j.dirs[0] }

// ID returns the job's id.
func (j *Job) ID() string { return j.id }

// MemoryPath returns the job's cgroup in the kernel's notation, as used in /proc/PID/cgroup and in
// the log when memory runs out. It is "" without a memory controller.
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

// Create creates the job's directory in every hierarchy, sets its limits and reads each of them
// back. It also creates parents that Prepare has not created. The cgroup's mark names no job until
// SetJobMark is called. Create fails with ErrExists if any of the directories exists. If a limit
// does not take effect, the error is ErrNotInForce. If one is impossible on this node, it is
// ErrUnsupported. If Create fails, it removes what it created and nothing else.
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
		if i == 0 { // if the hook dies from now on, the cgroup is known to be hookhost's
			if err := j.SetJobMark(JobMark{}); err != nil {
				return err
			}
		}
		if err := d.countSockets(""); err != nil {
			return err
		}
	}
	if _, err := j.apply(j.plan(nil, l), nil); err != nil {
		return err
	}
	if l.MemSoft != nil {
		if err := j.tree.protect(); err != nil {
			return err
		}
	}
	return nil
}

// make creates d. It also recreates the parents if somebody has removed an empty tree.
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

// SetMark stores value with the job until the cgroup is removed, as the extended attribute name
// (trusted.*) of its cgroup. It replaces an earlier value.
func (j *Job) SetMark(name string, value []byte) error {
	return j.found(j.home().SetXattr(".", name, value))
}

// Mark returns what SetMark stored. If nothing is stored under that name, the error is
// unix.ENODATA.
func (j *Job) Mark(name string) ([]byte, error) {
	b, err := j.home().Xattr(".", name)
	return b, j.found(err)
}

// found translates the kernel's errors about a missing cgroup to ErrNotFound.
func (j *Job) found(err error) error {
	if gone(err) {
		return fmt.Errorf("job %s: %w", j.id, ErrNotFound)
	}
	return err
}

// gone reports whether err means that a cgroup does not exist. ENODEV comes from open files of a
// removed cgroup.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) }

// attachedMark is the extended attribute of a job's cgroup with the number from SetAttached.
const attachedMark = "trusted.hookhost.attached"

// SetAttached stores how many processes were added to the job that MoM did not start. The number
// has a separate mark because it changes with each of them.
func (j *Job) SetAttached(n int) error {
	return j.SetMark(attachedMark, strconv.AppendInt(nil, int64(n), 10))
}

// Attached returns what SetAttached stored, or 0. It fails with ErrNotFound if the job has no
// cgroup.
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
