package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
)

// The parent of all jobs has limits that hold for all of them together: memory, memory and swap,
// tasks, huge pages. They are on its directory below the unit, UNIT/jobid or UNIT/jobs. So systemd
// neither sets them nor takes them back, as it does with the unit's own files.

// shared are the controllers whose limits the parent has.
var shared = []string{"memory", "pids", "hugetlb"}

// parent is the parent of all jobs, with the directories of a job.
func (t *Tree) parent() *Job {
	p := &Job{tree: t, id: "(all)"}
	for _, h := range t.hierarchies {
		p.dirs = append(p.dirs, directory{FS: h.jobs, h: h})
	}
	return p
}

// ParentLimits returns the limits in force of all jobs together: Mem, MemSwap, Pids and Hugetlb.
// ParentLimits fails with ErrNotFound before Prepare.
func (t *Tree) ParentLimits() (Limits, error) {
	l, err := t.parent().Limits(shared...)
	return Limits{Mem: l.Mem, MemSwap: l.MemSwap, Pids: l.Pids, Hugetlb: l.Hugetlb}, err
}

// LimitParent changes the limits of all jobs together to l, of which Mem, MemSwap, Pids and Hugetlb
// count. A limit that l does not have is lifted. MemSwap needs Mem. Each is read back. LimitParent
// is idempotent.
//
// No process is killed for it. Jobs that have more memory or huge pages than that and do not give
// it back keep the limit that they had: ErrInUse. To give page cache back may take reclaimTime. The
// other limits come into force all the same, and all errors are returned.
func (t *Tree) LimitParent(l Limits) error {
	p := t.parent()
	from, err := p.Limits(shared...)
	if err != nil {
		return fmt.Errorf("limit all jobs: %w", err)
	}
	to := from // with memory.low, which is protect's
	to.Mem, to.MemSwap, to.Pids, to.Hugetlb = l.Mem, l.MemSwap, l.Pids, l.Hugetlb
	var errs []error
	stays := false // the limit of memory, by which that of swap goes
	for _, w := range p.planOf(shared, &from, to) {
		if stays && w.Controller == "memory" {
			continue
		}
		d, _ := p.with(w.Controller)
		var err error
		if (w.File == memoryMax || w.File == memoryLimit) && to.Mem != nil {
			err = d.giveBack(*to.Mem)
		}
		if err == nil {
			err = p.put(d, w.knob, w.Value, false)
		}
		if err != nil {
			stays = stays || w.Controller == "memory"
			errs = append(errs, fmt.Errorf("limit all jobs: %w", explain(err)))
		}
	}
	return errors.Join(errs...)
}

// giveBack has the jobs give back page cache until they fit into a limit of memory. If they do not
// fit, giveBack fails with ErrInUse, and nothing of theirs is sent to swap for it. v2's kernel
// takes any limit, and kills if reclaim is not enough (memory_max_write). v1's does all else by
// itself.
func (d directory) giveBack(limit int64) error {
	r := &reader{dir: d}
	use := r.memoryUse()
	if err := errors.Join(r.errs...); err != nil {
		return err
	}
	if use != nil && use.fixed > limit {
		return fmt.Errorf("%s: %d bytes in use that jobs cannot give back, %d wanted: %w", d.Path("."), use.fixed,
			limit, ErrInUse)
	}
	if !d.h.v2 {
		return nil
	}
	return d.reclaimTo(limit)
}

// PidsAbove returns the least limit of tasks above the parent of all jobs, nil if there is none.
// Such are TasksMax of the unit, and a container's limit where the tree's mount is its cgroup.
func (t *Tree) PidsAbove() (least *int64, err error) {
	h := t.with("pids")
	if h == nil {
		return nil, nil
	}
	for _, dir := range []string{".", h.unit} {
		b, err := h.mount.ReadFile(path.Join(dir, pidsMax.file))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		n, err := parseBytes(trim(b))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", h.mount.Path(path.Join(dir, pidsMax.file)), err)
		}
		if n != nil && (least == nil || *n < *least) {
			least = n
		}
	}
	return least, nil
}
