package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
)

// v1's soft limit applies when the node itself runs out of memory. The kernel first reclaims from
// the cgroups that exceed their soft limits the most (mem_cgroup_soft_limit_reclaim in
// mm/memcontrol-v1.c). If that is not enough, it also reclaims from cgroups below their soft
// limits.
//
// v2's memory.low does the same (cgroup-v2.rst, "Memory Interface Files"). A cgroup's memory up to
// memory.low is reclaimed only when nothing else is left. "Issues with v1" in that document names
// it as the successor. memory.high is different: it throttles a job even if there is enough memory.
//
// A job is protected only as far as its parents are (effective_protection in mm/page_counter.c). So
// the parents get the sum of all jobs. They do not get more: with the mount option
// memory_recursiveprot, jobs that exceed their own amount would get any surplus of a parent.

// protectStill calls protect if an earlier process left protection in place.
func (t *Tree) protectStill() error {
	if h := t.with("memory"); h == nil || !h.v2 {
		return nil
	} else if n, err := h.jobs.Uint(memoryLow); err != nil || n == 0 {
		return nil
	}
	return t.protect()
}

// protect gives the parents of all jobs the sum of the jobs' memory.low. It is idempotent. When
// systemd reapplies its settings to the unit, it overwrites the unit's file. The next begin or end
// of a job corrects that.
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
