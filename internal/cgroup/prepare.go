package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

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
	var jobs []string
	if !h.v2 {
		if jobs, err = h.jobs.Dirs("."); err != nil && !gone(err) {
			return err
		}
	}
	if err := unlistIn(unit, "."); err != nil && !gone(err) {
		return err
	}
	if err := unlistIn(h.jobs, append(jobs, ".")...); err != nil && !gone(err) {
		return err
	}
	return nil
}

// unlistIn lets only root list the directories with these names in d. It opens only d.
func unlistIn(d *kernfs.FS, names ...string) error {
	f, err := d.OpenFile(".", os.O_RDONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, name := range names {
		const readable = 0o044
		var st unix.Stat_t
		err := unix.Fstatat(int(f.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
		if err == nil && st.Mode&readable != 0 && st.Uid == 0 && st.Gid == 0 {
			err = unix.Fchmodat(int(f.Fd()), name, st.Mode&0o7777&^readable, 0)
		}
		// A job's directory may be gone by now. ENOTDIR comes from a kernel in memory: see
		// kernfs.File.
		if err != nil && !gone(err) && !errors.Is(err, unix.ENOTDIR) {
			return fmt.Errorf("chmod go-r %s: %w", d.Path(name), explain(err))
		}
	}
	return nil
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
