package cgroup

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
)

// Processes returns the ids of the processes in the job's cgroup and in those that the job made
// below it, over all hierarchies, in order. Zombies are not among them. Processes fails with
// ErrNotFound when the job has no cgroup.
//
// If a directory goes away during the walk, the walk goes on. containerd/cgroups gives up there
// (cgroup2/manager.go:531), so a job that makes and removes subgroups would have no list.
func (j *Job) Processes() ([]int, error) {
	list, found, err := j.list(j.dirs)
	if !found {
		return nil, fmt.Errorf("processes of job %s: %w", j.id, ErrNotFound)
	}
	return list, err
}

// list returns the processes in dirs and below them, in order. found is whether any of dirs is
// there.
func (j *Job) list(dirs []directory) (list []int, found bool, err error) {
	pids := map[int]bool{}
	var errs []error
	for _, d := range dirs {
		err := d.walk(func(dir directory) error { return dir.members(pids) })
		if gone(err) {
			continue
		}
		found = true
		errs = append(errs, err)
	}
	return slices.Sorted(maps.Keys(pids)), found, errors.Join(errs...)
}

// Populated reports whether the job has a process. A job without a cgroup has none.
func (j *Job) Populated() (bool, error) {
	if d, ok := j.v2(); ok {
		if m, err := d.Keyed(events); err == nil && m["populated"] > 0 {
			return true, nil
		}
	}
	pids, err := j.Processes() // there may be some in v1 alone, and a zombie populates as well
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return len(pids) > 0, err
}

// walk calls do for d and for the directories below it, deepest first. A directory that goes away
// meanwhile is passed over, unless it is d.
func (d directory) walk(do func(directory) error) error {
	names, err := d.children()
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		sub, err := d.Sub(name)
		if err == nil {
			err = directory{FS: sub, h: d.h}.walk(do)
		}
		if err != nil && !gone(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, do(d))...)
}

// children returns the names of the directories in d.
func (d directory) children() ([]string, error) {
	f, err := d.OpenFile(".", os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// The usual job has none, which the link count tells at once: kernfs counts 2 and the
	// subdirectories (kernfs_refresh_inode).
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) == nil && st.Nlink == 2 {
		return nil, nil
	}
	return d.Dirs(".")
}

// members adds the processes of one directory to pids.
func (d directory) members(pids map[int]bool) error {
	list, err := d.pids("cgroup.procs")
	for _, pid := range list {
		pids[pid] = true
	}
	return err
}

// JobOf returns the job in whose cgroup the process pid is, in one hierarchy at least. ok is false
// for a process of no job, or one that is gone. JobOf reads /proc/PID/cgroup once (cgroups(7)). A
// search for strays does so for each process, and procfs's parse takes 12 us and 37 allocations.
func (t *Tree) JobOf(pid int) (id string, ok bool, err error) {
	at, err := t.cgroupsOf(pid)
	if errors.Is(err, ErrEnded) {
		return "", false, nil
	}
	for _, h := range t.hierarchies {
		if id, ok := h.jobAt(at[h]); ok {
			return id, true, nil
		}
	}
	return "", false, err
}

// contains reports whether the process pid is in the job's cgroup, in one hierarchy at least.
func (j *Job) contains(pid int) (bool, error) {
	at, err := j.tree.cgroupsOf(pid)
	if errors.Is(err, ErrEnded) {
		return false, nil
	}
	return slices.ContainsFunc(j.dirs, func(d directory) bool {
		id, in := d.h.jobAt(at[d.h])
		return in && id == j.id
	}), err
}

// jobsPath is the parent of all jobs as /proc/PID/cgroup has it. The root of the mount is in it:
// both are told as the reader's cgroup namespace sees them.
func (h *hierarchy) jobsPath() string {
	return strings.TrimSuffix(h.root, "/") + "/" + h.unit + "/" + h.leaf
}

// jobAt returns the job that dir, of /proc/PID/cgroup, belongs to. The path counts from its
// beginning: in a directory that was delegated to a user, the user may make one with our names.
func (h *hierarchy) jobAt(dir string) (id string, ok bool) {
	rest, ok := strings.CutPrefix(dir, h.jobsPath()+"/")
	id, _, _ = strings.Cut(rest, "/")
	return id, ok && hostapi.CheckJobID(id) == nil
}

// cgroupsOf returns where a process is, as the kernel names it. cgroupsOf fails with ErrEnded.
func (t *Tree) cgroupsOf(pid int) (map[*hierarchy]string, error) {
	b, err := t.proc.ReadFile(strconv.Itoa(pid) + "/cgroup")
	if gone(err) || errors.Is(err, unix.ESRCH) {
		err = ErrEnded
	}
	if err != nil {
		return nil, err
	}
	return t.parseCgroups(string(b)), nil
}

// parseCgroups reads lines such as "4:memory:/pbs_jobs.service", of v2 "0::/pbs_jobs.service".
func (t *Tree) parseCgroups(text string) map[*hierarchy]string {
	at := make(map[*hierarchy]string, len(t.hierarchies))
	for line := range strings.Lines(text) {
		_, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		controllers, dir, ok := strings.Cut(rest, ":")
		if !ok {
			continue
		}
		for _, h := range t.hierarchies {
			if h.v2 && controllers == "" || !h.v2 && listed(controllers, h.controllers()[0]) {
				at[h] = dir
			}
		}
	}
	return at
}

// listed reports whether name is in a list such as "cpu,cpuacct".
func listed(list, name string) bool {
	for c := range strings.SplitSeq(list, ",") {
		if c == name {
			return true
		}
	}
	return false
}

// pids reads a list of ids, sorted. 0 is a process of a pid namespace that cannot be seen from
// here.
func (d directory) pids(file string) ([]int, error) {
	b, err := d.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var list []int
	for line := range strings.Lines(string(b)) {
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.Path(file), err)
		}
		if pid > 0 {
			list = append(list, pid)
		}
	}
	slices.Sort(list)
	return list, nil
}
