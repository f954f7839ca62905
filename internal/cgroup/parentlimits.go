package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// The parent of all jobs has limits for all of them together: memory, memory and swap, cpus, tasks,
// huge pages. They are set on the directory below the unit, UNIT/jobid or UNIT/jobs. There systemd
// neither sets nor resets them, unlike in the unit's own files.

// shared are the controllers of the parent's limits.
var shared = []string{"memory", "cpuset", "pids", "hugetlb"}

// parent returns the parent of all jobs as a Job.
func (t *Tree) parent() *Job {
	p := &Job{tree: t, id: "(all)"}
	for _, h := range t.hierarchies {
		p.dirs = append(p.dirs, directory{FS: h.jobs, h: h})
	}
	return p
}

// ParentLimits returns the limits in force for all jobs together: Mem, MemSwap, Pids and Hugetlb.
// Their cpus are those of CPUs. It fails with ErrNotFound before Prepare.
func (t *Tree) ParentLimits() (Limits, error) {
	l, err := t.parent().Limits(shared...)
	return Limits{Mem: l.Mem, MemSwap: l.MemSwap, Pids: l.Pids, Hugetlb: l.Hugetlb}, err
}

// LimitParent changes the limits of all jobs together to Mem, MemSwap, CPUs, Pids and Hugetlb of l.
// Limits that l does not have are lifted. MemSwap requires Mem. Cpus that are not in CPUsAbove do
// not count. Each limit is read back. LimitParent is idempotent.
//
// LimitParent does not kill any process. Jobs may use more memory or huge pages than the new limit
// and be unable to give them back. On v1, they may have cpus outside l.CPUs. In these cases the old
// limit stays and the error is ErrInUse. v2 would take such cpus from the jobs without an error, so
// l.CPUs must include them. Reclaiming page cache may take up to reclaimTime. The other limits are
// applied anyway, and all errors are returned.
func (t *Tree) LimitParent(l Limits) error {
	p := t.parent()
	from, err := p.Limits(shared...)
	if err != nil {
		return fmt.Errorf("limit all jobs: %w", err)
	}
	to := from // including memory.low, which protect sets
	to.Mem, to.MemSwap, to.Pids, to.Hugetlb = l.Mem, l.MemSwap, l.Pids, l.Hugetlb
	if from.CPUs, to.CPUs, err = t.parentCPUs(l.CPUs); err != nil {
		return fmt.Errorf("limit all jobs: %w", err)
	}
	var errs []error
	stays := false // the memory limit stays unchanged, and so does that of swap
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
		if w.Controller == "cpuset" && errors.Is(err, unix.EBUSY) {
			err = fmt.Errorf("%w: a cgroup below has other cpus: %w", ErrInUse, err)
		}
		if err != nil {
			stays = stays || w.Controller == "memory"
			errs = append(errs, fmt.Errorf("limit all jobs: %w", explain(err)))
		}
	}
	return errors.Join(errs...)
}

// parentCPUs returns the cpus that all jobs together have, and those to give them: some, as far as
// the parent may have them. If there are none, it gets all that it may have.
func (t *Tree) parentCPUs(some kernfs.IDSet) (from, to kernfs.IDSet, err error) {
	if t.with("cpuset") == nil {
		return from, to, nil
	}
	if from, err = t.CPUs(); err != nil {
		return from, to, err
	}
	all, err := t.CPUsAbove()
	if to = all.Intersect(some); to.IsEmpty() {
		to = all
	}
	return from, to, err
}

// giveBack makes the jobs give back page cache until they fit into a memory limit. If they cannot,
// it fails with ErrInUse without swapping anything out. v2 accepts any limit, and kills processes
// if reclaim is not enough (memory_max_write). v1 needs no help.
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

// PidsAbove returns the lowest limit of tasks above the parent of all jobs, or nil. Examples are
// TasksMax of the unit, and a container's limit if its cgroup is mounted as the tree.
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
