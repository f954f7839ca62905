package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// Prepare creates the parents of the jobs' directories. It gives them what their children need:
// cpus and NUMA nodes on v1, controllers on v2. Only root can then list them and the jobs'
// directories, or open the file of the tree's lock. Prepare is idempotent, and several processes
// may call it at once. It stops at the first error. That is ErrNoUnit if systemd should have
// created the unit but has not. Above the jobs' tree Prepare does not change anything except for
// Options.Enable and EnableIfThere.
func (t *Tree) Prepare() error {
	for _, h := range t.hierarchies {
		if err := h.prepare(); err != nil {
			return fmt.Errorf("prepare cgroups: %w", err)
		}
		if err := h.unlist(); err != nil {
			return fmt.Errorf("prepare cgroups: %w", err)
		}
	}
	if err := t.protectStill(); err != nil {
		return fmt.Errorf("prepare cgroups: %w", err)
	}
	l, err := t.hierarchies[0].openLock()
	if err != nil {
		return fmt.Errorf("prepare cgroups: %w", err)
	}
	return l.Close()
}

func (h *hierarchy) prepare() error {
	if h.leaving {
		return nil
	}
	if h.v2 {
		return h.prepareV2()
	}
	above := h.mount
	for _, name := range []string{h.unit, h.unit + "/" + h.leaf} {
		dir, err := h.mount.Sub(name)
		if err != nil {
			return err
		}
		if err := makeDir(dir); err != nil {
			return err
		}
		if err := h.fill(dir, above); err != nil {
			return err
		}
		above = dir
	}
	return nil
}

// unlist lets only root list the unit, which systemd creates readable for everybody, the directory
// of all jobs, and on v1 the jobs' directories. Those of jobs that began with pbs_cgroups are
// readable for everybody. A directory that was given to somebody stays as it is.
func (h *hierarchy) unlist() error {
	unit, err := h.mount.Sub(h.unit)
	if err != nil {
		return err
	}
	for _, d := range []*kernfs.FS{unit, h.jobs} {
		f, err := d.OpenFile(".", os.O_RDONLY)
		if gone(err) {
			continue
		}
		if err != nil {
			return err
		}
		err = unlistDir(f, ".")
		f.Close()
		if err != nil {
			return fmt.Errorf("chmod go-r %s: %w", d.Path("."), explain(err))
		}
	}
	if h.v2 {
		return nil
	}
	return h.unlistJobs()
}

// unlistJobs lets only root list the jobs' directories. chmod(2) waits for a directory that its
// job's owner is listing, so nothing waits for it here. Without it, the end of such a job may wait
// for its owner.
func (h *hierarchy) unlistJobs() error {
	names, err := h.jobs.Dirs(".")
	if gone(err) || err == nil && len(names) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	f, err := h.jobs.OpenFile(".", os.O_RDONLY)
	if err != nil {
		return err
	}
	var unlisting sync.WaitGroup
	for _, name := range names {
		if _, listed := listedMode(f, name); listed {
			unlisting.Go(func() { unlistDir(f, name) })
		}
	}
	go func() { unlisting.Wait(); f.Close() }()
	return nil
}

// unlistDir lets only root list the directory with this name in f.
func unlistDir(f kernfs.File, name string) error {
	mode, listed := listedMode(f, name)
	if !listed {
		return nil
	}
	return unix.Fchmodat(int(f.Fd()), name, mode&^everybodys, 0)
}

const everybodys = 0o044

// listedMode returns the mode of a directory of root's in f, and whether others may list it. A
// directory that is gone may not be listed, nor one of a kernel in memory: see kernfs.File.
func listedMode(f kernfs.File, name string) (mode uint32, listed bool) {
	var st unix.Stat_t
	if err := unix.Fstatat(int(f.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return 0, false
	}
	return st.Mode & 0o7777, st.Mode&everybodys != 0 && st.Uid == 0 && st.Gid == 0
}

// makeDir creates dir unless it exists. mkdir(2) waits for the parent's lock even then, and
// everybody can list the mount and so hold its lock.
func makeDir(dir *kernfs.FS) error {
	if dir.Exists(".") {
		return nil
	}
	if err := dir.Mkdir("."); err != nil && !errors.Is(err, fs.ErrExist) {
		return explain(err)
	}
	return nil
}

// explain adds the meaning of the kernel's error in this case.
func explain(err error) error {
	switch {
	case errors.Is(err, unix.EROFS):
		return fmt.Errorf("%w: cgroups are mounted read-only, as in a container", err)
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w: this part of the cgroup tree is not this process's to change: "+
			"it is not root, or in a container", err)
	}
	return err
}

// fill prepares a v1 directory for its children.
func (h *hierarchy) fill(dir, above *kernfs.FS) error {
	if h.has("cpuset") {
		if err := inheritSets(dir, above); err != nil {
			return err
		}
	}
	if h.has("memory") {
		return useHierarchy(dir)
	}
	return nil
}

// useHierarchy makes parents count the memory of their children. Since Linux 5.11 they always do,
// and the file cannot be changed.
func useHierarchy(dir *kernfs.FS) error {
	on, err := dir.Uint("memory.use_hierarchy")
	if errors.Is(err, fs.ErrNotExist) || err == nil && on == 1 {
		return nil
	}
	if err != nil {
		return err
	}
	return dir.Write("memory.use_hierarchy", "1")
}

// Prepared reports whether the parent of all jobs exists in every hierarchy.
func (t *Tree) Prepared() bool {
	for _, h := range t.hierarchies {
		if !h.leaving && !h.jobs.Exists(".") {
			return false
		}
	}
	return true
}
