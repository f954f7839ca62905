package cgroup

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/proc"
)

// Processes returns the pids of the processes in the job's cgroup and in the cgroups below it, over
// all hierarchies, in order. It leaves out zombies. Processes fails with ErrNotFound if the job has
// no cgroup.
//
// If a directory disappears during the walk, the walk continues. containerd/cgroups gives up there
// (cgroup2/manager.go:531). With that, a job that creates and removes subgroups could not be
// listed.
func (j *Job) Processes() ([]int, error) {
	list, found, err := j.list(j.dirs)
	if !found {
		return nil, fmt.Errorf("processes of job %s: %w", j.id, ErrNotFound)
	}
	return list, err
}

// list returns the processes in dirs and below them, in order. found reports whether any of dirs
// exists.
func (j *Job) list(dirs []directory) (list []int, found bool, err error) {
	var errs []error
	delegated := j.delegated()
	for _, d := range dirs {
		var err error
		if delegated && d.h.v2 {
			var pids []int
			pids, err = j.delegatedProcesses()
			list = append(list, pids...)
		} else {
			err = d.walk(func(dir directory) error {
				pids, err := j.tree.processes(dir, "")
				list = append(list, pids...)
				return err
			})
		}
		if gone(err) {
			continue
		}
		found = true
		errs = append(errs, err)
	}
	slices.Sort(list)
	return slices.Compact(list), found, errors.Join(errs...)
}

// Populated reports whether the job has a process. A job without a cgroup has none.
func (j *Job) Populated() (bool, error) {
	if d, ok := j.v2(); ok {
		if m, err := d.Keyed(events); err == nil && m["populated"] > 0 {
			return true, nil
		}
	}
	pids, err := j.Processes() // some may be on v1 only, and zombies count as populated
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return len(pids) > 0, err
}

// walk calls do for d and for the directories below it, deepest first. It ignores directories other
// than d that disappear meanwhile.
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
	// Most jobs have none, and the link count shows that right away: kernfs counts 2 plus the
	// subdirectories (kernfs_refresh_inode).
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) == nil && st.Nlink == 2 {
		return nil, nil
	}
	return d.Dirs(".")
}

// JobOf returns the job whose cgroup contains the process pid, in at least one hierarchy. ok is
// false if the process is in no job or is gone. JobOf reads /proc/PID/cgroup once (cgroups(7)).
//
// JobOf does not use the parser of procfs, which takes 12 us and 37 allocations, because a search
// for strays calls JobOf for each process.
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

// contains reports whether the process pid is in the job's cgroup, in at least one hierarchy.
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

// jobsPath returns the parent of all jobs in the notation of /proc/PID/cgroup. It includes the root
// of the mount, since both are relative to the reader's cgroup namespace.
func (h *hierarchy) jobsPath() string {
	return strings.TrimSuffix(h.root, "/") + "/" + h.unit + "/" + h.leaf
}

// jobAt returns the job that dir, from /proc/PID/cgroup, belongs to. It matches the path from its
// beginning, because a user can create directories with our names inside a delegated directory.
func (h *hierarchy) jobAt(dir string) (id string, ok bool) {
	rest, ok := strings.CutPrefix(dir, h.jobsPath()+"/")
	id, _, _ = strings.Cut(rest, "/")
	return id, ok && hostapi.CheckJobID(id) == nil
}

// cgroupsOf returns a process's cgroup in each hierarchy, in the kernel's notation. It fails with
// ErrEnded if the process is gone.
func (t *Tree) cgroupsOf(pid int) (map[*hierarchy]string, error) {
	at, err := t.cgroupsIn(strconv.Itoa(pid))
	if err != nil || t.inJob(at) {
		return at, err
	}
	// If its first thread has ended, v1 shows the root, and v2 where it was then.
	dir, err := proc.Running(t.proc, pid)
	if errors.Is(err, proc.ErrGone) {
		return at, nil
	}
	if err != nil || dir == strconv.Itoa(pid) {
		return at, err
	}
	return t.cgroupsIn(dir)
}

// cgroupsIn is cgroupsOf for the thread that a directory of /proc shows.
func (t *Tree) cgroupsIn(dir string) (map[*hierarchy]string, error) {
	b, err := t.proc.ReadFile(dir + "/cgroup")
	if gone(err) || errors.Is(err, unix.ESRCH) {
		err = ErrEnded
	}
	if err != nil {
		return nil, err
	}
	return t.parseCgroups(string(b)), nil
}

// inJob reports whether any of these cgroups, from cgroupsOf, is a job's.
func (t *Tree) inJob(at map[*hierarchy]string) bool {
	return slices.ContainsFunc(t.hierarchies, func(h *hierarchy) bool {
		_, in := h.jobAt(at[h])
		return in
	})
}

// parseCgroups parses lines such as "4:memory:/pbs_jobs.service", or "0::/pbs_jobs.service" for v2.
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

// pids reads a sorted list of pids. It skips 0, which stands for a process in a pid namespace that
// is not visible here.
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

// processes returns the processes in a directory of d, whose name ends with a slash or is "". A v2
// cgroup.procs shows where the first threads are. If a process was moved after its first thread had
// ended, or in that moment, only cgroup.threads shows the others. Reading that for each cgroup
// would cost too much, so processes reads it if cgroup.procs is empty.
func (t *Tree) processes(d directory, dir string) ([]int, error) {
	list, err := d.pids(dir + "cgroup.procs")
	if err != nil || len(list) > 0 || !d.h.v2 {
		return list, err
	}
	threads, err := d.pids(dir + "cgroup.threads")
	if gone(err) {
		return nil, nil
	}
	for len(threads) > 0 && err == nil {
		var p proc.Process
		p, err = proc.Read(t.proc, threads[0])
		if errors.Is(err, proc.ErrGone) {
			threads, err = threads[1:], nil
			continue
		}
		others, _ := t.proc.Numbers(strconv.Itoa(p.Leader) + "/task")
		list = append(list, p.Leader)
		threads = slices.DeleteFunc(threads[1:], func(tid int) bool { return slices.Contains(others, tid) })
	}
	return list, err
}
