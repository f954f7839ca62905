package cgroup

import (
	"errors"
	"fmt"
	"strconv"
)

// Apply changes the limits of a live job to l, up or down. It lifts limits that l does not name,
// except that CPUShares 0 and nil Swappiness and OOMGroup keep the current value. Either everything
// takes effect or nothing does.
//
// If a limit of memory, swap or huge pages is below what the job uses and cannot give back, the
// error is ErrInUse. Usually Apply finds that out before it writes anything. Otherwise v1's kernel
// refuses the limit, or a v2 job did not give memory back in time (up to reclaimTime). Processes of
// a v2 job may be killed if it grows at the same moment. A limit below the number of tasks is not
// an error: the job cannot fork until some have ended. When the NUMA nodes change, memory moves
// along. The kernel waits for the memory maps of all processes of the job then, with the lock of
// all cpusets (cpuset_update_tasks_nodemask). The next attach would wait for that lock and stop the
// node. So check is called right before, unless it is nil. If it fails, Apply does too.
//
// On v1 a job cannot gain or lose its cpuset. In that case the error is ErrUnsupported.
func (j *Job) Apply(l Limits, check func() error) error {
	err := j.resize(l, check)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return fmt.Errorf("limit job %s: %w", j.id, err)
	}
	return err
}

func (j *Job) resize(l Limits, check func() error) error {
	old, err := j.Limits()
	if err != nil {
		return err
	}
	l, err = j.check(l)
	if err != nil {
		return err
	}
	if d, ok := j.with("cpuset"); ok && !d.h.v2 && old.CPUs.IsEmpty() != l.CPUs.IsEmpty() {
		return fmt.Errorf("cpus %q instead of %q: %w", l.CPUs, old.CPUs, ErrUnsupported)
	}
	if err := j.fits(old, l); err != nil {
		return err
	}
	plan := j.plan(&old, l)
	done, err := j.apply(plan, check)
	if err != nil {
		return errors.Join(err, j.undo(plan[:done]))
	}
	if formatBytes(old.MemSoft) != formatBytes(l.MemSoft) {
		return j.tree.protect()
	}
	return nil
}

// fits fails with ErrInUse if the job uses more than l and cannot give it back. It checks only
// limits that become lower.
func (j *Job) fits(old, l Limits) error {
	if d, ok := j.with("memory"); ok && (above(old.Mem, l.Mem) || above(old.MemSwap, l.MemSwap)) {
		if err := d.fitsMemory(l, j.swapFree); err != nil {
			return err
		}
	}
	d, ok := j.with("hugetlb")
	if !ok {
		return nil
	}
	for _, k := range hugetlbKnobs(d.h.v2, &l) {
		text := k.get(&l)
		if text == k.get(&old) {
			continue
		}
		want, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return err
		}
		use, err := d.Uint(k.use)
		if gone(err) {
			continue // the error comes when the limit is written
		}
		if err != nil {
			return err
		}
		if use > want {
			return fmt.Errorf("%s: %d bytes in use, %d wanted: %w", d.Path(k.use), use, want, ErrInUse)
		}
	}
	return nil
}

// swapFree returns the node's free swap, in bytes.
func (j *Job) swapFree() (int64, error) {
	values, err := j.tree.proc.Meminfo("meminfo", "SwapFree")
	return values["SwapFree"], err
}

// fitsMemory compares the memory and swap that the job cannot give back with the limits in l.
func (d directory) fitsMemory(l Limits, swapFree func() (int64, error)) error {
	r := &reader{dir: d}
	use := r.memoryUse()
	if err := errors.Join(r.errs...); err != nil {
		return err
	}
	if use == nil || l.Mem == nil {
		return nil
	}
	// Unevictable memory stays, however much swap there is.
	swappable := int64(0)
	if use.fixed > *l.Mem {
		free, err := swapFree()
		if err != nil {
			return err
		}
		swappable = free
		if l.MemSwap != nil {
			swappable = min(free, max(0, *l.MemSwap-*l.Mem-use.swap))
		}
		swappable = min(swappable, use.swappable)
	}
	if over := use.fixed - swappable; over > *l.Mem {
		return fmt.Errorf("%s: %d bytes in use that the job cannot give back, %d wanted: %w", d.Path("."), over, *l.Mem,
			ErrInUse)
	}
	if l.MemSwap != nil && use.fixed+use.swap > *l.MemSwap {
		return fmt.Errorf("%s: %d bytes of memory and swap in use that the job cannot give back, %d wanted: %w",
			d.Path("."), use.fixed+use.swap, *l.MemSwap, ErrInUse)
	}
	return nil
}

// memoryUse is a job's use of memory, in bytes.
type memoryUse struct {
	fixed     int64 // everything except what the kernel can drop or write back: page cache and some kernel memory
	swappable int64 // the part of fixed that can be swapped out
	swap      int64
}

// memoryUse reads the job's use of memory, or returns nil. Memory that a cpu has charged in advance
// does not count, because the kernel takes it back.
func (r *reader) memoryUse() *memoryUse {
	if !r.dir.h.v2 {
		m := r.keyed(v1Memory.stat)
		if m == nil {
			return nil
		}
		// v1 does not show which kernel memory can be reclaimed. The kernel refuses the limit if it
		// is not enough.
		return &memoryUse{fixed: int64(m["total_rss"] + m["total_shmem"]), swap: int64(m["total_swap"]),
			swappable: int64(m["total_inactive_anon"] + m["total_active_anon"])}
	}
	current, swap := r.number(v2Memory.current), r.number("memory.swap.current")
	m := r.keyed(v2Memory.stat)
	if m == nil || current == nil {
		return nil
	}
	reclaimable := m["active_file"] + m["inactive_file"] + m["slab_reclaimable"]
	use := &memoryUse{swappable: int64(m["inactive_anon"] + m["active_anon"])}
	use.fixed = max(int64(m["anon"]+m["shmem"]), *current-int64(reclaimable)-setAside)
	if swap != nil {
		use.swap = *swap
	}
	return use
}
