package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// A job may have subgroups, so that what its parts use is known apart: its tasks. They are in the hierarchies that count, and have no
// limits: those are the job's.
//
//	v1, memory and cpuacct                    v2
//
//	12.server        limits, tasks            12.server      limits; subtree_control: +memory +cpu +pids
//	└── rank.3                                ├── main       processes
//	                                          └── rank.3
//
// A v2 cgroup that passes controllers on to its children holds no processes itself (cgroup-v2.rst, "No Internal Process Constraint"),
// so there the job's processes are in main. Beside v1 controllers the v2 tree has none of these and stays as it is, and so does a v1
// hierarchy that cpuset is mounted in too: a task's cpuset would be in the way when the job gets other cpus.

// mainGroup is where the processes of a split v2 job are that are in no task.
const mainGroup = "main"

// taskControllers are passed on to the tasks of a v2 job, as far as the job has them.
var taskControllers = []string{"memory", "cpu", "pids"}

// taskMark is the extended attribute of a task's directory by which it is known for one.
const taskMark = "trusted.hookhost.task"

// hasTasks tells whether jobs may have tasks in h.
func (t *Tree) hasTasks(h *hierarchy) bool {
	if h.v2 {
		return t.mode == ModeV2 || h.has("memory")
	}
	return !h.has("cpuset") && (h.has("memory") || h.has("cpuacct"))
}

// taskDirs returns the job's directories that tasks are in, the one with their marks first.
func (j *Job) taskDirs() []directory {
	return slices.DeleteFunc(slices.Clone(j.dirs), func(d directory) bool { return !j.tree.hasTasks(d.h) })
}

// Split makes a job that has just been created one that can have tasks. On v1 nothing has to be made for that. From then on its
// processes are to be started and attached by what PerTask returns. It is idempotent; when it fails it leaves the job as it was.
func (j *Job) Split() error {
	d, ok := j.v2()
	if !ok || !j.tree.hasTasks(d.h) {
		return nil
	}
	var want []string
	for _, c := range taskControllers {
		if d.h.has(c) {
			want = append(want, c)
		}
	}
	err := d.Mkdir(mainGroup)
	if err == nil || errors.Is(err, fs.ErrExist) {
		err = enable(d.FS, want)
	}
	if err == nil {
		return nil
	}
	err = fmt.Errorf("split cgroup of job %s: %w", j.id, j.found(err))
	for _, c := range want { // one that is not on is no mistake
		if undo := d.Write("cgroup.subtree_control", "-"+c); undo != nil && !gone(undo) {
			err = errors.Join(err, undo)
		}
	}
	if undo := d.Rmdir(mainGroup); undo != nil && !gone(undo) {
		err = errors.Join(err, undo)
	}
	return err
}

// PerTask returns the same job as one that was split: its processes enter where those belong that are in no task, and Attach leaves
// in its task what is in one. Nothing is looked up for it: the caller knows how the job was begun.
func (j *Job) PerTask() *Job {
	split := *j
	split.perTask = true
	return &split
}

// Task is a subgroup of a job's cgroup.
type Task struct {
	Name string // of its directory
	Mark []byte // what its maker kept with it
}

// Tasks returns the job's tasks. Directories without a mark, such as main and what containers make, are none. A job without a cgroup
// has none.
func (j *Job) Tasks() ([]Task, error) {
	dirs := j.taskDirs()
	if len(dirs) == 0 {
		return nil, nil
	}
	names, err := dirs[0].children()
	if gone(err) {
		return nil, nil
	}
	var list []Task
	for _, name := range names {
		mark, err := dirs[0].Xattr(name, taskMark)
		switch {
		case err == nil:
			list = append(list, Task{name, mark})
		case gone(err), errors.Is(err, unix.ENODATA):
		default:
			return list, fmt.Errorf("tasks of job %s: %w", j.id, err)
		}
	}
	if err != nil {
		return list, fmt.Errorf("tasks of job %s: %w", j.id, err)
	}
	return list, nil
}

// MakeTask makes a task with a mark, or gives one that is there another mark. It fails with ErrUnsupported where no hierarchy
// can have tasks and with ErrNotFound when the job has no cgroup. When it fails it leaves nothing that it made.
func (j *Job) MakeTask(name string, mark []byte) error {
	dirs := j.taskDirs()
	if len(dirs) == 0 {
		return fmt.Errorf("task %s of job %s: neither memory nor cpu time is counted by cgroup: %w", name, j.id, ErrUnsupported)
	}
	if name == "" || name == "." || name == ".." || name == mainGroup || strings.ContainsAny(name, "/\n\x00") {
		return fmt.Errorf("task %q of job %s: not a plain name", name, j.id)
	}
	var made []directory
	err := func() error {
		for _, d := range dirs {
			err := d.Mkdir(name)
			if err == nil {
				made = append(made, d)
				err = d.countSockets(name + "/")
			}
			if err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
		}
		return dirs[0].SetXattr(name, taskMark, mark)
	}()
	if err == nil {
		return nil
	}
	err = fmt.Errorf("make task %s of job %s: %w", name, j.id, j.found(err))
	for _, d := range made {
		if undo := d.Rmdir(name); undo != nil && !gone(undo) {
			err = errors.Join(err, undo)
		}
	}
	return err
}

// Untasked returns the processes of the job that are in no task, in one hierarchy at least, nor in anything else below the job's
// cgroup, in order. Zombies and visitors are not among them, as in Processes. A job without a cgroup, or one that was not split, has none.
func (j *Job) Untasked() ([]int, error) {
	found := map[int]bool{}
	for _, d := range j.taskDirs() {
		if d.h.v2 {
			main, err := d.Sub(mainGroup)
			if err != nil {
				return nil, err
			}
			d = directory{FS: main, h: d.h}
		}
		if err := j.members(d, found); err != nil && !gone(err) {
			return nil, fmt.Errorf("processes of job %s: %w", j.id, err)
		}
	}
	var list []int
	for pid, belongs := range found {
		if belongs {
			list = append(list, pid)
		}
	}
	slices.Sort(list)
	return list, nil
}

// TaskOf returns the name of the task, or of what else is below the job's cgroup, that the process pid is in; ok is false for one that
// is in none, in another job or gone. It is one read of /proc/PID/cgroup.
func (j *Job) TaskOf(pid int) (name string, ok bool, err error) {
	dirs := j.taskDirs()
	at, err := j.tree.cgroupsOf(pid)
	if len(dirs) == 0 || gone(err) || errors.Is(err, unix.ESRCH) {
		return "", false, nil
	}
	name, ok = j.below(dirs[0].h, at)
	return name, ok, err
}

// below returns the directory of the job's own in h that something is in, by what cgroupsOf says of it.
func (j *Job) below(h *hierarchy, at map[*hierarchy]string) (name string, ok bool) {
	rest, found := strings.CutPrefix(at[h]+"/", h.jobsPath()+"/"+j.id+"/")
	name, _, ok = strings.Cut(rest, "/")
	if !found || !ok || name == mainGroup {
		return "", false
	}
	return name, true
}

// TaskEmpty tells whether a task has no processes. One that is not there has none.
func (j *Job) TaskEmpty(name string) (bool, error) {
	for _, d := range j.taskDirs() {
		pids, err := d.pids(name + "/cgroup.procs")
		if err != nil && !gone(err) {
			return false, fmt.Errorf("task %s of job %s: %w", name, j.id, err)
		}
		if len(pids) > 0 {
			return false, nil
		}
	}
	return true, nil
}

// RemoveTask removes a task that has no processes; else it fails with ErrBusy. On v1 the kills for lack of memory that were counted
// in it count in Usage no more. It is idempotent.
func (j *Job) RemoveTask(name string) error {
	for _, d := range slices.Backward(j.taskDirs()) { // the mark is the last to go
		err := d.Rmdir(name)
		if err == nil || gone(err) {
			continue
		}
		if errors.Is(err, unix.EBUSY) {
			err = fmt.Errorf("%w: %w", ErrBusy, err)
		}
		return fmt.Errorf("remove task %s of job %s: %w", name, j.id, err)
	}
	return nil
}
