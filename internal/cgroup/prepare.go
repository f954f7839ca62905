package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// Prepare makes the parents of the jobs' directories and gives them what their children need: cpus and NUMA nodes on
// v1, controllers on v2. It is idempotent, and several processes may do it at once. It stops at the first error.
func (t *Tree) Prepare() error {
	for _, h := range t.hierarchies {
		if err := h.prepare(); err != nil {
			return fmt.Errorf("prepare cgroups: %w", err)
		}
	}
	return nil
}

func (h *hierarchy) prepare() error {
	above := h.mount
	for _, name := range []string{h.unit, h.unit + "/" + h.leaf} {
		dir, err := h.mount.Sub(name)
		if err != nil {
			return err
		}
		if err := dir.Mkdir("."); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if h.v2 {
			err = h.enable(dir)
		} else {
			err = h.fill(dir, above)
		}
		if err != nil {
			return err
		}
		above = dir
	}
	return nil
}

// fill sets up a v1 directory for its children.
func (h *hierarchy) fill(dir, above *kernfs.FS) error {
	if h.has("cpuset") {
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			if err := inheritSet(dir, above, file); err != nil {
				return err
			}
		}
	}
	if h.has("memory") {
		return useHierarchy(dir)
	}
	return nil
}

// inheritSet fills an empty set from the parent's: a v1 cpuset without cpus or mems takes no task (ENOSPC).
func inheritSet(dir, above *kernfs.FS, file string) error {
	set, err := dir.IDSet(file)
	if err != nil || !set.IsEmpty() {
		return err
	}
	if set, err = above.IDSet(file); err != nil {
		return err
	}
	return dir.Write(file, set.String())
}

// useHierarchy has children count in their parents. Since Linux 5.11 it is so, and the file cannot be changed.
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

// enable passes h's controllers on to the children of a v2 directory, one by one, so that an error names the culprit.
func (h *hierarchy) enable(dir *kernfs.FS) error {
	if len(h.controllers) == 0 {
		return nil
	}
	const file = "cgroup.subtree_control"
	b, err := dir.ReadFile(file)
	if err != nil {
		return err
	}
	on := strings.Fields(string(b))
	for _, c := range h.controllers {
		if slices.Contains(on, c) {
			continue
		}
		if err := dir.Write(file, "+"+c); err != nil {
			return err
		}
	}
	return nil
}

// Prepared tells whether the parents of all jobs are there, in every hierarchy.
func (t *Tree) Prepared() bool {
	for _, h := range t.hierarchies {
		if !h.jobs.Exists(".") {
			return false
		}
	}
	return true
}
