package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
)

// v1's soft limit is heeded when the node itself runs out of memory. The kernel reclaims first from
// the cgroups that are furthest above theirs (mem_cgroup_soft_limit_reclaim in mm/memcontrol-v1.c).
// Below it a cgroup is reclaimed from only when that was not enough.
//
// v2 says the same by memory.low (cgroup-v2.rst, "Memory Interface Files"). Memory of a cgroup up
// to it is reclaimed only when nothing else is left. "Issues with v1" there names it the successor.
// memory.high is not the same: it throttles a job also if there is memory for all.
//
// A job has no more of memory.low than its parents have (effective_protection in
// mm/page_counter.c). The parents get what all jobs together have, and no more. With the mount
// option memory_recursiveprot the rest of a parent's would go to the jobs that are above theirs.

// protectStill is protect where an earlier process has left something of it.
func (t *Tree) protectStill() error {
	if h := t.with("memory"); h == nil || !h.v2 {
		return nil
	} else if n, err := h.jobs.Uint(memoryLow); err != nil || n == 0 {
		return nil
	}
	return t.protect()
}

// protect gives the parents of all jobs the memory.low that the jobs have together. protect is
// idempotent. systemd writes the unit's own file when it realizes the unit anew. The next begin or
// end of a job puts it right.
func (t *Tree) protect() error {
	h := t.with("memory")
	if h == nil || !h.v2 {
		return nil
	}
	t.protecting.Lock()
	defer t.protecting.Unlock()
	names, err := h.jobs.Dirs(".")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("protect memory of jobs: %w", err)
	}
	var sum uint64
	for _, name := range names {
		n, err := h.jobs.Uint(name + "/" + memoryLow)
		if err != nil && !gone(err) {
			return fmt.Errorf("protect memory of jobs: %w", err)
		}
		sum += n
	}
	t.protected.Store(sum > 0)
	for _, dir := range []string{h.unit, h.unit + "/" + h.leaf} {
		file, want := dir+"/"+memoryLow, strconv.FormatUint(sum, 10)
		if now, err := h.mount.Uint(file); err == nil && now == sum {
			continue
		}
		if err := h.mount.Write(file, want); err != nil {
			return fmt.Errorf("protect memory of jobs: %w", explain(err))
		}
		if b, err := h.mount.ReadFile(file); err != nil || trim(b) != want {
			return errors.Join(fmt.Errorf("protect memory of jobs: %s is %q, wanted %q: %w",
				h.mount.Path(file), trim(b), want, ErrNotInForce), err)
		}
	}
	return nil
}
