package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A job may have subgroups, so that the usage of its parts is known. They are in the hierarchies
// that count usage. They have no limits: only the job itself has.
//
//	v1, memory and cpuacct               v2
//
//	12.server     limits, processes      12.server     limits; subtree_control: +memory +cpu +pids
//	└── rank.3                           ├── main      processes
//	                                     └── rank.3
//
// A v2 cgroup that passes controllers to its children cannot contain processes (cgroup-v2.rst, "No
// Internal Process Constraint"). So the job's other processes are in main there. If these
// controllers are on v1, the v2 tree is not split. A v1 hierarchy that also has cpuset does not get
// subgroups, because their cpusets would be in the way when the job's cpus change.

// mainGroup contains those processes of a split v2 job that are in no other subgroup.
const mainGroup = "main"

// subgroupControllers are passed to the subgroups of a v2 job if the job has them.
var subgroupControllers = []string{"memory", "cpu", "pids"}

// subgroupMark is the extended attribute of a subgroup's directory. Directories that containers
// create below a job do not have it.
const subgroupMark = "trusted.hookhost.subgroup"

// hasSubgroups reports whether jobs may have subgroups in h.
func (t *Tree) hasSubgroups(h *hierarchy) bool {
	if h.v2 {
		return t.mode == ModeV2 || h.has("memory")
	}
	return !h.has("cpuset") && (h.has("memory") || h.has("cpuacct"))
}

// subgroupDirs returns the job's directories that contain subgroups. The first one has their marks.
func (j *Job) subgroupDirs() []directory {
	return slices.DeleteFunc(slices.Clone(j.dirs), func(d directory) bool { return !j.tree.hasSubgroups(d.h) })
}

// Split prepares a newly created job for subgroups. On v1 it does nothing. After that, use the
// result of WithSubgroups to start and attach the job's processes. Split is idempotent, and changes
// nothing if it fails.
func (j *Job) Split() error {
	d, ok := j.v2()
	if !ok || !j.tree.hasSubgroups(d.h) {
		return nil
	}
	var want []string
	for _, c := range subgroupControllers {
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
	for _, c := range want { // a controller that is not on is not an error
		if undo := d.Write("cgroup.subtree_control", "-"+c); undo != nil && !gone(undo) {
			err = errors.Join(err, undo)
		}
	}
	if undo := d.Rmdir(mainGroup); undo != nil && !gone(undo) {
		err = errors.Join(err, undo)
	}
	return err
}

// WithSubgroups returns the same job in the form of one that was split. Its processes enter main,
// and Attach does not move a process out of a subgroup. WithSubgroups reads nothing: the caller
// knows how the job was begun.
func (j *Job) WithSubgroups() *Job {
	split := *j
	split.split = true
	return &split
}

// Subgroup is a cgroup below a job's cgroup that MakeSubgroup created.
type Subgroup struct {
	Name string // the name of its directory
	Mark []byte // the argument of MakeSubgroup
}

// Subgroups returns the job's subgroups, without main and without those that containers created. A
// job without a cgroup has none.
func (j *Job) Subgroups() ([]Subgroup, error) {
	dirs := j.subgroupDirs()
	if len(dirs) == 0 {
		return nil, nil
	}
	names, err := dirs[0].children()
	if gone(err) {
		return nil, nil
	}
	var list []Subgroup
	for _, name := range names {
		mark, err := dirs[0].Xattr(name, subgroupMark)
		switch {
		case err == nil:
			list = append(list, Subgroup{name, mark})
		case gone(err), errors.Is(err, unix.ENODATA):
		default:
			return list, fmt.Errorf("subgroups of job %s: %w", j.id, err)
		}
	}
	if err != nil {
		return list, fmt.Errorf("subgroups of job %s: %w", j.id, err)
	}
	return list, nil
}

// MakeSubgroup creates a subgroup with a mark, or replaces the mark of an existing one. It fails
// with ErrUnsupported if no hierarchy can have subgroups, and with ErrNotFound if the job has no
// cgroup. If it fails, it removes what it created.
func (j *Job) MakeSubgroup(name string, mark []byte) error {
	dirs := j.subgroupDirs()
	if len(dirs) == 0 {
		return fmt.Errorf("subgroup %s of job %s: neither memory nor cpu time is counted by cgroup: %w", name, j.id,
			ErrUnsupported)
	}
	if name == "" || name == "." || name == ".." || !isSubgroup(name) || strings.ContainsAny(name, "/\n\x00") {
		return fmt.Errorf("subgroup %q of job %s: not a plain name", name, j.id)
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
		return dirs[0].SetXattr(name, subgroupMark, mark)
	}()
	if err == nil {
		return nil
	}
	err = fmt.Errorf("make subgroup %s of job %s: %w", name, j.id, j.found(err))
	for _, d := range made {
		if undo := d.Rmdir(name); undo != nil && !gone(undo) {
			err = errors.Join(err, undo)
		}
	}
	return err
}

// Ungrouped returns the processes of the job that are in no subgroup, in at least one hierarchy, in
// order. As in Processes, zombies are not included. For a job that has no cgroup or was not split,
// the list is empty.
func (j *Job) Ungrouped() ([]int, error) {
	var list []int
	for _, d := range j.subgroupDirs() {
		dirs := []string{""}
		if d.h.v2 {
			dirs = []string{mainGroup + "/", outerGroup + "/"}
		}
		for _, dir := range dirs {
			pids, err := j.tree.processes(d, dir)
			if err != nil && !gone(err) {
				return nil, fmt.Errorf("processes of job %s: %w", j.id, err)
			}
			list = append(list, pids...)
		}
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

// SubgroupOf returns the name of the subgroup that contains the process pid, even if a container
// created the subgroup. ok is false if the process is in none, in another job or gone. SubgroupOf
// reads /proc/PID/cgroup once.
func (j *Job) SubgroupOf(pid int) (name string, ok bool, err error) {
	dirs := j.subgroupDirs()
	at, err := j.tree.cgroupsOf(pid)
	if len(dirs) == 0 || errors.Is(err, ErrEnded) {
		return "", false, nil
	}
	name, ok = j.below(dirs[0].h, at)
	return name, ok, err
}

// below returns the directory inside the job's cgroup in h that a process is in, given the result
// of cgroupsOf.
func (j *Job) below(h *hierarchy, at map[*hierarchy]string) (name string, ok bool) {
	rest, found := strings.CutPrefix(at[h]+"/", h.jobsPath()+"/"+j.id+"/")
	name, _, ok = strings.Cut(rest, "/")
	if !found || !ok || !isSubgroup(name) {
		return "", false
	}
	return name, true
}

// SubgroupEmpty reports whether a subgroup has no processes or does not exist.
func (j *Job) SubgroupEmpty(name string) (bool, error) {
	for _, d := range j.subgroupDirs() {
		pids, err := j.tree.processes(d, name+"/")
		if err != nil && !gone(err) {
			return false, fmt.Errorf("subgroup %s of job %s: %w", name, j.id, err)
		}
		if len(pids) > 0 {
			return false, nil
		}
	}
	return true, nil
}

// RemoveSubgroup removes a subgroup. If it has processes, RemoveSubgroup fails with ErrBusy. On v1,
// Usage no longer includes its out-of-memory kills afterwards. RemoveSubgroup is idempotent.
func (j *Job) RemoveSubgroup(name string) error {
	for _, d := range slices.Backward(j.subgroupDirs()) { // the directory with the mark goes last
		err := d.Rmdir(name)
		if err == nil || gone(err) {
			continue
		}
		if errors.Is(err, unix.EBUSY) {
			err = fmt.Errorf("%w: %w", ErrBusy, err)
		}
		return fmt.Errorf("remove subgroup %s of job %s: %w", name, j.id, err)
	}
	return nil
}

// SubgroupUsage is the usage of a subgroup since it was created, including processes that have
// ended. A nil field means that this kernel does not provide it. Memory that a process had before
// it was moved in counts only for the job.
type SubgroupUsage struct {
	CPU      *time.Duration
	MemPeak  *int64 // the peak of memory in bytes, including page cache and kernel memory
	OOMKills *int64 // processes that the kernel killed because memory ran out
}

// SubgroupUsage reads the usage of a subgroup. It fails with ErrNotFound if the subgroup does not
// exist. With any other error, the fields that could be read are still set.
func (j *Job) SubgroupUsage(name string) (SubgroupUsage, error) {
	var u SubgroupUsage
	r := &reader{}
	for _, d := range j.subgroupDirs() {
		sub, err := d.Sub(name)
		if err != nil {
			return u, err
		}
		r.dir = directory{FS: sub, h: d.h}
		switch {
		case d.h.has("cpuacct"):
			u.CPU = duration(r.number(cpuacctUsage), time.Nanosecond)
		case d.h.v2 && j.tree.with("cpuacct") == nil: // every v2 cgroup counts cpu time
			u.CPU = duration(field(r.keyed(cpuStat), "usage_usec"), time.Microsecond)
		}
		if d.h.has("memory") {
			u.MemPeak, u.OOMKills = r.number(d.memory().peak), r.oomKills()
		}
	}
	if !r.found {
		return SubgroupUsage{}, fmt.Errorf("usage of subgroup %s of job %s: %w", name, j.id, ErrNotFound)
	}
	if err := errors.Join(r.errs...); err != nil {
		return u, fmt.Errorf("usage of subgroup %s of job %s: %w", name, j.id, err)
	}
	return u, nil
}
