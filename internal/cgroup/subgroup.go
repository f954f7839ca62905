package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A job may have subgroups, so that the use of its parts is known. They are in the hierarchies that
// count, and have no limits: those are the job's.
//
//	v1, memory and cpuacct               v2
//
//	12.server     limits, processes      12.server     limits; subtree_control: +memory +cpu +pids
//	└── rank.3                           ├── main      processes
//	                                     └── rank.3
//
// A v2 cgroup that passes controllers on to its children holds no processes itself (cgroup-v2.rst,
// "No Internal Process Constraint"). So there the job's other processes are in main. Beside v1
// controllers the v2 tree has none of these and stays as it is. A v1 hierarchy that cpuset is
// mounted in too has no subgroups: their cpusets would be in the way when the job gets other cpus.

// mainGroup is where the processes of a split v2 job are that are in no other subgroup.
const mainGroup = "main"

// subgroupControllers are passed on to the subgroups of a v2 job, as far as the job has them.
var subgroupControllers = []string{"memory", "cpu", "pids"}

// subgroupMark is the extended attribute of a subgroup's directory. The directories that containers
// make below a job's have none.
const subgroupMark = "trusted.hookhost.subgroup"

// hasSubgroups reports whether jobs may have subgroups in h.
func (t *Tree) hasSubgroups(h *hierarchy) bool {
	if h.v2 {
		return t.mode == ModeV2 || h.has("memory")
	}
	return !h.has("cpuset") && (h.has("memory") || h.has("cpuacct"))
}

// subgroupDirs returns the job's directories that subgroups are in, the one with their marks first.
func (j *Job) subgroupDirs() []directory {
	return slices.DeleteFunc(slices.Clone(j.dirs), func(d directory) bool { return !j.tree.hasSubgroups(d.h) })
}

// Split prepares a job that has just been created for subgroups. On v1 nothing has to be made for
// that. From then on its processes are to be started and attached by what WithSubgroups returns.
// Split is idempotent, and leaves the job as it was if it fails.
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
	for _, c := range want { // a controller that is not on is no mistake
		if undo := d.Write("cgroup.subtree_control", "-"+c); undo != nil && !gone(undo) {
			err = errors.Join(err, undo)
		}
	}
	if undo := d.Rmdir(mainGroup); undo != nil && !gone(undo) {
		err = errors.Join(err, undo)
	}
	return err
}

// WithSubgroups returns the same job as one that was split. Its processes enter main, and Attach
// leaves a process where it is that is in a subgroup. WithSubgroups reads nothing: the caller knows
// how the job was begun.
func (j *Job) WithSubgroups() *Job {
	split := *j
	split.split = true
	return &split
}

// Subgroup is a cgroup below a job's that was made by MakeSubgroup.
type Subgroup struct {
	Name string // of its directory
	Mark []byte // given to MakeSubgroup
}

// Subgroups returns the job's subgroups. Main and what containers make are not among them. A job
// without a cgroup has none.
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

// MakeSubgroup makes a subgroup with a mark, or gives one that is there another mark. MakeSubgroup
// fails with ErrUnsupported where no hierarchy can have subgroups, and with ErrNotFound when the
// job has no cgroup. MakeSubgroup leaves nothing that it made if it fails.
func (j *Job) MakeSubgroup(name string, mark []byte) error {
	dirs := j.subgroupDirs()
	if len(dirs) == 0 {
		return fmt.Errorf("subgroup %s of job %s: neither memory nor cpu time is counted by cgroup: %w", name, j.id,
			ErrUnsupported)
	}
	if name == "" || name == "." || name == ".." || name == mainGroup || strings.ContainsAny(name, "/\n\x00") {
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

// Ungrouped returns the processes of the job that are in no subgroup, in one hierarchy at least, in
// order. Zombies are not among them, as in Processes. A job without a cgroup, or one
// that was not split, has none.
func (j *Job) Ungrouped() ([]int, error) {
	found := map[int]bool{}
	for _, d := range j.subgroupDirs() {
		if d.h.v2 {
			main, err := d.Sub(mainGroup)
			if err != nil {
				return nil, err
			}
			d = directory{FS: main, h: d.h}
		}
		if err := d.members(found); err != nil && !gone(err) {
			return nil, fmt.Errorf("processes of job %s: %w", j.id, err)
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// SubgroupOf returns the name of the subgroup that the process pid is in, also of one that a
// container has made. ok is false for a process that is in none, in another job or gone. SubgroupOf
// is one read of /proc/PID/cgroup.
func (j *Job) SubgroupOf(pid int) (name string, ok bool, err error) {
	dirs := j.subgroupDirs()
	at, err := j.tree.cgroupsOf(pid)
	if len(dirs) == 0 || errors.Is(err, ErrEnded) {
		return "", false, nil
	}
	name, ok = j.below(dirs[0].h, at)
	return name, ok, err
}

// below returns the directory of the job's own in h that something is in, by what cgroupsOf says of
// it.
func (j *Job) below(h *hierarchy, at map[*hierarchy]string) (name string, ok bool) {
	rest, found := strings.CutPrefix(at[h]+"/", h.jobsPath()+"/"+j.id+"/")
	name, _, ok = strings.Cut(rest, "/")
	if !found || !ok || name == mainGroup {
		return "", false
	}
	return name, true
}

// SubgroupEmpty reports whether a subgroup has no processes, as one has that is not there.
func (j *Job) SubgroupEmpty(name string) (bool, error) {
	for _, d := range j.subgroupDirs() {
		pids, err := d.pids(name + "/cgroup.procs")
		if err != nil && !gone(err) {
			return false, fmt.Errorf("subgroup %s of job %s: %w", name, j.id, err)
		}
		if len(pids) > 0 {
			return false, nil
		}
	}
	return true, nil
}

// RemoveSubgroup removes a subgroup that has no processes; else it fails with ErrBusy. On v1 the
// kills for lack of memory that were counted in it count in Usage no more. RemoveSubgroup is
// idempotent.
func (j *Job) RemoveSubgroup(name string) error {
	for _, d := range slices.Backward(j.subgroupDirs()) { // the mark is the last to go
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

// SubgroupUsage is what a subgroup has used since it was made, by processes that have ended too;
// nil is what this kernel does not tell. Memory that a process had before it was moved in is the
// job's alone.
type SubgroupUsage struct {
	CPU      *time.Duration
	MemPeak  *int64 // the greatest memory use in bytes, page cache and kernel memory included
	OOMKills *int64 // processes that the kernel killed for lack of memory
}

// SubgroupUsage reads what a subgroup has used. SubgroupUsage fails with ErrNotFound when there is
// no such subgroup. The rest is there beside another error.
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
